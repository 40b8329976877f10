#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "proxy/net/listener.h"
#include "tests/support/temp_folder.h"

namespace proxy::net {
namespace {

std::uint16_t port_of(int descriptor) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin_port);
}

conf::Address local(std::uint16_t port) { return {"127.0.0.1", port, {}}; }

// -1: refused.
int connect_to(std::uint16_t port) {
  int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0)
    return descriptor;
  ::close(descriptor);
  return -1;
}

int accept_all(int listener) {
  int count = 0;
  for (int client = 0; (client = ::accept(listener, nullptr, nullptr)) >= 0; ++count)
    ::close(client);
  return count;
}

void close_all(const std::vector<int>& descriptors) {
  for (int descriptor : descriptors) ::close(descriptor);
}

TEST_CASE("listeners of one address share its clients, and nobody else may join them") {
  auto first = open_listeners(local(0), 1);
  REQUIRE(first.has_value());
  const std::uint16_t port = port_of(first->front());
  close_all(*first);
  auto opened = open_listeners(local(port), 3);
  REQUIRE(opened.has_value());
  REQUIRE(opened->size() == 3);
  for (std::size_t count : {1U, 3U}) {
    auto second = open_listeners(local(port), count);
    REQUIRE_FALSE(second.has_value());
    CHECK(second.error().code == slots::Errc::Conflict);
    CHECK(second.error().message.find("address in use") != std::string::npos);
  }
  std::vector<int> clients;
  for (int i = 0; i < 300; ++i) clients.push_back(connect_to(port));
  int accepted = 0;
  for (int listener : *opened) {
    const int count = accept_all(listener);
    CHECK(count > 0);
    accepted += count;
  }
  CHECK(accepted == 300);
  close_all(clients);
  close_all(*opened);
}

TEST_CASE("a client that connects while listeners are being opened keeps its connection") {
  auto first = open_listeners(local(0), 1);
  REQUIRE(first.has_value());
  const std::uint16_t port = port_of(first->front());
  close_all(*first);
  std::atomic<bool> is_over = false;
  std::vector<int> clients;
  std::thread connecting([&] {
    while (!is_over) {
      if (int client = connect_to(port); client >= 0) clients.push_back(client);
    }
  });
  auto opened = open_listeners(local(port), 50);
  is_over = true;
  connecting.join();
  REQUIRE(opened.has_value());
  int cut = 0;
  for (int client : clients) {
    pollfd polled{client, POLLIN, 0};
    if (::poll(&polled, 1, 0) > 0) ++cut;
  }
  CHECK(cut == 0);
  close_all(clients);
  close_all(*opened);
}

TEST_CASE("a Unix socket has one listener, and a file that nobody listens on is replaced") {
  const tests::TempFolder folder;
  const conf::Address address{{}, 0, folder.file("listener.sock")};
  for (int i = 0; i < 2; ++i) {  // The second finds the first one's file.
    auto opened = open_listeners(address, 1);
    REQUIRE(opened.has_value());
    CHECK(open_listeners(address, 1).error().code == slots::Errc::Conflict);
    close_all(*opened);
  }
}

}  // namespace
}  // namespace proxy::net
