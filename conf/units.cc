#include "conf/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>

#include "conf/words.h"

namespace conf {
namespace {

using slots::Errc;
using slots::fail;
using slots::Result;

struct Unit {
  std::string_view name;
  std::uint64_t size;
};

constexpr std::array<Unit, 7> kSizeUnits{{{"GB", 1'000'000'000},
                                          {"MB", 1'000'000},
                                          {"KB", 1'000},
                                          {"GiB", 1ULL << 30},
                                          {"MiB", 1ULL << 20},
                                          {"KiB", 1ULL << 10},
                                          {"B", 1}}};
constexpr std::array<Unit, 4> kDurationUnits{
    {{"h", 3'600'000}, {"m", 60'000}, {"s", 1'000}, {"ms", 1}}};

constexpr std::string_view kSizeHelp =
    "units are B, KB, MB, GB (powers of 10) and KiB, MiB, GiB (powers of 2)";
constexpr std::string_view kDurationHelp = "units are ms, s, m, h";
constexpr ByteCount kSizeMax = 1ULL << 50;
constexpr std::uint64_t kDurationMsMax = 365ULL * 24 * 3'600'000;

struct Quantity {
  std::string_view number;
  std::string_view unit;
};

Quantity split_unit(std::string_view text) {
  std::size_t end = text.find_first_not_of("0123456789.");
  if (end == std::string_view::npos) end = text.size();
  std::string_view unit = text.substr(end);
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  return {text.substr(0, end), unit};
}

const Unit* find_unit(std::span<const Unit> units, std::string_view name) {
  for (const Unit& unit : units) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

// number × size when that is a whole number up to `max`. Decimal digits are worked out in integers:
// 0.1 has no exact double.
std::optional<std::uint64_t> times(std::string_view number, std::uint64_t size, std::uint64_t max) {
  constexpr std::size_t kDecimalsMax = 9;
  const std::size_t dot = number.find('.');
  const std::string_view whole_text = number.substr(0, dot);
  const std::string_view decimals =
      dot == std::string_view::npos ? std::string_view{} : number.substr(dot + 1);
  std::uint64_t whole = 0;
  const auto [end, error] =
      std::from_chars(whole_text.data(), whole_text.data() + whole_text.size(), whole);
  if (error != std::errc{} || end != whole_text.data() + whole_text.size() || whole > max / size)
    return {};
  if (dot == std::string_view::npos) return whole * size;
  if (decimals.empty() || decimals.size() > kDecimalsMax) return {};
  std::uint64_t part = 0;
  std::uint64_t scale = 1;
  for (const char c : decimals) {
    if (c < '0' || c > '9') return {};
    part = part * 10 + static_cast<std::uint64_t>(c - '0');
    scale *= 10;
  }
  // Below 10^9 × 2^30, so this fits.
  if (part * size % scale != 0) return {};
  const std::uint64_t total = whole * size + part * size / scale;
  return total <= max ? std::optional(total) : std::nullopt;
}

}  // namespace

Result<std::uint64_t> parse_count(std::string_view text, std::uint64_t min, std::uint64_t max) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc{} && end == text.data() + text.size();
  if (!is_number || value < min || value > max) {
    return fail(Errc::InvalidArgument,
                fmt::format("{} is not a whole number from {} to {}", in_quotes(text), min, max));
  }
  return value;
}

Result<ByteCount> parse_size(std::string_view text) {
  const Quantity quantity = split_unit(text);
  if (quantity.number.empty()) {
    return fail(Errc::InvalidArgument,
                fmt::format("{} is not a size; write a number and a unit, such as 64MB; {}",
                            in_quotes(text), kSizeHelp));
  }
  const Unit* unit = find_unit(kSizeUnits, quantity.unit.empty() ? "B" : quantity.unit);
  if (unit == nullptr) {
    return fail(Errc::InvalidArgument,
                fmt::format("{} is not a size: unknown unit {}; {}", in_quotes(text),
                            in_quotes(quantity.unit), kSizeHelp));
  }
  const auto bytes = times(quantity.number, unit->size, kSizeMax);
  if (!bytes) {
    return fail(
        Errc::InvalidArgument,
        fmt::format("{} is not a whole number of bytes from 0 to 1048576GiB", in_quotes(text)));
  }
  return *bytes;
}

std::string print_size(ByteCount bytes) {
  if (bytes == 0) return "0";
  for (const Unit& unit : kSizeUnits) {
    if (bytes % unit.size == 0) return fmt::format("{}{}", bytes / unit.size, unit.name);
  }
  return fmt::format("{}B", bytes);
}

Result<ByteCount> parse_rate(std::string_view text) {
  constexpr std::string_view kPerSecond = "/s";
  if (text == "unlimited") return ByteCount{0};
  const auto size = text.ends_with(kPerSecond)
                        ? parse_size(text.substr(0, text.size() - kPerSecond.size()))
                        : parse_size("");
  const char* wrong = !size ? "is not a rate" : *size == 0 ? "moves nothing" : nullptr;
  if (wrong == nullptr) return size;
  return fail(Errc::InvalidArgument,
              fmt::format("{} {}; write a size per second, such as 20MB/s, or unlimited",
                          in_quotes(text), wrong));
}

std::string print_rate(ByteCount bytes_per_second) {
  return bytes_per_second == 0 ? "unlimited" : print_size(bytes_per_second) + "/s";
}

Result<Milliseconds> parse_duration(std::string_view text) {
  if (text == "0") return Milliseconds{0};
  const Quantity quantity = split_unit(text);
  if (quantity.number.empty()) {
    return fail(Errc::InvalidArgument,
                fmt::format("{} is not a duration; write a number and a unit, such as 3s; {}",
                            in_quotes(text), kDurationHelp));
  }
  if (quantity.unit.empty()) {
    return fail(Errc::InvalidArgument,
                fmt::format("{} has no unit; write {}s or {}ms, for example; {}", in_quotes(text),
                            quantity.number, quantity.number, kDurationHelp));
  }
  const Unit* unit = find_unit(kDurationUnits, quantity.unit);
  if (unit == nullptr) {
    return fail(Errc::InvalidArgument,
                fmt::format("{} is not a duration: unknown unit {}; {}", in_quotes(text),
                            in_quotes(quantity.unit), kDurationHelp));
  }
  const auto milliseconds = times(quantity.number, unit->size, kDurationMsMax);
  if (!milliseconds) {
    return fail(Errc::InvalidArgument,
                fmt::format("{} is not a whole number of milliseconds from 0 to 8760h (a year)",
                            in_quotes(text)));
  }
  return Milliseconds{static_cast<Milliseconds::rep>(*milliseconds)};
}

std::string print_duration(Milliseconds duration) {
  const auto milliseconds = static_cast<std::uint64_t>(duration.count());
  if (milliseconds == 0) return "0";
  // Minutes stay seconds up to two of them: people write 60s.
  for (const Unit& unit : kDurationUnits) {
    if (milliseconds % unit.size == 0 && (unit.size <= 1'000 || milliseconds / unit.size > 1)) {
      return fmt::format("{}{}", milliseconds / unit.size, unit.name);
    }
  }
  return fmt::format("{}ms", milliseconds);
}

Result<double> parse_weight(std::string_view text) {
  constexpr double kWeightMax = 1e6;
  double weight = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), weight);
  const bool is_number =
      error == std::errc{} && end == text.data() + text.size() && std::isfinite(weight);
  if (!is_number || weight < 0 || weight > kWeightMax) {
    return fail(
        Errc::InvalidArgument,
        fmt::format("{} is not a weight; write a number from 0 to 1000000, such as 1 or 0.5",
                    in_quotes(text)));
  }
  return weight + 0.0;  // -0 becomes 0.
}

std::string print_weight(double weight) { return fmt::format("{}", weight); }

}  // namespace conf
