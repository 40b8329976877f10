#include "proxy/acl/login_guard.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

namespace proxy::acl {

std::string guarded_address(std::string_view address) {
  std::string host(address.substr(0, address.rfind(':')));
  std::erase_if(host, [](char c) { return c == '[' || c == ']'; });
  in6_addr parsed{};
  if (::inet_pton(AF_INET6, host.c_str(), &parsed) != 1) return host;
  const auto* bytes = reinterpret_cast<const char*>(parsed.s6_addr);
  if (!IN6_IS_ADDR_V4MAPPED(&parsed)) return "v6:" + std::string(bytes, 8);
  char text[INET_ADDRSTRLEN] = {};
  ::inet_ntop(AF_INET, bytes + 12, text, sizeof text);
  return text;
}

bool LoginGuard::delays(const std::string& address, std::uint64_t now_ms) const {
  if (is_quiet()) return false;
  const std::lock_guard guard(mutex_);
  const auto found = addresses_.find(address);
  return found != addresses_.end() && found->second.now(now_ms) >= kFailuresMax;
}

void LoginGuard::on_failure(const std::string& address, std::uint64_t now_ms) {
  const std::lock_guard guard(mutex_);
  if (addresses_.size() >= kAddressesMax && !addresses_.contains(address)) {
    if (now_ms < swept_ms_ + kForgetMs) return;
    swept_ms_ = now_ms;
    std::erase_if(addresses_, [&](const auto& entry) { return entry.second.now(now_ms) == 0; });
    if (addresses_.size() >= kAddressesMax) return;
  }
  Failures& failures = addresses_[address];
  // No more than are forgotten within a while.
  failures.count = std::min(failures.now(now_ms) + 1, 2 * kFailuresMax);
  failures.since_ms = now_ms;
  has_failures_.store(true, std::memory_order_relaxed);
}

std::optional<std::uint64_t> LoginGuard::may_log(std::uint64_t now_ms) {
  const std::lock_guard guard(mutex_);
  if (second_ != now_ms / 1000) {
    second_ = now_ms / 1000;
    lines_ = 0;
  }
  if (lines_ >= kLinesPerSecond) {
    ++left_out_;
    return std::nullopt;
  }
  ++lines_;
  return std::exchange(left_out_, 0) + 1;
}

}  // namespace proxy::acl
