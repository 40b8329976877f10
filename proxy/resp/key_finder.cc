#include "proxy/resp/key_finder.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "proxy/resp/arguments.h"

namespace proxy::resp {

namespace {

using slots::Errc;
using slots::Status;
using Positions = std::vector<std::uint32_t>;

void find_range(const CommandSpec& spec, Args args, Positions& positions) {
  auto count = static_cast<std::int64_t>(args.size());
  std::int64_t last = spec.last_key < 0 ? count + spec.last_key : spec.last_key;
  for (std::int64_t i = spec.first_key; i <= last && i < count; i += spec.key_step) {
    positions.push_back(static_cast<std::uint32_t>(i));
  }
}

// How commands word what is wrong with their number of keys. Families, not commands: each shares
// its parser in Redis.
struct CountTexts {
  std::string not_a_number = "ERR value is not an integer or out of range";
  std::string too_small;
  std::string too_large;
};

CountTexts count_texts(const CommandSpec& spec) {
  constexpr const char* kMoreThanArgs = "ERR Number of keys can't be greater than number of args";
  constexpr const char* kNotPositive = "ERR numkeys should be greater than 0";
  constexpr const char* kSyntax = "ERR syntax error";
  CountTexts texts;
  switch (spec.id) {
    case CommandId::Fcall:
    case CommandId::FcallRo:
      texts.not_a_number = "ERR Bad number of keys provided";
      [[fallthrough]];
    case CommandId::Eval:
    case CommandId::EvalRo:
    case CommandId::Evalsha:
    case CommandId::EvalshaRo:
      texts.too_small = "ERR Number of keys can't be negative";
      texts.too_large = kMoreThanArgs;
      return texts;
    case CommandId::Sintercard:
      texts.not_a_number = texts.too_small = kNotPositive;
      texts.too_large = kMoreThanArgs;
      return texts;
    case CommandId::Lmpop:
    case CommandId::Blmpop:
    case CommandId::Zmpop:
    case CommandId::Bzmpop:
      texts.not_a_number = texts.too_small = kNotPositive;
      texts.too_large = kSyntax;
      return texts;
    default:
      texts.too_small =
          "ERR at least 1 input key is needed for '" + std::string(spec.name) + "' command";
      texts.too_large = kSyntax;
      return texts;
  }
}

// As Redis's string2ll(): no sign but '-', no leading zeros, no blanks.
bool parse_count(std::string_view text, std::int64_t& count) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{} || end != text.data() + text.size()) return false;
  std::string_view digits = text.substr(text.front() == '-' ? 1 : 0);
  return digits.front() != '0' || text == "0";
}

Status find_counted(const CommandSpec& spec, Args args, Positions& positions) {
  auto first = static_cast<std::size_t>(spec.first_key);
  if (args.size() < first) {
    return slots::fail(Errc::InvalidArgument, count_texts(spec).not_a_number);
  }
  std::int64_t count = 0;
  if (!parse_count(args[first - 1], count)) {
    return slots::fail(Errc::InvalidArgument, count_texts(spec).not_a_number);
  }
  if (count < (spec.has(CommandFlag::NoMandatoryKeys) ? 0 : 1)) {
    return slots::fail(Errc::InvalidArgument, count_texts(spec).too_small);
  }
  if (static_cast<std::uint64_t>(count) > args.size() - first) {
    return slots::fail(Errc::InvalidArgument, count_texts(spec).too_large);
  }
  if (spec.extra_key > 0) positions.push_back(static_cast<std::uint32_t>(spec.extra_key));
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    positions.push_back(static_cast<std::uint32_t>(first + i));
  }
  return {};
}

// Where STREAMS stands among XREAD's and XREADGROUP's options, whose values may be any word;
// args.size(): nowhere. `on_option` sees the index of each option before it.
template <class OnOption>
std::size_t find_streams_word(Args args, OnOption on_option) {
  std::size_t i = 1;
  for (; i < args.size() && !is_word(args[i], "streams"); ++i) {
    on_option(i);
    if (is_word(args[i], "count") || is_word(args[i], "block")) {
      i += 1;
    } else if (is_word(args[i], "group")) {
      i += 2;
    }
  }
  return std::min(i, args.size());
}

Status find_streams(Args args, Positions& positions) {
  std::size_t streams = find_streams_word(args, [](std::size_t) {});
  if (streams == args.size()) return slots::fail(Errc::InvalidArgument, "ERR syntax error");
  std::size_t rest = args.size() - streams - 1;
  if (rest == 0 || rest % 2 != 0) {
    return slots::fail(Errc::InvalidArgument,
                       "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' "
                       "must be specified.");
  }
  for (std::size_t i = 0; i < rest / 2; ++i) {
    positions.push_back(static_cast<std::uint32_t>(streams + 1 + i));
  }
  return {};
}

// SORT key ... STORE destination; the words before STORE take one or two values.
void find_sort(const CommandSpec& spec, Args args, Positions& positions) {
  positions.push_back(1);
  if (spec.id == CommandId::SortRo) return;
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

void find_georadius(Args args, Positions& positions) {
  positions.push_back(1);
  std::size_t store = 0;
  for (std::size_t i = 5; i + 1 < args.size(); ++i) {
    if (is_word(args[i], "store") || is_word(args[i], "storedist")) store = ++i;
  }
  if (store > 0) positions.push_back(static_cast<std::uint32_t>(store));
}

// MIGRATE host port key|"" db timeout [COPY] [REPLACE] [AUTH p | AUTH2 u p] [KEYS key ...]
Status find_migrate(Args args, Positions& positions) {
  std::size_t i = 6;
  for (; i < args.size() && !is_word(args[i], "keys"); ++i) {
    if (is_word(args[i], "auth")) i += 1;
    if (is_word(args[i], "auth2")) i += 2;
    if (i >= args.size()) break;
  }
  if (i + 1 >= args.size()) {
    positions.push_back(3);
    return {};
  }
  if (!args[3].empty()) {
    return slots::fail(Errc::InvalidArgument,
                       "ERR When using MIGRATE KEYS option, the key argument must be set to the "
                       "empty string");
  }
  for (++i; i < args.size(); ++i) positions.push_back(static_cast<std::uint32_t>(i));
  return {};
}

// BITFIELD key [GET e o | OVERFLOW w | SET e o v | INCRBY e o n]...
bool only_gets(Args args) {
  for (std::size_t i = 2; i < args.size(); ++i) {
    const std::size_t left = args.size() - i - 1;
    if (is_word(args[i], "get") && left >= 2) {
      i += 2;
    } else if (is_word(args[i], "overflow") && left >= 1) {
      i += 1;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

KeyAccess key_access(const CommandSpec& spec, Args args, std::size_t place) {
  if (spec.id == CommandId::Bitfield) return only_gets(args) ? KeyAccess::Read : KeyAccess::Both;
  if (spec.id == CommandId::Set) {
    const bool gets = args.size() > 3 && std::ranges::any_of(args.subspan(3), [](auto arg) {
                        return is_word(arg, "get");
                      });
    return gets ? KeyAccess::Both : KeyAccess::Write;
  }
  return place == 0 ? spec.first_access : spec.other_access;
}

Status find_keys(const CommandSpec& spec, Args args, Positions& positions) {
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
    case KeyRule::Unknown:
      break;
  }
  switch (spec.id) {
    case CommandId::Sort:
    case CommandId::SortRo:
      find_sort(spec, args, positions);
      return {};
    case CommandId::Georadius:
    case CommandId::Georadiusbymember:
      find_georadius(args, positions);
      return {};
    case CommandId::Migrate:
      return find_migrate(args, positions);
    default:
      return slots::fail(Errc::InvalidArgument,
                         "ERR the keys of '" + std::string(spec.name) +
                             "' can't be told from what the nodes say of it");
  }
}

std::size_t block_option(Args args) {
  std::size_t place = 0;
  find_streams_word(args, [&](std::size_t i) {
    if (is_word(args[i], "block")) place = i;
  });
  return place;
}

const CommandSpec* find_command(const CommandTable& commands, Args args) {
  if (args.empty()) return nullptr;
  const CommandSpec* spec = commands.find(args[0]);
  if (spec == nullptr || spec->rule != KeyRule::Container || args.size() == 1) return spec;
  return commands.find_sub(*spec, args[1]);
}

std::string_view option_with_foreign_keys(Args args) {
  for (std::size_t i = 2; i + 1 < args.size(); ++i) {
    const bool is_by = is_word(args[i], "by");
    if (!is_by && !is_word(args[i], "get")) continue;
    const std::string_view pattern = args[++i];
    if (is_by ? pattern.find('*') != std::string_view::npos : pattern != "#") {
      return is_by ? "BY" : "GET";
    }
  }
  return "";
}

std::optional<std::string_view> database_of_copy(Args args) {
  for (std::size_t i = 3; i + 1 < args.size(); ++i) {
    if (is_word(args[i], "db")) return args[i + 1];
  }
  return std::nullopt;
}

}  // namespace proxy::resp
