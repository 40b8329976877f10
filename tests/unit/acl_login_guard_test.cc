#include <doctest/doctest.h>

#include <string>

#include "proxy/acl/login_guard.h"

using proxy::acl::guarded_address;
using proxy::acl::LoginGuard;

TEST_CASE("failures count by address, of IPv6 by network") {
  CHECK(guarded_address("10.0.0.1:5000") == "10.0.0.1");
  CHECK(guarded_address("[2001:db8::1]:5000") == guarded_address("[2001:db8::ffff]:1"));
  CHECK(guarded_address("[2001:db8::1]:5000") != guarded_address("[2001:db8:0:1::1]:5000"));
  CHECK(guarded_address("[::ffff:10.0.0.1]:5000") == "10.0.0.1");
  CHECK(guarded_address("/run/shop.sock:0") == "/run/shop.sock");
}

TEST_CASE("many failures delay the logins of their address, and of no other") {
  LoginGuard guard;
  CHECK(guard.is_quiet());
  CHECK_FALSE(guard.delays("a", 0));
  for (std::uint64_t i = 0; i < LoginGuard::kFailuresMax; ++i) {
    CHECK_FALSE(guard.delays("a", 1000));
    guard.on_failure("a", 1000);
  }
  CHECK(guard.delays("a", 1000));
  CHECK(guard.delays("a", 990));  // By a clock that is behind.
  CHECK_FALSE(guard.delays("b", 1000));
  CHECK_FALSE(guard.is_quiet());
  CHECK_FALSE(guard.delays("a", 1000 + LoginGuard::kForgetMs));
  SUBCASE("never for long") {
    for (int i = 0; i < 1'000'000; ++i) guard.on_failure("a", 1000);
    CHECK(guard.delays("a", 1000));
    CHECK_FALSE(guard.delays("a", 1000 + (LoginGuard::kFailuresMax + 1) * LoginGuard::kForgetMs));
  }
}

TEST_CASE("many addresses take no more than their room, and the first ones stay delayed") {
  LoginGuard guard;
  for (std::uint64_t i = 0; i < LoginGuard::kFailuresMax; ++i) guard.on_failure("first", 1000);
  for (std::size_t i = 0; i < 3 * LoginGuard::kAddressesMax; ++i)
    guard.on_failure(std::to_string(i), 1000);
  CHECK(guard.delays("first", 1000));
  // Once the others are forgotten there is room again.
  const std::uint64_t later = 1000 + 100 * LoginGuard::kForgetMs;
  for (std::uint64_t i = 0; i < LoginGuard::kFailuresMax; ++i) guard.on_failure("last", later);
  CHECK(guard.delays("last", later));
}

TEST_CASE("a few lines a second are logged, and how many were left out") {
  LoginGuard guard;
  for (std::uint64_t i = 0; i < LoginGuard::kLinesPerSecond; ++i) CHECK(guard.may_log(1000) == 1);
  for (int i = 0; i < 100; ++i) CHECK_FALSE(guard.may_log(1999).has_value());
  CHECK(guard.may_log(2000) == 101);
  CHECK(guard.may_log(2000) == 1);
}
