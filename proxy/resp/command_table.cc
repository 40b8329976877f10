#include "proxy/resp/command_table.h"

#include <algorithm>
#include <bit>

#include "proxy/resp/reply_cursor.h"
#include "slots/assert.h"

namespace proxy::resp {

namespace {

using enum CommandFlag;

constexpr std::uint32_t flags(std::initializer_list<CommandFlag> list) {
  std::uint32_t bits = 0;
  for (CommandFlag flag : list) bits |= static_cast<std::uint32_t>(flag);
  return bits;
}

std::vector<CommandSpec> built_in_specs() {
  return {
#define SP_COMMAND(id, name, arity, flags, rule, first, last, step, extra, request, reply)                       \
  CommandSpec{name, arity, flags, KeyRule::rule, first, last, step, extra, RequestPolicy::request, ReplyPolicy::reply, \
              CommandId::id},
#include "proxy/resp/command_table.inc"
#undef SP_COMMAND
  };
}

struct FlagName {
  std::string_view name;
  CommandFlag flag;
};
constexpr FlagName kFlagNames[] = {
    {"write", Write},       {"readonly", ReadOnly}, {"denyoom", DenyOom},           {"admin", Admin},
    {"pubsub", PubSub},     {"noscript", NoScript}, {"blocking", Blocking},         {"loading", Loading},
    {"stale", Stale},       {"no_auth", NoAuth},    {"movablekeys", MovableKeys},   {"fast", Fast},
    {"no_multi", NoMulti},
};

// One element of COMMAND's reply: name, arity, flags, first key, last key, step, and more that is skipped.
// Nothing: malformed.
std::optional<CommandSpec> read_spec(std::string_view entry, std::string& name) {
  ReplyCursor cursor(entry);
  auto header = cursor.read_header();
  if (!header || header->count < 6) return std::nullopt;
  auto text = cursor.read_bulk();
  auto arity = cursor.read_integer();
  if (!text || !arity) return std::nullopt;
  name = *text;
  CommandSpec spec;
  spec.arity = static_cast<std::int16_t>(*arity);
  auto flag_header = cursor.read_header();
  if (!flag_header) return std::nullopt;
  for (std::int64_t i = 0; i < flag_header->count; ++i) {
    auto flag = cursor.read_bulk();
    if (!flag) return std::nullopt;
    for (const FlagName& known : kFlagNames) {
      if (known.name == *flag) spec.flags |= static_cast<std::uint32_t>(known.flag);
    }
  }
  auto first = cursor.read_integer();
  auto last = cursor.read_integer();
  auto step = cursor.read_integer();
  if (!first || !last || !step) return std::nullopt;
  spec.first_key = static_cast<std::int16_t>(*first);
  spec.last_key = static_cast<std::int16_t>(*last);
  spec.key_step = static_cast<std::int16_t>(*step);
  spec.rule = *first > 0 && *step > 0 ? KeyRule::Range : KeyRule::None;
  spec.id = kLearnedCommand;
  return spec;
}

}  // namespace

CommandTable::CommandTable(std::vector<CommandSpec> specs, std::vector<std::unique_ptr<std::string>> names)
    : specs_(std::move(specs)), names_(std::move(names)) {
  std::size_t size = std::bit_ceil(4 * specs_.size());
  entries_.resize(size);
  mask_ = size - 1;
  for (const CommandSpec& spec : specs_) {
    if (spec.name.find('|') == std::string_view::npos) insert(spec);
  }
}

void CommandTable::insert(const CommandSpec& spec) {
  Entry entry;
  if (!entry.name.assign(spec.name)) return;
  entry.spec = &spec;
  std::size_t at = entry.name.hash() & mask_;
  while (entries_[at].spec != nullptr) at = (at + 1) & mask_;
  entries_[at] = entry;
}

std::shared_ptr<const CommandTable> CommandTable::built_in() {
  static const std::shared_ptr<const CommandTable> table(new CommandTable(built_in_specs(), {}));
  return table;
}

const CommandSpec* CommandTable::find_sub(const CommandSpec& container, std::string_view sub) const {
  std::string name = std::string(container.name) + "|";
  for (char c : sub) name.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c);
  auto found = std::find_if(specs_.begin(), specs_.end(), [&](const CommandSpec& spec) { return spec.name == name; });
  return found == specs_.end() ? nullptr : &*found;
}

slots::Result<std::shared_ptr<const CommandTable>> CommandTable::with_learned(const CommandTable& base,
                                                                                std::string_view command_reply) {
  ReplyCursor cursor(command_reply);
  auto header = cursor.read_header();
  if (!header || header->type != '*') {
    return slots::fail(slots::Errc::InvalidArgument, "not a reply to COMMAND: no array");
  }
  std::vector<CommandSpec> specs(base.specs_);
  std::vector<std::unique_ptr<std::string>> names;
  for (CommandSpec& spec : specs) {
    if (spec.id != kLearnedCommand) continue;
    names.push_back(std::make_unique<std::string>(spec.name));
    spec.name = *names.back();
  }
  for (std::int64_t i = 0; i < header->count; ++i) {
    std::string name;
    std::string_view entry = cursor.read_raw();
    auto spec = read_spec(entry, name);
    if (entry.empty() || !spec) {
      return slots::fail(slots::Errc::InvalidArgument, "not a reply to COMMAND: a broken entry");
    }
    if (base.find(name) != nullptr) continue;
    names.push_back(std::make_unique<std::string>(std::move(name)));
    spec->name = *names.back();
    specs.push_back(*spec);
  }
  return std::shared_ptr<const CommandTable>(new CommandTable(std::move(specs), std::move(names)));
}

}  // namespace proxy::resp
