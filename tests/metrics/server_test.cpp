#include "metrics/server.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace kolo {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

// A client that says what it likes.
class Client {
 public:
  explicit Client(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    timeval patience{20, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  // It may have answered, and gone, before all is said.
  void say(const std::string& text) const {
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t sent = ::send(socket_, text.data() + at, text.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) return;
      at += static_cast<std::size_t>(sent);
    }
  }
  // Until the end, or until it ends with that.
  std::string hear(const std::string& end = "") const {
    std::string heard;
    char bytes[4096];
    while (end.empty() || heard.find(end) == std::string::npos) {
      const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
      if (count < 0) return heard + "[error]";
      if (count == 0) break;
      heard.append(bytes, static_cast<std::size_t>(count));
    }
    return heard;
  }

 private:
  const int socket_;
  bool connected_ = false;
};

class ServerTest : public testing::Test {
 protected:
  ServerTest() {
    const Status status = MetricsServer::start(
        "127.0.0.1", 0, [this] { return "served " + std::to_string(++asked_); }, server_);
    EXPECT_TRUE(status.is_ok()) << status.message();
  }
  std::string ask(const std::string& request) const {
    const Client client(server_->port());
    client.say(request);
    return client.hear();
  }

  std::atomic<int> asked_{0};
  std::unique_ptr<MetricsServer> server_;
};

TEST_F(ServerTest, Serves) {
  const std::string answer = ask("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 8\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\nserved 1"));
}

TEST_F(ServerTest, AnswersOnOneConnectionAgainAndAgain) {
  const Client client(server_->port());
  for (const char* answer : {"served 1", "served 2", "served 3"}) {
    client.say("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(client.hear(answer), EndsWith(answer));
  }
}

TEST_F(ServerTest, OfAHeadThereIsOnlyThat) {
  const std::string answer = ask("HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\n"));
}

TEST_F(ServerTest, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(ask("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(ask("DELETE /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 405 "));
  EXPECT_EQ(asked_, 0);
  EXPECT_THAT(ask("GET /metrics?x=1 HTTP/1.0\r\n\r\n"), HasSubstr("served 1"));
}

TEST_F(ServerTest, RefusesWhatIsMalformedOrTooLarge) {
  EXPECT_THAT(ask("hello\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask("GET /metrics HTTP/9.9\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask("GET /metrics HTTP/1.1\r\nno colon\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask("GET /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(ask("GET /" + std::string(20000, 'x') + " HTTP/1.1\r\n\r\n"),
              StartsWith("HTTP/1.1 431 "));
  std::string many = "GET /metrics HTTP/1.1\r\n";
  for (int i = 0; i < 1000; ++i) many += "X-" + std::to_string(i) + ": y\r\n";
  EXPECT_THAT(ask(many + "\r\n"), StartsWith("HTTP/1.1 431 "));
  EXPECT_EQ(asked_, 0);
  EXPECT_THAT(ask("GET /metrics HTTP/1.0\r\n\r\n"), HasSubstr("served 1"));
}

TEST_F(ServerTest, DoesNotWaitForWhoIsSlow) {
  const auto begin = std::chrono::steady_clock::now();
  const Client client(server_->port());
  client.say("GET /metr");
  EXPECT_THAT(ask("GET /metrics HTTP/1.0\r\n\r\n"), HasSubstr("served 1"));
  EXPECT_THAT(client.hear(), IsEmpty());
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took, std::chrono::seconds(15));
}

TEST_F(ServerTest, TakesNotTooManyAtOnce) {
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 16; ++i) {
    clients.push_back(std::make_unique<Client>(server_->port()));
    clients.back()->say("GET /metrics HTTP/1.1\r\n\r\n");
    EXPECT_THAT(clients.back()->hear("served "), HasSubstr("200 OK"));
  }
  EXPECT_THAT(ask("GET /metrics HTTP/1.1\r\n\r\n"), Not(HasSubstr("200 OK")));
  clients.clear();
  std::string answer;
  for (int i = 0; i < 100 && answer.find("200 OK") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    answer = ask("GET /metrics HTTP/1.0\r\n\r\n");
  }
  EXPECT_THAT(answer, HasSubstr("200 OK"));
}

TEST_F(ServerTest, EndsThoughSomebodyIsConnected) {
  const Client client(server_->port());
  client.say("GET /metrics HTTP/1.1\r\n\r\n");
  EXPECT_THAT(client.hear("served 1"), HasSubstr("200 OK"));
  const int port = server_->port();
  server_.reset();
  EXPECT_THAT(client.hear(), IsEmpty());
  EXPECT_FALSE(Client(port).connected());
}

// A child that lives on, as a loader of data, does not keep the next job from the port.
TEST_F(ServerTest, AForkedProcessLetsThePortGo) {
  const int port = server_->port();
  int pipe[2] = {-1, -1};
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(pipe[1]);
    server_->close_in_child();
    char byte = 0;
    ::_exit(::read(pipe[0], &byte, 1) == 0 ? 0 : 1);  // when the other end is closed
  }
  server_.reset();
  std::unique_ptr<MetricsServer> next;
  // The child may not have come as far.
  for (int i = 0; i < 500 && next == nullptr; ++i) {
    if (!MetricsServer::start(
             "127.0.0.1", port, [] { return ""; }, next)
             .is_ok())
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_NE(next, nullptr);
  ::close(pipe[0]);
  ::close(pipe[1]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(ServerTest, SaysWhyItCannot) {
  const auto message = [](const std::string& address, int port) {
    std::unique_ptr<MetricsServer> none;
    return MetricsServer::start(
               address, port, [] { return ""; }, none)
        .message();
  };
  const int taken = server_->port();
  EXPECT_EQ(message("127.0.0.1", taken),
            "metrics cannot be served on 127.0.0.1 port " + std::to_string(taken) +
                ": Address already in use; change KOLO_METRICS_ADDRESS or KOLO_METRICS_PORT");
  EXPECT_THAT(message("nowhere", 9400),
              HasSubstr("metrics cannot be served on nowhere port 9400: "));
  EXPECT_THAT(message("192.0.2.1", 9400), HasSubstr("annot assign requested address"));
}

}  // namespace
}  // namespace kolo
