// Serves a text over HTTP, for Prometheus to scrape.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/status.hpp"

namespace kolo {

class MetricsServer {
 public:
  // Answers GET /metrics with the result of `text`, on the server's own thread. Listens on the
  // address (a number: "127.0.0.1", "::", ...) and port; 0: any free port. Returns an error with
  // the reason on failure.
  static Status start(const std::string& address, int port, std::function<std::string()> text,
                      std::unique_ptr<MetricsServer>& server);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  int port() const;
  // Releases the port in a forked process, which does not have the server's thread.
  void close_in_child();

 private:
  // Returns an empty string, or the reason for the failure.
  static std::string listen(const std::string& address, int port, std::function<std::string()> text,
                            std::unique_ptr<MetricsServer>& server);
  struct Listener;
  explicit MetricsServer(std::unique_ptr<Listener> listener);
  const std::unique_ptr<Listener> listener_;
};

}  // namespace kolo
