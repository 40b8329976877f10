#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proxy/net/resolver.h"
#include "tests/support/test_loop.h"

using proxy::net::literal_address;
using proxy::net::Resolver;
using proxy::net::SocketAddress;
using tests::TestLoop;

namespace {

using Addresses = slots::Result<std::vector<SocketAddress>>;

Addresses resolve(const conf::Address& address) {
  TestLoop loop;
  Resolver resolver(loop.get());
  std::optional<Addresses> result;
  resolver.resolve(address, [&](Addresses addresses) { result = std::move(addresses); });
  CHECK_FALSE(result.has_value());
  CHECK(resolver.is_resolving());
  REQUIRE(loop.run_until([&] { return result.has_value(); }));
  CHECK_FALSE(resolver.is_resolving());
  return *result;
}

}  // namespace

TEST_CASE("literal addresses and paths are addresses already") {
  SUBCASE("IPv4") {
    const auto addresses = resolve({"127.0.0.1", 7001, {}});
    REQUIRE(addresses.has_value());
    REQUIRE(addresses->size() == 1);
    CHECK(addresses->front().family() == AF_INET);
    CHECK(addresses->front().text() == "127.0.0.1:7001");
  }
  SUBCASE("IPv6") {
    const auto addresses = resolve({"::1", 7001, {}});
    REQUIRE(addresses.has_value());
    CHECK(addresses->front().family() == AF_INET6);
    CHECK(addresses->front().text() == "[::1]:7001");
  }
  SUBCASE("a Unix path") {
    const auto addresses = resolve({"", 0, "/run/redis/a.sock"});
    REQUIRE(addresses.has_value());
    CHECK(addresses->front().family() == AF_UNIX);
    CHECK(addresses->front().path() == "/run/redis/a.sock");
    CHECK(addresses->front().text() == "/run/redis/a.sock");
  }
  SUBCASE("at once, where that is wanted; a name is not among them") {
    CHECK(literal_address({"10.0.0.1", 1, {}})->text() == "10.0.0.1:1");
    CHECK_FALSE(literal_address({"localhost", 1, {}}).has_value());
  }
}

TEST_CASE("a name becomes its addresses, with the port") {
  const auto addresses = resolve({"localhost", 7001, {}});
  REQUIRE(addresses.has_value());
  for (const SocketAddress& address : *addresses) {
    CHECK((address.text() == "127.0.0.1:7001" || address.text() == "[::1]:7001"));
  }
}

TEST_CASE("what can't be resolved says which name and why") {
  SUBCASE("a name that can't exist") {
    const auto addresses = resolve({"no such name", 7001, {}});
    REQUIRE_FALSE(addresses.has_value());
    CHECK(addresses.error().code == slots::Errc::Unavailable);
    CHECK(addresses.error().message.find("\"no such name\"") != std::string::npos);
  }
  SUBCASE("a name that is too long even to ask for") {
    CHECK_FALSE(resolve({std::string(5000, 'x'), 7001, {}}).has_value());
  }
  SUBCASE("a path that does not fit into a socket address") {
    const auto addresses = resolve({"", 0, "/" + std::string(200, 'x')});
    REQUIRE_FALSE(addresses.has_value());
    CHECK(addresses.error().code == slots::Errc::InvalidArgument);
    CHECK(addresses.error().message.find("107 bytes") != std::string::npos);
  }
}

TEST_CASE("after cancel(), destruction or another question the first one is not answered") {
  for (const std::string host : {"127.0.0.1", "localhost"}) {
    for (const std::string way : {"cancel", "destroy", "ask again"}) {
      CAPTURE(host);
      CAPTURE(way);
      TestLoop loop;
      auto resolver = std::make_unique<Resolver>(loop.get());
      bool called = false;
      bool called_second = way != "ask again";
      resolver->resolve({host, 1, {}}, [&](const Addresses&) { called = true; });
      if (way == "cancel") resolver->cancel();
      if (way == "destroy") resolver.reset();
      if (way == "ask again")
        resolver->resolve({"::1", 1, {}}, [&](const Addresses&) { called_second = true; });
      CHECK(loop.run_until([&] { return uv_loop_alive(loop.get()) == 0; }));
      CHECK_FALSE(called);
      CHECK(called_second);
    }
  }
}

TEST_CASE("the answer may destroy the resolver") {
  TestLoop loop;
  auto resolver = std::make_unique<Resolver>(loop.get());
  conf::Address address{"127.0.0.1", 1, {}};
  SUBCASE("a literal") {}
  SUBCASE("a name") { address.host = "localhost"; }
  resolver->resolve(address, [&](const Addresses&) { resolver.reset(); });
  CHECK(loop.run_until([&] { return resolver == nullptr; }));
}
