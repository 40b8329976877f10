// The kinds of value that options have: each says its form in words, reads it and prints it. Used
// by options.cc only.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "conf/config.h"
#include "slots/result.h"

namespace conf::value {

struct Rate {
  static constexpr std::string_view kForm = "a rate such as 20MB/s, or unlimited";
  static slots::Result<ByteCount> parse(std::string_view text);
  static std::string print(ByteCount bytes_per_second);
};

struct Latency {
  static constexpr std::string_view kForm = "a duration such as 5ms, a factor such as 1.5x, or off";
  static slots::Result<LatencyTarget> parse(std::string_view text);
  static std::string print(const LatencyTarget& target);
};

struct Spread {
  static constexpr std::string_view kForm = "a number above 1 such as 1.25, or off";
  static slots::Result<double> parse(std::string_view text);
  static std::string print(double spread);
};

struct MeasureName {
  static constexpr std::string_view kForm = "slots, keys, bytes or ops";
  static slots::Result<slots::Measure> parse(std::string_view text);
  static std::string print(slots::Measure measure);
};

struct Name {
  static constexpr std::string_view kForm = "a name: letters, digits and . _ -";
  static slots::Result<std::string> parse(std::string_view text);
  static std::string print(const std::string& name) { return name; }
};

// As Redis's user names: anything without blanks and control characters.
struct UserName {
  static constexpr std::string_view kForm = "a name without blanks";
  static slots::Result<std::string> parse(std::string_view text);
  static std::string print(const std::string& name) { return name; }
};

// Free text that must not be empty.
struct Text {
  static constexpr std::string_view kForm = "text";
  static slots::Result<std::string> parse(std::string_view text);
  static std::string print(const std::string& text) { return text; }
};

struct File {
  static constexpr std::string_view kForm =
      "a file; from the configuration's folder when not absolute";
  static slots::Result<std::string> parse(std::string_view text) { return Text::parse(text); }
  static std::string print(const std::string& path) { return path; }
};

// A daemon must not depend on the folder it was started in.
struct AbsolutePath {
  static constexpr std::string_view kForm = "an absolute path";
  static slots::Result<std::string> parse(std::string_view text);
  static std::string print(const std::string& path) { return path; }
};

struct AnyAddress {
  static constexpr std::string_view kForm = "host:port or a Unix socket path";
  static slots::Result<Address> parse(std::string_view text);
  static std::string print(const Address& address) { return address.text(); }
};

// What a cluster client can be sent to.
struct TcpAddress {
  static constexpr std::string_view kForm = "host:port";
  static slots::Result<Address> parse(std::string_view text);
  static std::string print(const Address& address) { return address.text(); }
};

struct Workers {
  static constexpr std::string_view kForm = "auto (one per core) or a number";
  static slots::Result<std::optional<unsigned>> parse(std::string_view text);
  static std::string print(const std::optional<unsigned>& workers);
};

struct DatabaseCount {
  static constexpr std::string_view kForm = "a number, 1 to 64";
  static slots::Result<unsigned> parse(std::string_view text);
  static std::string print(unsigned databases);
};

struct Weight {
  static constexpr std::string_view kForm = "a number, 0 or more";
  static slots::Result<double> parse(std::string_view text);
  static std::string print(double weight);
};

struct Share {
  static constexpr std::string_view kForm = "a share such as 10%";
  static slots::Result<unsigned> parse(std::string_view text);  // Percent.
  static std::string print(unsigned percent);
};

struct Switch {
  static constexpr std::string_view kForm = "true or false";
  static slots::Result<bool> parse(std::string_view text);
  static std::string print(bool on) { return on ? "true" : "false"; }
};

struct ApprovalName {
  static constexpr std::string_view kForm = "one_person or two_person";
  static slots::Result<Approval> parse(std::string_view text);
  static std::string print(Approval approval);
};

struct PlacementName {
  static constexpr std::string_view kForm = "balanced, ring, rendezvous or modulo";
  static slots::Result<slots::PlacementKind> parse(std::string_view text);
  static std::string print(slots::PlacementKind kind);
};

struct LogLevelName {
  static constexpr std::string_view kForm = "debug, info, warn or error";
  static slots::Result<LogLevel> parse(std::string_view text);
  static std::string print(LogLevel level);
};

struct Count {
  static constexpr std::string_view kForm = "a number";
  static slots::Result<std::uint64_t> parse(std::string_view text);  // 1 .. 10^12
  static std::string print(std::uint64_t count) { return std::to_string(count); }
};

struct CountOrZero {
  static constexpr std::string_view kForm = "a number, or 0";
  static slots::Result<std::uint64_t> parse(std::string_view text);
  static std::string print(std::uint64_t count) { return std::to_string(count); }
};

// At least a kilobyte: below it the proxy could not pass an ordinary command.
struct Size {
  static constexpr std::string_view kForm = "a size such as 64MB or 512KiB";
  static slots::Result<ByteCount> parse(std::string_view text);
  static std::string print(ByteCount bytes);
};

struct SizeOrZero {
  static constexpr std::string_view kForm = Size::kForm;
  static slots::Result<ByteCount> parse(std::string_view text);
  static std::string print(ByteCount bytes) { return Size::print(bytes); }
};

struct Duration {
  static constexpr std::string_view kForm = "a duration such as 500ms or 3s";
  static slots::Result<Milliseconds> parse(std::string_view text);  // Above 0.
  static std::string print(Milliseconds duration);
};

struct DurationOrZero {
  static constexpr std::string_view kForm = "a duration such as 500ms or 3s, or 0";
  static slots::Result<Milliseconds> parse(std::string_view text);
  static std::string print(Milliseconds duration) { return Duration::print(duration); }
};

}  // namespace conf::value
