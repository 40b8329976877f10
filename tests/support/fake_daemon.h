// FakeDaemon: an admin port that answers what a test tells it to, and slotctl run against it.
#pragma once

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "admin/commands.h"
#include "tests/support/temp_folder.h"

namespace tests {

inline std::string bulk(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

// Reads what a client sends first and answers it; the next client gets the next answer, and all
// others the last one.
class FakeDaemon {
 public:
  static constexpr const char* kHangsUp = "hangs up";  // In place of an answer.

  // An empty answer: it never answers, and keeps the connection open.
  explicit FakeDaemon(std::string answer, bool is_tcp = false)
      : FakeDaemon(std::vector<std::string>{std::move(answer)}, is_tcp) {}
  explicit FakeDaemon(std::vector<std::string> answers, bool is_tcp = false)
      : answers_(std::move(answers)), path_(folder_.file("admin.sock")) {
    is_tcp ? listen_on_tcp() : listen_on_path();
    REQUIRE(::listen(listener_, 8) == 0);
    thread_ = std::thread([this] {
      for (std::size_t i = 0; serve(answers_[std::min(i, answers_.size() - 1)]); ++i) {
      }
    });
  }
  ~FakeDaemon() {
    finish();
    ::close(listener_);
  }
  FakeDaemon(const FakeDaemon&) = delete;
  FakeDaemon& operator=(const FakeDaemon&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  // What each client sent first. Ends the daemon.
  [[nodiscard]] const std::vector<std::string>& requests() {
    finish();
    return requests_;
  }
  [[nodiscard]] std::string request() { return requests().empty() ? "" : requests().front(); }

 private:
  void finish() {
    if (!thread_.joinable()) return;
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
  }

  void listen_on_path() {
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    REQUIRE(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  }

  void listen_on_tcp() {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    REQUIRE(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), size) == 0);
    REQUIRE(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    path_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }

  // Whether there was another client.
  bool serve(const std::string& answer) {
    const int client = ::accept(listener_, nullptr, nullptr);
    if (client < 0) return false;
    char bytes[65536];
    const ssize_t count = ::recv(client, bytes, sizeof(bytes), 0);
    if (count > 0) requests_.emplace_back(bytes, static_cast<std::size_t>(count));
    if (answer == kHangsUp) {
      ::close(client);
      return true;
    }
    (void)::send(client, answer.data(), answer.size(), MSG_NOSIGNAL);
    // Until the client has closed: it decides how long it waits.
    while (::recv(client, bytes, sizeof(bytes), 0) > 0) {
    }
    ::close(client);
    return true;
  }

  std::vector<std::string> answers_;
  TempFolder folder_;
  std::string path_;
  int listener_ = -1;
  std::vector<std::string> requests_;
  std::thread thread_;
};

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

inline Outcome slotctl(const std::vector<std::string>& arguments,
                       const admin::Surroundings& surroundings = {}) {
  std::ostringstream out;
  std::ostringstream err;
  const int code = admin::run_command_line(arguments, surroundings, out, err);
  return {code, out.str(), err.str()};
}

}  // namespace tests
