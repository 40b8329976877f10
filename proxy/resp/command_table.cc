#include "proxy/resp/command_table.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <unordered_map>

#include "proxy/resp/reply_cursor.h"

namespace proxy::resp {

namespace {

using enum CommandFlag;
using slots::Errc;

constexpr std::uint32_t flags(std::initializer_list<CommandFlag> list) {
  std::uint32_t bits = 0;
  for (CommandFlag flag : list) bits |= static_cast<std::uint32_t>(flag);
  return bits;
}

constexpr std::uint32_t categories(std::initializer_list<CommandCategory> list) {
  std::uint32_t bits = 0;
  for (CommandCategory category : list) bits |= static_cast<std::uint32_t>(category);
  return bits;
}

// The rows' lists are written in the words of the enumerations, whose names partly agree.
namespace in_rows {
using enum CommandCategory;
#define SP_COMMAND(id, name, arity, flags, rule, first, last, step, extra, request, reply, list, \
                   first_access, other_access)                                                   \
  categories list,
constexpr std::uint32_t kCategories[] = {
#include "proxy/resp/command_table.inc"
};
#undef SP_COMMAND
}  // namespace in_rows

constexpr CommandSpec kBuiltIn[] = {
#define SP_COMMAND(id, name, arity, flags, rule, first, last, step, extra, request, reply, list, \
                   first_access, other_access)                                                   \
  {name,                                                                                         \
   arity,                                                                                        \
   flags,                                                                                        \
   KeyRule::rule,                                                                                \
   first,                                                                                        \
   last,                                                                                         \
   step,                                                                                         \
   extra,                                                                                        \
   RequestPolicy::request,                                                                       \
   ReplyPolicy::reply,                                                                           \
   in_rows::kCategories[static_cast<std::size_t>(CommandId::id)],                                \
   KeyAccess::first_access,                                                                      \
   KeyAccess::other_access,                                                                      \
   CommandId::id,                                                                                \
   /*is_refused=*/false},
#include "proxy/resp/command_table.inc"
#undef SP_COMMAND
};
static_assert(std::size(kBuiltIn) == static_cast<std::size_t>(CommandId::Count));

template <class T>
struct Named {
  std::string_view name;
  T value;
};

constexpr Named<CommandFlag> kFlags[] = {
    {"write", Write},
    {"readonly", ReadOnly},
    {"denyoom", DenyOom},
    {"admin", Admin},
    {"pubsub", PubSub},
    {"noscript", NoScript},
    {"blocking", Blocking},
    {"loading", Loading},
    {"stale", Stale},
    {"no_auth", NoAuth},
    {"movablekeys", MovableKeys},
    {"fast", Fast},
    {"no_multi", NoMulti},
    {"asking", Asking},
    {"allow_busy", AllowBusy},
    {"no_async_loading", NoAsyncLoading},
    {"skip_monitor", SkipMonitor},
    {"skip_slowlog", SkipSlowlog},
    {"no_mandatory_keys", NoMandatoryKeys},
};

constexpr Named<RequestPolicy> kRequestPolicies[] = {
    {"request_policy:all_shards", RequestPolicy::AllShards},
    {"request_policy:all_nodes", RequestPolicy::AllNodes},
    {"request_policy:multi_shard", RequestPolicy::MultiShard},
    {"request_policy:special", RequestPolicy::Special},
};

constexpr Named<ReplyPolicy> kReplyPolicies[] = {
    {"response_policy:one_succeeded", ReplyPolicy::OneSucceeded},
    {"response_policy:all_succeeded", ReplyPolicy::AllSucceeded},
    {"response_policy:agg_sum", ReplyPolicy::AggSum},
    {"response_policy:agg_min", ReplyPolicy::AggMin},
    {"response_policy:agg_max", ReplyPolicy::AggMax},
    {"response_policy:agg_logical_and", ReplyPolicy::AggLogicalAnd},
    {"response_policy:agg_logical_or", ReplyPolicy::AggLogicalOr},
    {"response_policy:special", ReplyPolicy::Special},
};

template <class T, std::size_t Count>
const T* value_of(const Named<T> (&list)[Count], std::string_view name) {
  auto found = std::ranges::find(list, name, &Named<T>::name);
  return found == std::end(list) ? nullptr : &found->value;
}

// Reads the elements of a node's reply to COMMAND. After the first thing that is not as it should
// be, ok() is false and all that is read is empty.
class EntryReader {
 public:
  explicit EntryReader(std::string_view bytes) : cursor_(bytes) {}

  std::size_t list() {
    auto header = take(cursor_.read_header());
    if (!header || (header->type != '*' && header->type != '~') || header->count < 0) ok_ = false;
    return ok_ ? static_cast<std::size_t>(header->count) : 0;
  }
  std::string_view text() { return take(cursor_.read_bulk()).value_or(""); }
  std::int16_t number() {
    std::int64_t value = take(cursor_.read_integer()).value_or(0);
    if (value != static_cast<std::int16_t>(value)) ok_ = false;
    return ok_ ? static_cast<std::int16_t>(value) : std::int16_t{0};
  }
  std::string_view raw() {
    std::string_view bytes = ok_ ? cursor_.read_raw() : std::string_view{};
    if (bytes.empty()) ok_ = false;
    return bytes;
  }
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  template <class T>
  std::optional<T> take(std::optional<T> value) {
    if (!value) ok_ = false;
    return ok_ ? value : std::nullopt;
  }

  ReplyCursor cursor_;
  bool ok_ = true;
};

// One of COMMAND's key specs, in so far as the key finder can follow it
// (https://redis.io/docs/reference/key-specifications/).
struct KeySpec {
  bool by_index = false;    // begin_search: index
  bool by_streams = false;  // begin_search: keyword STREAMS
  std::int16_t begin = 0;
  bool is_one_key = false;  // find_keys: range of one
  bool is_counted = false;  // find_keys: keynum
  std::int16_t first_after = 0;
  KeyAccess access = KeyAccess::Neither;
};

KeyAccess both(KeyAccess a, KeyAccess b) {
  return static_cast<KeyAccess>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}

KeyAccess read_access(EntryReader& reader) {
  KeyAccess access = KeyAccess::Neither;
  for (std::size_t left = reader.list(); reader.ok() && left > 0; --left) {
    const std::string_view flag = reader.text();
    if (flag == "access") access = both(access, KeyAccess::Read);
    if (flag == "insert" || flag == "delete" || flag == "update")
      access = both(access, KeyAccess::Write);
  }
  return access;
}

// {"type", t, "spec", {"index", 1, ...}}: calls on_field(name) for each field of the spec, which
// reads the value.
template <class OnField>
std::string_view read_typed_spec(EntryReader& reader, OnField on_field) {
  std::string_view type;
  for (std::size_t pairs = reader.list() / 2; reader.ok() && pairs > 0; --pairs) {
    std::string_view name = reader.text();
    if (name == "type") {
      type = reader.text();
    } else if (name == "spec") {
      for (std::size_t fields = reader.list() / 2; reader.ok() && fields > 0; --fields) {
        on_field(reader.text());
      }
    } else {
      reader.raw();
    }
  }
  return type;
}

KeySpec read_key_spec(EntryReader& reader) {
  KeySpec spec;
  for (std::size_t pairs = reader.list() / 2; reader.ok() && pairs > 0; --pairs) {
    std::string_view part = reader.text();
    if (part == "begin_search") {
      spec.by_index = "index" == read_typed_spec(reader, [&](std::string_view field) {
                        if (field == "index") {
                          spec.begin = reader.number();
                        } else {
                          spec.by_streams |= reader.raw() == "$7\r\nSTREAMS\r\n";
                        }
                      });
    } else if (part == "find_keys") {
      std::int16_t last = 0;
      std::int16_t count_at = 0;
      std::string_view type = read_typed_spec(reader, [&](std::string_view field) {
        std::int16_t value = reader.number();
        if (field == "lastkey") last = value;
        if (field == "keynumidx") count_at = value;
        if (field == "firstkey") spec.first_after = value;
      });
      spec.is_one_key = type == "range" && last == 0;
      spec.is_counted = type == "keynum" && count_at == 0 && spec.first_after == 1;
    } else if (part == "flags") {
      spec.access = read_access(reader);
    } else {
      reader.raw();
    }
  }
  return spec;
}

// How to find the keys of a command that says "movablekeys".
void set_movable_rule(CommandSpec& spec, const std::vector<KeySpec>& key_specs) {
  spec.rule = KeyRule::Unknown;
  const KeySpec* counted = nullptr;
  const KeySpec* single = nullptr;
  for (const KeySpec& key_spec : key_specs) {
    if (key_spec.by_streams && key_specs.size() == 1) spec.rule = KeyRule::Streams;
    if (!key_spec.by_index) return;
    if (key_spec.is_counted && counted == nullptr) {
      counted = &key_spec;
    } else if (key_spec.is_one_key && single == nullptr) {
      single = &key_spec;
    } else {
      return;
    }
  }
  if (counted == nullptr) return;
  spec.rule = KeyRule::NumKeys;
  spec.first_key = static_cast<std::int16_t>(counted->begin + counted->first_after);
  spec.last_key = spec.key_step = 0;
  spec.extra_key = single == nullptr ? std::int16_t{0} : single->begin;
}

// "@read"; 0: one that Redis 7.0 does not have.
std::uint32_t category_of(std::string_view name) {
  const auto found = std::ranges::find(kCategoryNames, name.substr(name.starts_with('@') ? 1 : 0));
  return found == kCategoryNames.end() ? 0 : 1U << (found - kCategoryNames.begin());
}

// Servers before 7.0 do not say it key by key.
void set_access(CommandSpec& spec, const std::vector<KeySpec>& key_specs) {
  if (key_specs.empty()) {
    spec.first_access = spec.other_access = spec.has(Write) ? KeyAccess::Both : KeyAccess::Read;
    return;
  }
  spec.first_access = spec.other_access = key_specs.front().access;
  for (std::size_t i = 1; i < key_specs.size(); ++i)
    spec.other_access = i == 1 ? key_specs[i].access : both(spec.other_access, key_specs[i].access);
}

// A spec that is about to be learned; its name is in the reply still.
struct Learned {
  CommandSpec spec;
  std::vector<std::string_view> subcommands;  // Raw entries.
};

// An element of COMMAND's reply: name, arity, flags, first key, last key, step; Redis 6 adds
// categories; Redis 7 adds tips, key specs and subcommands. Nothing: malformed.
std::optional<Learned> read_entry(std::string_view entry) {
  EntryReader reader(entry);
  std::size_t elements = reader.list();
  if (elements < 6) return std::nullopt;
  Learned learned;
  CommandSpec& spec = learned.spec;
  spec.name = reader.text();
  spec.arity = reader.number();
  for (std::size_t left = reader.list(); reader.ok() && left > 0; --left) {
    if (const auto* flag = value_of(kFlags, reader.text())) {
      spec.flags |= static_cast<std::uint32_t>(*flag);
    }
  }
  spec.first_key = reader.number();
  spec.last_key = reader.number();
  spec.key_step = reader.number();
  spec.rule = spec.first_key > 0 && spec.key_step > 0 ? KeyRule::Range : KeyRule::None;
  std::vector<KeySpec> key_specs;
  if (elements > 6) {
    for (std::size_t left = reader.list(); reader.ok() && left > 0; --left)
      spec.categories |= category_of(reader.text());
  }
  if (elements > 7) {
    for (std::size_t left = reader.list(); reader.ok() && left > 0; --left) {
      std::string_view tip = reader.text();
      if (const auto* policy = value_of(kRequestPolicies, tip)) spec.request_policy = *policy;
      if (const auto* policy = value_of(kReplyPolicies, tip)) spec.reply_policy = *policy;
    }
  }
  if (elements > 8) {
    for (std::size_t left = reader.list(); reader.ok() && left > 0; --left) {
      key_specs.push_back(read_key_spec(reader));
    }
  }
  if (elements > 9) {
    for (std::size_t left = reader.list(); reader.ok() && left > 0; --left) {
      learned.subcommands.push_back(reader.raw());
    }
  }
  set_access(spec, key_specs);
  if (!reader.ok() || spec.name.empty() || spec.arity == 0) return std::nullopt;
  if (!learned.subcommands.empty()) {
    spec.rule = KeyRule::Container;
  } else if (spec.has(MovableKeys)) {
    set_movable_rule(spec, key_specs);
  }
  return learned;
}

std::string lower(std::string_view name) {
  std::string text(name);
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  }
  return text;
}

// Whether `theirs` admits argument counts that `ours` does not.
bool is_looser(std::int16_t theirs, std::int16_t ours) {
  return theirs < 0 && (ours < 0 ? theirs > ours : -theirs <= ours);
}

// The specs and names of a table in the making.
class Learner {
 public:
  explicit Learner(std::span<const CommandSpec> base) : specs_(base.begin(), base.end()) {
    for (CommandSpec& spec : specs_) {
      if (spec.id == kLearnedCommand) spec.name = names_.emplace_back(spec.name);
    }
    for (std::size_t i = 0; i < specs_.size(); ++i) places_.emplace(specs_[i].name, i);
  }

  slots::Status learn(std::string_view raw_entry) {
    auto entry = raw_entry.empty() ? std::nullopt : read_entry(raw_entry);
    if (!entry) return slots::fail(Errc::InvalidArgument, "not a reply to COMMAND: a broken entry");
    std::string name = lower(entry->spec.name);
    if (auto known = places_.find(name); known != places_.end()) {
      CommandSpec& ours = specs_[known->second];
      if (is_looser(entry->spec.arity, ours.arity)) ours.arity = entry->spec.arity;
    } else if (own_part(name).size() <= CommandTable::kNameMax) {
      if (specs_.size() >= CommandTable::kSpecsMax) {
        return slots::fail(Errc::LimitExceeded, "a node names too many commands");
      }
      entry->spec.name = names_.emplace_back(std::move(name));
      places_.emplace(entry->spec.name, specs_.size());
      specs_.push_back(entry->spec);
    }
    for (std::string_view subcommand : entry->subcommands) {
      if (auto learned = learn_sub(subcommand); !learned) return learned;
    }
    return {};
  }

  std::vector<CommandSpec> take_specs() { return std::move(specs_); }
  std::deque<std::string> take_names() { return std::move(names_); }

 private:
  static std::string_view own_part(std::string_view name) {
    return name.substr(name.find('|') + 1);
  }
  // Redis nests once; a subcommand with subcommands of its own is taken without them.
  slots::Status learn_sub(std::string_view raw_entry) {
    auto entry = read_entry(raw_entry);
    if (!entry || entry->spec.name.find('|') == std::string_view::npos ||
        !entry->subcommands.empty()) {
      return slots::fail(Errc::InvalidArgument, "not a reply to COMMAND: a broken subcommand");
    }
    return learn(raw_entry);
  }

  std::vector<CommandSpec> specs_;
  std::deque<std::string> names_;
  std::unordered_map<std::string_view, std::size_t> places_;
};

}  // namespace

CommandTable::CommandTable(std::vector<CommandSpec> specs, std::deque<std::string> names)
    : specs_(std::move(specs)), names_(std::move(names)) {
  std::size_t size = std::bit_ceil(4 * specs_.size());
  entries_.resize(size);
  sub_entries_.resize(size);
  mask_ = size - 1;
  for (const CommandSpec& spec : specs_) insert(spec);
}

void CommandTable::insert(const CommandSpec& spec) {
  std::size_t bar = spec.name.find('|');
  bool is_sub = bar != std::string_view::npos;
  Entry entry;
  if (!entry.name.assign(is_sub ? spec.name.substr(bar + 1) : spec.name)) return;
  entry.spec = &spec;
  std::vector<Entry>& entries = is_sub ? sub_entries_ : entries_;
  std::size_t at =
      is_sub ? home_of_sub(entry.name, spec.name.substr(0, bar)) : entry.name.hash() & mask_;
  while (entries[at].spec != nullptr) at = (at + 1) & mask_;
  entries[at] = entry;
}

// Many containers have a HELP: their names part them.
std::size_t CommandTable::home_of_sub(const FoldedName& sub, std::string_view container) const {
  auto salt = container.size() + 61 * static_cast<std::uint8_t>(container.front());
  return (sub.hash() + salt) & mask_;
}

const CommandSpec* CommandTable::find_sub(const CommandSpec& container,
                                          std::string_view sub) const {
  FoldedName folded;
  if (!folded.assign(sub)) return nullptr;
  for (std::size_t at = home_of_sub(folded, container.name);; at = (at + 1) & mask_) {
    const Entry& entry = sub_entries_[at];
    if (entry.spec == nullptr) return nullptr;
    std::string_view name = entry.spec->name;
    if (entry.name == folded && name.starts_with(container.name) &&
        name[container.name.size()] == '|') {
      return entry.spec;
    }
  }
}

std::shared_ptr<const CommandTable> CommandTable::built_in() {
  static const std::shared_ptr<const CommandTable> kTable(
      new CommandTable({std::begin(kBuiltIn), std::end(kBuiltIn)}, {}));
  return kTable;
}

slots::Result<std::shared_ptr<const CommandTable>> CommandTable::with_learned(
    const CommandTable& base, std::string_view command_reply) {
  ReplyCursor cursor(command_reply);
  auto header = cursor.read_header();
  if (!header || header->type != '*' || header->count < 0) {
    return slots::fail(Errc::InvalidArgument, "not a reply to COMMAND: no array");
  }
  Learner learner(base.specs_);
  for (std::int64_t i = 0; i < header->count; ++i) {
    if (auto learned = learner.learn(cursor.read_raw()); !learned) {
      return std::unexpected(learned.error());
    }
  }
  return std::shared_ptr<const CommandTable>(
      new CommandTable(learner.take_specs(), learner.take_names()));
}

std::shared_ptr<const CommandTable> CommandTable::refusing(std::shared_ptr<const CommandTable> base,
                                                           std::span<const std::string> names) {
  if (names.empty()) return base;
  Learner copier(base->specs_);
  std::vector<CommandSpec> specs = copier.take_specs();
  for (CommandSpec& spec : specs) {
    spec.is_refused = std::ranges::any_of(names, [&](const std::string& name) {
      return spec.name == name ||
             (spec.name.starts_with(name) && spec.name.substr(name.size()).starts_with('|'));
    });
    if (spec.is_refused && spec.rule != KeyRule::Container) spec.rule = KeyRule::None;
  }
  return std::shared_ptr<const CommandTable>(
      new CommandTable(std::move(specs), copier.take_names()));
}

}  // namespace proxy::resp
