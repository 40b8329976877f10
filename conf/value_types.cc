#include "conf/value_types.h"

#include <fmt/format.h>

#include <algorithm>

#include "conf/loader.h"
#include "conf/units.h"
#include "conf/words.h"

namespace conf::value {
namespace {

using slots::Errc;
using slots::fail;
using slots::Result;

constexpr std::size_t kNameBytesMax = 64;
constexpr std::size_t kTextBytesMax = 4096;
constexpr unsigned kWorkersMax = 256;
constexpr std::uint64_t kCountMax = 1'000'000'000'000;
constexpr ByteCount kSizeMin = 1000;

// A word of a fixed list, with the nearest one when it is none of them.
template <std::size_t N>
std::unexpected<slots::Error> not_one_of(std::string_view text,
                                         const std::array<std::string_view, N>& words) {
  const std::string_view meant = closest(text, words);
  const std::string hint = meant.empty() ? "" : fmt::format("; did you mean {}?", in_quotes(meant));
  return fail(Errc::InvalidArgument,
              fmt::format("{} is not one of {}{}", in_quotes(text), fmt::join(words, ", "), hint));
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

constexpr std::array<std::string_view, 4> kLogLevels{"debug", "info", "warn", "error"};
constexpr std::string_view kOff = "off";
constexpr double kFactorMax = 1000;

}  // namespace

Result<LatencyTarget> Latency::parse(std::string_view text) {
  if (text == kOff) return LatencyTarget{};
  if (text.ends_with('x')) {
    const auto factor = parse_weight(text.substr(0, text.size() - 1));
    if (factor && *factor > 1 && *factor <= kFactorMax)
      return LatencyTarget{.at_most = {}, .times_usual = *factor};
  } else if (const auto duration = parse_duration(text); duration && duration->count() > 0) {
    return LatencyTarget{.at_most = *duration, .times_usual = 0};
  }
  return fail(Errc::InvalidArgument,
              fmt::format("{} is no latency; write a duration such as 5ms, a factor above 1 such "
                          "as 1.5x, or off",
                          in_quotes(text)));
}

std::string Latency::print(const LatencyTarget& target) {
  if (target.at_most.count() > 0) return print_duration(target.at_most);
  return target.times_usual > 0 ? print_weight(target.times_usual) + "x" : std::string(kOff);
}

Result<double> Spread::parse(std::string_view text) {
  if (text == kOff) return 0;
  const auto spread = parse_weight(text);
  if (spread && *spread > 1 && *spread <= kFactorMax) return *spread;
  return fail(
      Errc::InvalidArgument,
      fmt::format("{} is no spread; write a number above 1 such as 1.25, or off", in_quotes(text)));
}

std::string Spread::print(double spread) {
  return spread > 0 ? print_weight(spread) : std::string(kOff);
}

Result<slots::Measure> MeasureName::parse(std::string_view text) {
  const auto found = std::ranges::find(slots::kMeasureNames, text);
  if (found == slots::kMeasureNames.end()) return not_one_of(text, slots::kMeasureNames);
  return static_cast<slots::Measure>(found - slots::kMeasureNames.begin());
}

std::string MeasureName::print(slots::Measure measure) {
  return std::string(slots::kMeasureNames.at(static_cast<std::size_t>(measure)));
}

Result<std::string> Name::parse(std::string_view text) {
  if (text.empty() || text.size() > kNameBytesMax ||
      !std::ranges::all_of(text, is_name_character)) {
    return fail(Errc::InvalidArgument,
                fmt::format("{} is not a name: names have 1 to {} letters, digits and . _ -",
                            in_quotes(text), kNameBytesMax));
  }
  return std::string(text);
}

Result<std::string> UserName::parse(std::string_view text) {
  const bool has_others = std::ranges::any_of(
      text, [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7F; });
  if (text.empty() || text.size() > kNameBytesMax || has_others) {
    return fail(Errc::InvalidArgument,
                fmt::format("{} is not a user's name: those have 1 to {} bytes and no blanks",
                            in_quotes(text), kNameBytesMax));
  }
  return std::string(text);
}

Result<std::string> Text::parse(std::string_view text) {
  if (text.empty())
    return fail(Errc::InvalidArgument, "is empty; leave the key out if none is meant");
  if (text.size() > kTextBytesMax) {
    return fail(Errc::InvalidArgument, fmt::format("{} is longer than {} bytes",
                                                   in_quotes(text.substr(0, 20)), kTextBytesMax));
  }
  if (text.find('\0') != std::string_view::npos) {
    return fail(Errc::InvalidArgument,
                in_quotes(text) + " holds a zero byte; neither paths nor passwords can");
  }
  return std::string(text);
}

Result<std::string> AbsolutePath::parse(std::string_view text) {
  auto path = Text::parse(text);
  if (path && path->front() != '/') {
    return fail(Errc::InvalidArgument, fmt::format("{} is not an absolute path; it must begin with "
                                                   "\"/\", so that it does not depend on where "
                                                   "the proxy is started",
                                                   in_quotes(text)));
  }
  return path;
}

Result<Address> AnyAddress::parse(std::string_view text) { return parse_address(text); }

Result<Address> TcpAddress::parse(std::string_view text) {
  auto address = parse_address(text);
  if (address && address->is_unix()) {
    return fail(
        Errc::InvalidArgument,
        in_quotes(text) + " is a Unix socket; cluster clients can only be sent to host:port");
  }
  return address;
}

Result<std::optional<unsigned>> Workers::parse(std::string_view text) {
  if (text == "auto") return std::optional<unsigned>{};
  const auto count = parse_count(text, 1, kWorkersMax);
  if (!count) {
    return fail(Errc::InvalidArgument,
                fmt::format("{} is neither auto (one per core) nor a number from 1 to {}",
                            in_quotes(text), kWorkersMax));
  }
  return std::optional(static_cast<unsigned>(*count));
}

std::string Workers::print(const std::optional<unsigned>& workers) {
  return workers ? std::to_string(*workers) : "auto";
}

Result<unsigned> DatabaseCount::parse(std::string_view text) {
  const auto count = parse_count(text, 1, kDatabasesMax);
  if (!count) {
    return fail(Errc::InvalidArgument,
                fmt::format("{} is no number from 1 to {}", in_quotes(text), kDatabasesMax));
  }
  return static_cast<unsigned>(*count);
}

std::string DatabaseCount::print(unsigned databases) { return std::to_string(databases); }

Result<double> Weight::parse(std::string_view text) { return parse_weight(text); }
std::string Weight::print(double weight) { return print_weight(weight); }

Result<unsigned> Share::parse(std::string_view text) {
  constexpr unsigned kAll = 100;
  if (text.ends_with('%')) {
    if (const auto percent = parse_count(text.substr(0, text.size() - 1), 1, kAll))
      return static_cast<unsigned>(*percent);
  }
  return fail(Errc::InvalidArgument,
              fmt::format("{} is not a share: write whole percents from 1% to 100%, such as 10%",
                          in_quotes(text)));
}

std::string Share::print(unsigned percent) { return fmt::format("{}%", percent); }

Result<bool> Switch::parse(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return fail(Errc::InvalidArgument, in_quotes(text) + " is neither true nor false");
}

Result<slots::PlacementKind> PlacementName::parse(std::string_view text) {
  if (const auto kind = slots::parse_placement_kind(text)) return *kind;
  constexpr std::array<std::string_view, 4> kNames{"balanced", "ring", "rendezvous", "modulo"};
  return not_one_of(text, kNames);
}

std::string PlacementName::print(slots::PlacementKind kind) {
  return std::string(slots::to_string(kind));
}

Result<Approval> ApprovalName::parse(std::string_view text) {
  constexpr std::array<std::string_view, 2> kNames{"one_person", "two_person"};
  if (text == kNames[0]) return Approval::OnePerson;
  if (text == kNames[1]) return Approval::TwoPerson;
  return not_one_of(text, kNames);
}

std::string ApprovalName::print(Approval approval) {
  return approval == Approval::TwoPerson ? "two_person" : "one_person";
}

Result<LogLevel> LogLevelName::parse(std::string_view text) {
  const auto found = std::ranges::find(kLogLevels, text);
  if (found == kLogLevels.end()) return not_one_of(text, kLogLevels);
  return static_cast<LogLevel>(found - kLogLevels.begin());
}

std::string LogLevelName::print(LogLevel level) {
  return std::string(kLogLevels[static_cast<std::size_t>(level)]);
}

Result<std::uint64_t> Count::parse(std::string_view text) {
  return parse_count(text, 1, kCountMax);
}

Result<std::uint64_t> CountOrZero::parse(std::string_view text) {
  return parse_count(text, 0, kCountMax);
}

Result<ByteCount> Size::parse(std::string_view text) {
  auto bytes = parse_size(text);
  if (bytes && *bytes < kSizeMin) {
    return fail(Errc::InvalidArgument,
                fmt::format("{} is too small; the least is 1KB", in_quotes(text)));
  }
  return bytes;
}

std::string Size::print(ByteCount bytes) { return print_size(bytes); }

Result<ByteCount> Rate::parse(std::string_view text) { return parse_rate(text); }
std::string Rate::print(ByteCount bytes_per_second) { return print_rate(bytes_per_second); }

Result<ByteCount> SizeOrZero::parse(std::string_view text) { return parse_size(text); }

Result<Milliseconds> Duration::parse(std::string_view text) {
  auto duration = parse_duration(text);
  if (duration && duration->count() == 0) {
    return fail(Errc::InvalidArgument,
                fmt::format("{} must be more than 0, such as 1s", in_quotes(text)));
  }
  return duration;
}

std::string Duration::print(Milliseconds duration) { return print_duration(duration); }

Result<Milliseconds> DurationOrZero::parse(std::string_view text) { return parse_duration(text); }

}  // namespace conf::value
