// Serves a text over HTTP: what Prometheus scrapes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/status.hpp"

namespace kolo {

class MetricsServer {
 public:
  // GET /metrics answers what `text` gives, on a thread of the server's. Listens on the address (a
  // number: "127.0.0.1", "::", ...) and port; 0: one that is free. An error says why it cannot.
  static Status start(const std::string& address, int port, std::function<std::string()> text,
                      std::unique_ptr<MetricsServer>& server);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  int port() const;
  // In a forked process, which has no thread for it: lets the port go.
  void close_in_child();

 private:
  // Empty, or why it cannot.
  static std::string listen(const std::string& address, int port, std::function<std::string()> text,
                            std::unique_ptr<MetricsServer>& server);
  struct Listener;
  explicit MetricsServer(std::unique_ptr<Listener> listener);
  const std::unique_ptr<Listener> listener_;
};

}  // namespace kolo
