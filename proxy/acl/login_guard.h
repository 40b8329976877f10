// LoginGuard: who guesses passwords. From an address with many failed logins of late every login
// waits for kDelayMs before it is looked at, right or wrong: whoever guesses gets one answer a
// second and connection, and whoever knows the password gets in all the same, a second later.
// Nobody is ever refused, and other addresses notice nothing. Also says which failures are worth a
// line in the log.
//
// Thread:  any; behind a mutex, which only logins take once one has failed.
// Limits:  kAddressesMax addresses; of those beyond, logins are not delayed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace proxy::acl {

// Whose failures count together: an IPv4 address, the first 64 bits of an IPv6 one (one network may
// have all of them), any other text as it is. `address` is "host:port" as clients are listed.
[[nodiscard]] std::string guarded_address(std::string_view address);

class LoginGuard {
 public:
  // Whether a login from there has to wait.
  [[nodiscard]] bool delays(const std::string& address, std::uint64_t now_ms) const;
  // Nothing has failed lately: no address has to wait.
  [[nodiscard]] bool is_quiet() const { return !has_failures_.load(std::memory_order_relaxed); }

  void on_failure(const std::string& address, std::uint64_t now_ms);
  // How many failures the line about the one of now speaks for; nothing: it gets none, and is
  // counted for the next.
  [[nodiscard]] std::optional<std::uint64_t> may_log(std::uint64_t now_ms);

  static constexpr std::uint64_t kFailuresMax = 10;  // Forgotten one by one, in kForgetMs each.
  static constexpr std::uint64_t kForgetMs = 1000;
  static constexpr std::uint64_t kDelayMs = 1000;
  static constexpr std::uint64_t kLinesPerSecond = 5;
  static constexpr std::size_t kAddressesMax = 10'000;

 private:
  struct Failures {
    std::uint64_t count = 0;  // Until since_ms.
    std::uint64_t since_ms = 0;

    [[nodiscard]] std::uint64_t now(std::uint64_t now_ms) const {
      // Each worker has a clock of its own, which may be a little behind.
      const std::uint64_t forgotten = now_ms > since_ms ? (now_ms - since_ms) / kForgetMs : 0;
      return count > forgotten ? count - forgotten : 0;
    }
  };

  mutable std::mutex mutex_;
  std::atomic<bool> has_failures_ = false;
  std::unordered_map<std::string, Failures> addresses_;
  std::uint64_t swept_ms_ = 0;
  std::uint64_t second_ = 0;  // Of the lines that were logged last.
  std::uint64_t lines_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace proxy::acl
