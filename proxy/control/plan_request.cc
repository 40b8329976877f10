#include "proxy/control/plan_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "admin/plan_api.h"
#include "conf/units.h"
#include "conf/words.h"

namespace proxy::control {

namespace {

using slots::Errc;
using slots::fail;
using slots::Result;
using slots::Status;

constexpr std::size_t kPersonBytesMax = 64;
constexpr std::size_t kReasonBytesMax = 500;

std::string in_upper_case(std::string text) {
  for (char& byte : text) byte = static_cast<char>(std::toupper(static_cast<unsigned char>(byte)));
  return text;
}

std::unexpected<slots::Error> wrong(std::string message) {
  return fail(Errc::InvalidArgument, std::move(message));
}

// Words from left to right.
class Words {
 public:
  explicit Words(std::span<const std::string> words) : rest_(words) {}
  [[nodiscard]] bool empty() const { return rest_.empty(); }
  const std::string& take() {
    const std::string& word = rest_.front();
    rest_ = rest_.subspan(1);
    return word;
  }
  // What belongs to an option.
  Result<std::string> value_of(std::string_view option) {
    if (rest_.empty()) return wrong(fmt::format("{} needs a value; see PLAN HELP", option));
    return take();
  }

 private:
  std::span<const std::string> rest_;
};

Result<slots::Measure> parse_measure(const std::string& text) {
  const auto found = std::ranges::find(slots::kMeasureNames, text);
  if (found == slots::kMeasureNames.end())
    return wrong(fmt::format("{} is not one of slots, keys, bytes, ops", conf::in_quotes(text)));
  return static_cast<slots::Measure>(found - slots::kMeasureNames.begin());
}

// "LEFT<mark>RIGHT", parted at the last mark.
Result<std::pair<std::string, std::string>> parse_pair(const std::string& text, char mark,
                                                       std::string_view form) {
  const std::size_t at = text.rfind(mark);
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    return wrong(fmt::format("{} is not {}", conf::in_quotes(text), form));
  return std::pair{text.substr(0, at), text.substr(at + 1)};
}

Result<slots::Goal> parse_add(const std::string& name, const conf::Config& config) {
  for (const conf::NodeConfig& node : config.nodes) {
    if (node.name == name) return slots::AddGoal{{node.name, node.weight}};
  }
  return fail(Errc::NotFound,
              fmt::format("node {} is not in the configuration; add it there with its address, "
                          "reload, then propose again",
                          conf::in_quotes(name)));
}

Result<slots::Goal> parse_weight_goal(const std::string& text) {
  const auto pair = parse_pair(text, '=', "NODE=WEIGHT, such as inv-bcn=2");
  if (!pair) return std::unexpected(pair.error());
  const auto weight = conf::parse_weight(pair->second);
  if (!weight) return std::unexpected(weight.error());
  return slots::WeightGoal{pair->first, *weight};
}

Result<slots::Goal> parse_move(const std::string& text) {
  const auto pair = parse_pair(text, ':', "SLOTS:NODE, such as 100-199:inv-bcn");
  if (!pair) return std::unexpected(pair.error());
  auto set = slots::parse_slot_set(pair->first);
  if (!set) return std::unexpected(std::move(set).error());
  return slots::MoveGoal{*set, pair->second};
}

// The goal that `option` names; nothing when it names none.
Result<std::optional<slots::Goal>> parse_goal(const std::string& option, Words& words,
                                              const conf::Config& config) {
  if (option == "--to-config") return slots::Goal(ownership_of(config));
  constexpr std::array<std::string_view, 7> kGoals{"--balance", "--add",     "--drain", "--remove",
                                                   "--weight",  "--relieve", "--move"};
  if (std::ranges::find(kGoals, option) == kGoals.end()) return std::nullopt;
  const Result<std::string> value = words.value_of(option);
  if (!value) return std::unexpected(value.error());
  Result<slots::Goal> goal = wrong("");
  if (option == "--add") goal = parse_add(*value, config);
  if (option == "--drain") goal = slots::DrainGoal{*value, false};
  if (option == "--remove") goal = slots::DrainGoal{*value, true};
  if (option == "--weight") goal = parse_weight_goal(*value);
  if (option == "--move") goal = parse_move(*value);
  if (option == "--balance" || option == "--relieve") {
    const auto measure = parse_measure(*value);
    if (!measure) return std::unexpected(measure.error());
    if (option == "--balance") goal = slots::BalanceGoal{*measure};
    if (option == "--relieve") goal = slots::RelieveGoal{*measure};
  }
  if (!goal) return std::unexpected(std::move(goal).error());
  return *std::move(goal);
}

// --by and --reason, which every verb that changes something takes. Whether it was one of them.
Result<bool> parse_person(const std::string& option, Words& words, PlanRequest& request) {
  if (option != "--by" && option != "--reason") return false;
  const Result<std::string> value = words.value_of(option);
  if (!value) return std::unexpected(value.error());
  const std::size_t bytes_max = option == "--by" ? kPersonBytesMax : kReasonBytesMax;
  const bool is_printable =
      std::ranges::none_of(*value, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
  if (value->size() > bytes_max || !is_printable || !admin::is_utf8(*value)) {
    return wrong(
        fmt::format("the text of {} should be one line of at most {} bytes", option, bytes_max));
  }
  (option == "--by" ? request.by : request.reason) = *value;
  return true;
}

// PROPOSE's options that are no goals. Whether it was one of them.
Result<bool> parse_bound(const std::string& option, Words& words, ProposeRequest& propose) {
  if (option != "--slots" && option != "--limit" && option != "--pause") return false;
  const Result<std::string> value = words.value_of(option);
  if (!value) return std::unexpected(value.error());
  if (option == "--slots") {
    const auto count = conf::parse_count(*value, 1, slots::kSlotCount);
    if (!count) return std::unexpected(count.error());
    propose.limits.slots = static_cast<std::size_t>(*count);
  } else if (option == "--limit") {
    const auto rate = conf::parse_rate(*value);
    if (!rate) return std::unexpected(rate.error());
    propose.bytes_per_second = *rate;
  } else {
    const auto pause = conf::parse_duration(*value);
    if (!pause) return std::unexpected(pause.error());
    if (pause->count() == 0) return wrong("--pause should be at least 1ms");
    propose.pause = *pause;
  }
  return true;
}

Status parse_propose(Words& words, PlanRequest& request, const conf::Config& config) {
  while (!words.empty()) {
    const std::string option = words.take();
    if (option == "--collect-strays") {
      request.propose.collects_strays = true;
      continue;
    }
    auto goal = parse_goal(option, words, config);
    if (!goal) return std::unexpected(std::move(goal).error());
    if (*goal) {
      request.propose.goals.push_back(**std::move(goal));
      continue;
    }
    Result<bool> taken = parse_bound(option, words, request.propose);
    if (taken && !*taken) taken = parse_person(option, words, request);
    if (!taken) return std::unexpected(taken.error());
    if (!*taken)
      return wrong(
          fmt::format("PLAN PROPOSE does not know {}; see PLAN HELP", conf::in_quotes(option)));
  }
  const ProposeRequest& propose = request.propose;
  if (propose.collects_strays && (!propose.goals.empty() || propose.limits.slots || propose.pause))
    return wrong("--collect-strays moves no slots: propose it alone, with --limit at most");
  if (propose.goals.empty() && !propose.collects_strays)
    return wrong("PLAN PROPOSE needs a goal, such as --balance slots or --to-config");
  return {};
}

Status parse_rest(Words& words, PlanRequest& request) {
  if (request.verb == "THROTTLE") {
    const Result<std::string> text = words.value_of("THROTTLE");
    if (!text) return std::unexpected(text.error());
    const auto rate = conf::parse_rate(*text);
    if (!rate) return std::unexpected(rate.error());
    request.rate = *rate;
  }
  while (!words.empty()) {
    const std::string option = words.take();
    if (option == "--digest" && request.verb == "APPROVE") {
      const Result<std::string> digest = words.value_of(option);
      if (!digest) return std::unexpected(digest.error());
      request.digest = *digest;
      continue;
    }
    const Result<bool> taken = parse_person(option, words, request);
    if (!taken) return std::unexpected(taken.error());
    if (!*taken) {
      return wrong(fmt::format("PLAN {} does not know {}; see PLAN HELP", request.verb,
                               conf::in_quotes(option)));
    }
  }
  if (request.verb == "APPROVE" && request.digest.empty())
    return wrong("an approval names the digest that the plan shows: PLAN APPROVE N --digest D");
  return {};
}

}  // namespace

slots::OwnershipGoal ownership_of(const conf::Config& config) {
  slots::OwnershipGoal goal;
  slots::SlotMap::Owners owners{};
  bool lists_slots = false;
  for (std::size_t i = 0; i < config.nodes.size(); ++i) {
    const conf::NodeConfig& node = config.nodes[i];
    goal.nodes.push_back({node.name, node.weight});
    if (!node.slots) continue;
    lists_slots = true;
    for (const slots::SlotRange& range : node.slots->ranges()) {
      for (std::size_t slot = range.first; slot <= range.last; ++slot)
        owners[slot] = static_cast<slots::NodeIndex>(i);
    }
  }
  if (lists_slots) goal.owners = owners;
  return goal;
}

Result<PlanRequest> parse_plan_request(const std::vector<std::string>& words,
                                       const conf::Config& config) {
  Words rest(std::span<const std::string>(words).subspan(1));
  PlanRequest request;
  request.verb = rest.empty() ? "HELP" : in_upper_case(rest.take());
  const auto known = std::ranges::find(admin::kPlanVerbs, request.verb, &admin::VerbHelp::verb);
  if (known == admin::kPlanVerbs.end())
    return wrong(fmt::format("unknown word {} after PLAN; see PLAN HELP",
                             conf::in_quotes(request.verb.substr(0, 64))));
  Status parsed;
  if (request.verb == "PROPOSE") {
    parsed = parse_propose(rest, request, config);
  } else {
    const bool has_id = known->arguments.starts_with('N');
    const bool may_have_id = known->arguments.starts_with("[N]");
    if (has_id || (may_have_id && !rest.empty())) {
      const Result<std::string> text = rest.value_of("PLAN " + request.verb);
      if (!text) return std::unexpected(text.error());
      const auto id = conf::parse_count(*text, 1, std::numeric_limits<std::uint32_t>::max());
      if (!id)
        return wrong(fmt::format("{} is not a plan's number; PLAN LIST shows them",
                                 conf::in_quotes(text->substr(0, 64))));
      request.plan = *id;
    }
    parsed = parse_rest(rest, request);
  }
  if (!parsed) return std::unexpected(std::move(parsed).error());
  return request;
}

}  // namespace proxy::control
