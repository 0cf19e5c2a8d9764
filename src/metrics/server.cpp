#include "metrics/server.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/version.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "core/log.hpp"

namespace kolo {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

// Scrapers open few connections.
constexpr int kMostConnections = 16;
constexpr std::uint32_t kMostHeaderBytes = 8192;
constexpr std::chrono::seconds kPatience{5};

// Pause after a failed accept (no descriptors left, say).
constexpr std::chrono::milliseconds kPause{100};

http::response<http::string_body> answer_to(const http::request<http::empty_body>& request,
                                            const std::function<std::string()>& text) {
  http::response<http::string_body> response(http::status::ok, request.version());
  response.set(http::field::content_type, "text/plain; version=0.0.4; charset=utf-8");
  const bool reads = request.method() == http::verb::get || request.method() == http::verb::head;
  if (!reads) {
    response.result(http::status::method_not_allowed);
    response.set(http::field::allow, "GET, HEAD");
    response.body() = "only GET and HEAD are supported\n";
  } else if (request.target().substr(0, request.target().find('?')) != "/metrics") {
    response.result(http::status::not_found);
    response.body() = "the metrics are at /metrics\n";
  } else {
    response.body() = text();
  }
  return response;
}

// Keeps programs that this process starts from inheriting the port.
void close_on_exec(int socket) {
  if (::fcntl(socket, F_SETFD, FD_CLOEXEC) != 0) log::debug("metrics: FD_CLOEXEC failed");
}

// A connection, which answers one request after the other.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, std::function<std::string()> text, int& open)
      : stream_(std::move(socket)), text_(std::move(text)), open_(open) {
    ++open_;
    close_on_exec(stream_.socket().native_handle());
  }
  ~Connection() { --open_; }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void read() {
    parser_.emplace();
    parser_->header_limit(kMostHeaderBytes);
    parser_->body_limit(0);
    stream_.expires_after(kPatience);
    http::async_read(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](const error_code& error, std::size_t) { self->answer(error); });
  }

 private:
  void answer(const error_code& error) {
    if (error == http::error::end_of_stream || error == beast::error::timeout) return close();
    const bool is_malformed =
        error.category() == http::make_error_code(http::error::bad_method).category();
    if (error && !is_malformed) return;
    if (error) {
      response_ = {http::status::bad_request, 11};
      if (error == http::error::header_limit || error == http::error::buffer_overflow)
        response_.result(http::status::request_header_fields_too_large);
      if (error == http::error::body_limit) response_.result(http::status::payload_too_large);
      response_.body() = error.message() + "\n";
      response_.keep_alive(false);
    } else {
      response_ = answer_to(parser_->get(), text_);
      response_.keep_alive(parser_->get().keep_alive());
    }
    response_.set(http::field::server, "kolo");
    response_.prepare_payload();
    stream_.expires_after(kPatience);
    const bool is_head = !error && parser_->get().method() == http::verb::head;
    if (is_head) {
      serializer_.emplace(response_);
      serializer_->split(true);
      http::async_write_header(stream_, *serializer_, done());
    } else {
      http::async_write(stream_, response_, done());
    }
  }

  std::function<void(const error_code&, std::size_t)> done() {
    return [self = shared_from_this()](const error_code& error, std::size_t) {
      if (!error && self->response_.keep_alive()) return self->read();
      self->close();
    };
  }

  // Reads the rest of the request: otherwise the kernel would reset the connection and drop the
  // answer.
  void close() {
    error_code ignored;  // the peer may have gone already
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    stream_.expires_after(kPatience);
    drop();
  }
  void drop() {
    stream_.async_read_some(asio::buffer(dropped_),
                            [self = shared_from_this()](const error_code& error, std::size_t) {
                              if (!error) self->drop();
                            });
  }

  beast::tcp_stream stream_;
  const std::function<std::string()> text_;
  int& open_;  // connections; outlives this
  std::array<char, 4096> dropped_{};
  beast::flat_buffer buffer_{kMostHeaderBytes + 1024};
  std::optional<http::request_parser<http::empty_body>> parser_;
  http::response<http::string_body> response_;
  std::optional<http::response_serializer<http::string_body>> serializer_;
};

}  // namespace

// Runs on one thread, except for its construction and its end.
struct MetricsServer::Listener {
  explicit Listener(std::function<std::string()> what) : text(std::move(what)) {}

  void accept() {
    acceptor.async_accept([this](const error_code& error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) {
        pause.expires_after(kPause);
        return pause.async_wait([this](const error_code& ended) {
          if (!ended) accept();
        });
      }
      accept();  // first, because the rest may throw
      if (open < kMostConnections)
        std::make_shared<Connection>(std::move(socket), text, open)->read();
    });
  }

  // Continues after an error: what one answer lacks (memory, say), the next one may have.
  void run() {
    while (!context.stopped()) {
      try {
        context.run();
      } catch (const std::exception& error) {
        log::warning(std::string("metrics: ") + error.what());
      }
    }
  }

  const std::function<std::string()> text;
  int open = 0;
  asio::io_context context{1};
  tcp::acceptor acceptor{context};
  asio::steady_timer pause{context};
  std::thread thread;
};

Status MetricsServer::start(const std::string& address, int port, std::function<std::string()> text,
                            std::unique_ptr<MetricsServer>& server) {
  const auto failed = [&](const std::string& why) {
    return Status::invalid_argument("metrics cannot be served on " + address + " port " +
                                    std::to_string(port) + ": " + why +
                                    "; change KOLO_METRICS_ADDRESS or KOLO_METRICS_PORT");
  };
  try {
    const std::string why = listen(address, port, std::move(text), server);
    return why.empty() ? Status::ok() : failed(why);
  } catch (const std::exception& error) {  // no descriptors, no threads
    return failed(error.what());
  }
}

std::string MetricsServer::listen(const std::string& address, int port,
                                  std::function<std::string()> text,
                                  std::unique_ptr<MetricsServer>& server) {
  auto listener = std::make_unique<Listener>(std::move(text));
  error_code error;
  const asio::ip::address parsed = asio::ip::make_address(address, error);
  if (!error) {
    const tcp::endpoint endpoint(parsed, static_cast<unsigned short>(port));
    listener->acceptor.open(endpoint.protocol(), error);
    if (!error) listener->acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) listener->acceptor.bind(endpoint, error);
    if (!error) listener->acceptor.listen(asio::socket_base::max_listen_connections, error);
  }
  if (error) return error.message();
  close_on_exec(listener->acceptor.native_handle());
  listener->accept();
  Listener& running = *listener;
  running.thread = std::thread([&running] { running.run(); });
  server.reset(new MetricsServer(std::move(listener)));
  return "";
}

MetricsServer::MetricsServer(std::unique_ptr<Listener> listener) : listener_(std::move(listener)) {}

MetricsServer::~MetricsServer() {
  listener_->context.stop();
  listener_->thread.join();
}

void MetricsServer::close_in_child() {
  ::close(listener_->acceptor.native_handle());
}

int MetricsServer::port() const {
  error_code error;
  return listener_->acceptor.local_endpoint(error).port();
}

}  // namespace kolo
