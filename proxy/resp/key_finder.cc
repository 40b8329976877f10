#include "proxy/resp/key_finder.h"

#include <strings.h>

#include <charconv>

#include "proxy/resp/command_table.h"

namespace proxy::resp {

namespace {

constexpr const char* kInvalid = "ERR Invalid arguments specified for command";

bool is_word(std::string_view arg, std::string_view word) {
  return arg.size() == word.size() && ::strncasecmp(arg.data(), word.data(), word.size()) == 0;
}

void find_range(const CommandSpec& spec, Args args, std::vector<std::uint32_t>& positions) {
  auto count = static_cast<std::int64_t>(args.size());
  std::int64_t last = spec.last_key < 0 ? count + spec.last_key : spec.last_key;
  for (std::int64_t i = spec.first_key; i <= last && i < count; i += spec.key_step) {
    positions.push_back(static_cast<std::uint32_t>(i));
  }
}

slots::Status find_counted(const CommandSpec& spec, Args args, std::vector<std::uint32_t>& positions) {
  auto first = static_cast<std::size_t>(spec.first_key);
  std::string_view text = args[first - 1];
  std::int64_t keys = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), keys);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return slots::fail(slots::Errc::InvalidArgument, "ERR value is not an integer or out of range");
  }
  bool none_allowed = spec.has(CommandFlag::NoMandatoryKeys);
  if (keys < 0) return slots::fail(slots::Errc::InvalidArgument, "ERR Number of keys can't be negative");
  if (static_cast<std::uint64_t>(keys) > args.size() - first) {
    return slots::fail(slots::Errc::InvalidArgument, none_allowed ? "ERR Number of keys can't be greater than number of args"
                                                                  : "ERR syntax error");
  }
  if (spec.extra_key > 0) positions.push_back(static_cast<std::uint32_t>(spec.extra_key));
  for (std::size_t i = 0; i < static_cast<std::size_t>(keys); ++i) {
    positions.push_back(static_cast<std::uint32_t>(first + i));
  }
  return {};
}

slots::Status find_streams(Args args, std::vector<std::uint32_t>& positions) {
  for (std::size_t i = 1; i < args.size(); ++i) {
    // The options before STREAMS take values, which may be any word.
    if (is_word(args[i], "count") || is_word(args[i], "block")) {
      ++i;
    } else if (is_word(args[i], "group")) {
      i += 2;
    } else if (is_word(args[i], "streams")) {
      std::size_t rest = args.size() - i - 1;
      if (rest == 0 || rest % 2 != 0) break;
      for (std::size_t k = 0; k < rest / 2; ++k) positions.push_back(static_cast<std::uint32_t>(i + 1 + k));
      return {};
    }
  }
  return slots::fail(slots::Errc::InvalidArgument, "ERR syntax error");
}

// SORT key ... STORE destination; the words before STORE take one or two values.
void find_sort(Args args, std::vector<std::uint32_t>& positions) {
  positions.push_back(1);
  std::size_t store = 0;
  for (std::size_t i = 2; i < args.size(); ++i) {
    if (is_word(args[i], "limit")) {
      i += 2;
    } else if (is_word(args[i], "get") || is_word(args[i], "by")) {
      ++i;
    } else if (is_word(args[i], "store") && i + 1 < args.size()) {
      store = ++i;  // The last one counts.
    }
  }
  if (store > 0) positions.push_back(static_cast<std::uint32_t>(store));
}

void find_georadius(Args args, std::vector<std::uint32_t>& positions) {
  positions.push_back(1);
  std::size_t store = 0;
  for (std::size_t i = 5; i + 1 < args.size(); ++i) {
    if (is_word(args[i], "store") || is_word(args[i], "storedist")) store = ++i;
  }
  if (store > 0) positions.push_back(static_cast<std::uint32_t>(store));
}

void find_migrate(Args args, std::vector<std::uint32_t>& positions) {
  if (!args[3].empty()) return positions.push_back(3);
  for (std::size_t i = 6; i < args.size(); ++i) {
    if (!is_word(args[i], "keys")) continue;
    for (std::size_t k = i + 1; k < args.size(); ++k) positions.push_back(static_cast<std::uint32_t>(k));
    return;
  }
}

}  // namespace

slots::Status find_keys(const CommandSpec& spec, Args args, std::vector<std::uint32_t>& positions) {
  positions.clear();
  switch (spec.rule) {
    case KeyRule::None:
    case KeyRule::Container:
      return {};
    case KeyRule::Range:
      find_range(spec, args, positions);
      return {};
    case KeyRule::NumKeys:
      return find_counted(spec, args, positions);
    case KeyRule::Streams:
      return find_streams(args, positions);
    case KeyRule::Keyword:
      break;
  }
  switch (spec.id) {
    case CommandId::Sort:
    case CommandId::SortRo:
      find_sort(args, positions);
      return {};
    case CommandId::Georadius:
    case CommandId::Georadiusbymember:
      find_georadius(args, positions);
      return {};
    case CommandId::Migrate:
      find_migrate(args, positions);
      return {};
    default:
      return slots::fail(slots::Errc::InvalidArgument, kInvalid);
  }
}

}  // namespace proxy::resp
