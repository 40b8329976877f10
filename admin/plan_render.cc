#include "admin/plan_render.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <map>
#include <utility>

#include "admin/plan_keys_render.h"
#include "admin/table.h"
#include "admin/text.h"
#include "slots/slot.h"

namespace admin {

namespace {

constexpr std::size_t kMoveLinesMax = 24;  // Beyond it moves are summed up by pair of nodes.
constexpr std::size_t kGap = 3;

Colour colour_of(const std::string& state) {
  if (state == "done" || state == "running") return Colour::Good;
  if (state == "failed" || state == "aborted") return Colour::Bad;
  if (state == "rejected" || state == "stale") return Colour::Quiet;
  return Colour::Doubtful;
}

// "paused by the system".
std::string state_words(const std::string& state, const std::optional<std::string>& paused_by) {
  if (state != "paused" || !paused_by) return state;
  return "paused by the " + *paused_by;
}

std::string who(const std::string& name) { return name == "system" ? "the system" : name; }

std::string estimate(const std::optional<std::uint64_t>& number) {
  return number ? short_number(static_cast<double>(*number)) : "-";
}

std::string size_or_dash(const std::optional<std::uint64_t>& bytes) {
  return bytes ? byte_size(*bytes) : "-";
}

std::uint64_t slots_in(const std::string& range) {
  const auto parsed = slots::parse_slot_range(range);
  return parsed ? parsed->size() : 0;
}

std::string head(const PlanReport& report, RenderStyle style) {
  std::string text = fmt::format("plan {}   {}", report.id,
                                 painted(state_words(report.state, report.paused_by),
                                         colour_of(report.state), style.is_coloured));
  if (!report.reason.empty()) text += ": " + report.reason;
  text += fmt::format("\n{}   digest {}   epoch {}\n", report.purpose, report.digest,
                      report.base_epoch);
  text += "proposed";
  if (report.proposed_at_ms) text += " " + time_of(*report.proposed_at_ms);
  text += " by " + who(report.proposed_by) + "\n";
  if (report.approved_by) {
    text += "approved by " + who(*report.approved_by);
    if (report.approval_reason && !report.approval_reason->empty()) {
      text += ", " + in_quotes(*report.approval_reason);
    }
    text += "\n";
  }
  if (report.started_at_ms) text += "started " + time_of(*report.started_at_ms);
  if (report.started_at_ms && report.ended_at_ms) text += "   ";
  if (report.ended_at_ms) text += "ended " + time_of(*report.ended_at_ms);
  if (report.started_at_ms || report.ended_at_ms) text += "\n";
  return text;
}

// A move, or all moves from one node to another.
struct MoveLine {
  std::string label;
  std::uint64_t slots = 0;
  std::uint64_t keys = 0;
  std::uint64_t bytes = 0;
  bool is_known = true;  // Keys and bytes.
  std::string from;
  std::string to;
};

void take_in(MoveLine& line, const PlanMove& move) {
  line.slots += slots_in(move.slots);
  line.keys += move.keys.value_or(0);
  line.bytes += move.bytes.value_or(0);
  line.is_known = line.is_known && move.keys && move.bytes;
}

std::vector<MoveLine> move_lines(const std::vector<PlanMove>& moves) {
  std::vector<MoveLine> lines;
  if (moves.size() <= kMoveLinesMax) {
    for (const PlanMove& move : moves) {
      lines.push_back({.label = move.slots, .from = move.from, .to = move.to});
      take_in(lines.back(), move);
    }
    return lines;
  }
  std::map<std::pair<std::string, std::string>, std::size_t> places;
  std::vector<std::uint64_t> ranges;
  for (const PlanMove& move : moves) {
    const auto [place, is_new] = places.try_emplace({move.from, move.to}, lines.size());
    if (is_new) {
      lines.push_back({.label = "", .from = move.from, .to = move.to});
      ranges.push_back(0);
    }
    ++ranges[place->second];
    take_in(lines[place->second], move);
  }
  for (std::size_t i = 0; i < lines.size(); ++i) lines[i].label = counted(ranges[i], "range");
  return lines;
}

std::string render_moves(const PlanReport& report, RenderStyle style) {
  Table table({{""},
               {"SLOTS", Align::Right},
               {"KEYS", Align::Right},
               {"BYTES", Align::Right},
               {"FROM → TO"}},
              kGap);
  for (const MoveLine& line : move_lines(report.moves)) {
    table.add({"  " + line.label, with_thousands(line.slots),
               line.is_known ? short_number(static_cast<double>(line.keys)) : "-",
               line.is_known ? byte_size(line.bytes) : "-", line.from + " → " + line.to});
  }
  std::string text = report.moves.empty() ? "moves no slots\n" : table.text(style.is_coloured);
  text += render_strays(report, style);
  for (const std::string& edit : report.edits) text += "  " + edit + "\n";
  return text;
}

std::string render_forecast(const PlanReport& report) {
  std::string text;
  if (report.strays.empty()) {
    text = fmt::format("moves {} of the slots; the least possible for these shares is {}\n",
                       percent(report.slots_moved, slots::kSlotCount),
                       percent(report.least_possible, slots::kSlotCount));
    text += fmt::format("spread (largest over fair share)   {:.2f} → {:.2f}\n",
                        report.spread_before, report.spread_after);
  }
  if (report.keys || report.bytes) {
    const bool is_counted = report.forecast_basis == "counted";
    text += fmt::format("{}{} keys, {}", is_counted ? "" : "about ", estimate(report.keys),
                        size_or_dash(report.bytes));
    if (is_counted) text += " (counted)";
    if (report.forecast_basis == "estimated") text += " (estimated from a part of the keys)";
    if (report.forecast_basis == "averages") text += " (by the averages of the nodes)";
    if (report.seconds_at_limit && report.bytes_per_second > 0) {
      text += fmt::format("; at {} about {} of copying", rate(report.bytes_per_second),
                          duration(*report.seconds_at_limit));
    }
    text += "\n";
  }
  text += report.strays.empty()
              ? fmt::format("limit {}; a group of slots waits at most {} ms for its last copy\n",
                            rate(report.bytes_per_second), report.pause_ms)
              : fmt::format("limit {}; nobody waits\n", rate(report.bytes_per_second));
  for (const PlanTarget& target : report.targets) {
    text += fmt::format("memory of {} after: {}\n", target.node,
                        memory(target.memory_after, target.maxmemory));
  }
  return text;
}

Colour check_colour(const std::string& result) {
  if (result == "pass") return Colour::Good;
  return result == "fail" ? Colour::Bad : Colour::Doubtful;
}

// What blocks the approval first, then what an operator should know.
std::string render_checks(const PlanReport& report, RenderStyle style) {
  if (report.checks.empty()) return "";
  std::vector<PlanCheck> checks = report.checks;
  const auto rank = [](const PlanCheck& check) {
    if (check.result == "fail") return 0;
    return check.result == "pass" ? 2 : 1;
  };
  std::ranges::stable_sort(checks, {}, rank);
  Table table({{}, {}, {}}, 2);
  for (const PlanCheck& check : checks) {
    table.add({{"  " + check.result, check_colour(check.result)},
               check.what,
               check.advice.empty() ? "" : "→ " + check.advice});
  }
  return "checks\n" + table.text(style.is_coloured);
}

std::string pauses_words(const PlanProgress& progress) {
  if (progress.pauses == 0) return "none so far";
  return fmt::format("{}: median {:.1f} ms, longest {:.1f} ms", with_thousands(progress.pauses),
                     progress.pause_median_ms, progress.pause_max_ms);
}

// What happened next to the forecast.
std::string render_result(const PlanReport& report, RenderStyle style) {
  const PlanProgress& progress = *report.progress;
  Table table({{""}, {"FORECAST", Align::Right}, {"WHAT HAPPENED", Align::Right}}, kGap);
  if (report.strays.empty()) {
    table.add({"  slots", with_thousands(progress.slots_total),
               with_thousands(progress.slots_committed)});
  }
  table.add(
      {"  keys", estimate(report.keys), short_number(static_cast<double>(progress.keys_copied))});
  table.add({"  bytes", size_or_dash(report.bytes), byte_size(progress.payload_bytes)});
  table.add({"  time", report.seconds_at_limit ? duration(*report.seconds_at_limit) : "-",
             duration(progress.running_seconds)});
  return table.text(style.is_coloured) + "  pauses " + pauses_words(progress) + "\n";
}

std::string command_line(const PlanReport& report, std::string_view verb) {
  return fmt::format("slotctl plan {} {}", verb, report.id);
}

// The command that comes next, if there is one.
std::string next_step(const PlanReport& report) {
  const auto line = [](std::string_view what, const std::string& command) {
    return fmt::format("{:<16}{}\n", fmt::format("{} with:", what), command);
  };
  if (report.state == "proposed") {
    const bool is_blocked = std::ranges::any_of(
        report.checks, [](const PlanCheck& check) { return check.result == "fail"; });
    if (is_blocked) {
      return "a failed check blocks the approval: mend it, then look again with   " +
             command_line(report, "show") + "\n";
    }
    return line("approve",
                fmt::format("{} --digest {}", command_line(report, "approve"), report.digest));
  }
  if (report.state == "approved" || report.state == "running") {
    return line("watch", command_line(report, "watch"));
  }
  if (report.state == "paused") {
    return line("go on", command_line(report, "resume")) +
           line("end it", command_line(report, "abort"));
  }
  if (!report.strays.empty()) {
    return report.state == "done" ? "" : line("plan anew", "slotctl plan propose --collect-strays");
  }
  if (report.state == "failed" || report.state == "aborted") {
    return line("try again", command_line(report, "retry")) +
           line("go back", command_line(report, "revert"));
  }
  if (report.state == "done") return line("go back", command_line(report, "revert"));
  return line("plan anew", command_line(report, "retry"));
}

bool has_ended(const std::string& state) {
  return state == "done" || state == "aborted" || state == "failed";
}

// One bar: name, bar, figures. The bar takes what the columns leave, 10 to 40 cells.
std::string bar(std::string_view name, double part, double whole, const std::string& figures,
                std::size_t columns, RenderStyle style) {
  constexpr std::size_t kNameWidth = 7;
  constexpr std::size_t kFiguresWidth = 24;
  const std::size_t left =
      columns > kNameWidth + kFiguresWidth ? columns - kNameWidth - kFiguresWidth : 0;
  const std::size_t width = std::clamp<std::size_t>(left, 10, 40);
  const double share = whole > 0 ? std::clamp(part / whole, 0.0, 1.0) : 0;
  const auto full = static_cast<std::size_t>(std::floor(share * static_cast<double>(width)));
  std::string cells;
  for (std::size_t i = 0; i < full; ++i) cells += "█";
  std::string rest;
  for (std::size_t i = full; i < width; ++i) rest += "░";
  return fmt::format("{:<7}{}{}  {}\n", name, painted(cells, Colour::Good, style.is_coloured),
                     painted(rest, Colour::Quiet, style.is_coloured), figures);
}

std::string part_of(double part, double whole) {
  return short_number(part) + " / " + short_number(whole);
}

std::string times(const PlanProgress& progress) {
  std::string text = clock(progress.running_seconds);
  if (progress.eta_seconds) {
    text += " of about " + clock(progress.running_seconds + *progress.eta_seconds);
  }
  return text;
}

std::string speed(const PlanReport& report) {
  const PlanProgress& progress = *report.progress;
  std::string text = fmt::format("{}, limit {}", byte_size(progress.bytes_per_second) + "/s",
                                 rate(report.bytes_per_second));
  if (!progress.speed_reason.empty()) text += " (" + progress.speed_reason + ")";
  return text;
}

std::string why_waiting(const PlanReport& report) {
  if (report.state == "paused" && !report.reason.empty()) return report.reason;
  return report.progress ? report.progress->waits_for : "";
}

}  // namespace

std::string rate(std::uint64_t bytes_per_second) {
  return bytes_per_second == 0 ? "no limit" : byte_size(bytes_per_second) + "/s";
}

std::string time_of(std::uint64_t unix_ms) {
  const auto seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm parts{};
  if (::gmtime_r(&seconds, &parts) == nullptr) return "-";
  std::array<char, 64> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return {text.data(), size};
}

std::string clock(std::uint64_t seconds) {
  if (seconds < 3600) return fmt::format("{}:{:02}", seconds / 60, seconds % 60);
  return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

std::string render(const PlanReport& report, RenderStyle style) {
  std::string text = head(report, style) + render_moves(report, style) + render_forecast(report);
  if (!has_ended(report.state)) text += render_sample(report, style);
  if (report.progress) text += render_result(report, style);
  if (!has_ended(report.state)) text += render_checks(report, style);
  return text + next_step(report);
}

std::string render(const PlansReport& report, RenderStyle style) {
  if (report.plans.empty()) {
    return fmt::format(
        "no plans; the map is at epoch {}\npropose one with:   slotctl plan propose "
        "--balance\n",
        report.epoch);
  }
  Table table({{"PLAN", Align::Right},
               {"STATE"},
               {"SLOTS", Align::Right},
               {"PURPOSE"},
               {"PROPOSED"},
               {"BY"},
               {"DIGEST"},
               {}});
  for (const PlanSummary& plan : report.plans) {
    std::string moved = with_thousands(plan.slots_moved);
    if (plan.slots_committed > 0 && plan.slots_committed < plan.slots_moved) {
      moved = with_thousands(plan.slots_committed) + " of " + moved;
    }
    table.add({std::to_string(plan.id),
               {state_words(plan.state, plan.paused_by), colour_of(plan.state)},
               std::move(moved),
               plan.purpose,
               plan.proposed_at_ms ? time_of(*plan.proposed_at_ms) : "-",
               plan.proposed_by,
               plan.digest,
               plan.reason});
  }
  return table.text(style.is_coloured);
}

std::string render(const PlanDiffReport& report, RenderStyle style) {
  Table table({{"NODE"},
               {"WEIGHT", Align::Right},
               {"SLOTS", Align::Right},
               {"", Align::Right},
               {"GIVES"},
               {"GETS"}},
              kGap);
  const auto ranges = [](const std::vector<std::string>& all) {
    constexpr std::size_t kShown = 4;
    std::string text;
    for (std::size_t i = 0; i < all.size() && i < kShown; ++i) {
      text += (i == 0 ? "" : ", ") + all[i];
    }
    if (all.size() > kShown) text += fmt::format(", … {} more", all.size() - kShown);
    return text.empty() ? std::string("-") : text;
  };
  const auto weight_words = [](const PlanNodeDiff& node) {
    const std::string before = node.weight_before ? weight(*node.weight_before) : "-";
    const std::string after = node.weight_after ? weight(*node.weight_after) : "-";
    return before == after ? before : before + " → " + after;
  };
  for (const PlanNodeDiff& node : report.nodes) {
    const bool is_same = node.slots_before == node.slots_after;
    const std::string after = with_thousands(node.slots_after);
    table.add({node.node, weight_words(node),
               is_same ? after : with_thousands(node.slots_before) + " → " + after,
               percent(node.slots_after, slots::kSlotCount), ranges(node.gives),
               ranges(node.gets)});
  }
  return fmt::format("plan {}   {}   made for epoch {}\n", report.id, report.state,
                     report.base_epoch) +
         table.text(style.is_coloured);
}

std::string render(const HistoryReport& report, RenderStyle style) {
  if (report.entries.empty()) return "nothing has happened yet\n";
  Table table({{"WHEN"}, {"PLAN", Align::Right}, {"WHO"}, {"WHAT"}, {"WHY"}, {"CONNECTED AS"}});
  for (const HistoryEntry& entry : report.entries) {
    table.add({time_of(entry.at_ms),
               entry.plan ? std::to_string(*entry.plan) : "-",
               who(entry.who),
               entry.what,
               entry.why,
               {entry.peer, Colour::Quiet}});
  }
  return table.text(style.is_coloured);
}

std::string render_outcome(const PlanReport& report, RenderStyle style) {
  std::string text = fmt::format("plan {} is {}", report.id,
                                 painted(state_words(report.state, report.paused_by),
                                         colour_of(report.state), style.is_coloured));
  if (!report.reason.empty()) text += ": " + report.reason;
  text += "\n";
  if (has_ended(report.state) && report.progress) text += render_result(report, style);
  return text + next_step(report);
}

std::string render_bars(const PlanReport& report, std::size_t columns, RenderStyle style) {
  std::string first =
      fmt::format("plan {}   {}", report.id, state_words(report.state, report.paused_by));
  if (report.progress) first += "   " + report.progress->phase + "   " + times(*report.progress);
  if (report.approved_by) first += "   approved by " + who(*report.approved_by);
  std::string text = clipped(first, columns) + "\n";
  if (report.progress) {
    const PlanProgress& progress = *report.progress;
    const auto number = [](std::uint64_t value) { return static_cast<double>(value); };
    if (report.strays.empty()) {
      text += bar(
          "slots", number(progress.slots_committed), number(progress.slots_total),
          with_thousands(progress.slots_committed) + " / " + with_thousands(progress.slots_total),
          columns, style);
    }
    text += bar("keys", number(progress.keys_copied), number(progress.keys_total),
                part_of(number(progress.keys_copied), number(progress.keys_total)), columns, style);
    text += bar("bytes", number(progress.payload_bytes), number(progress.bytes_total),
                byte_size(progress.payload_bytes) + " / " + byte_size(progress.bytes_total),
                columns, style);
    text += clipped("speed  " + speed(report), columns) + "\n";
    text += clipped("pauses " + pauses_words(progress), columns) + "\n";
  }
  if (const std::string why = why_waiting(report); !why.empty()) {
    text += painted(clipped("waits: " + why, columns), Colour::Doubtful, style.is_coloured) + "\n";
  }
  return text;
}

std::string render_progress_line(const PlanReport& report) {
  std::string text =
      fmt::format("plan {} {}", report.id, state_words(report.state, report.paused_by));
  if (report.progress) {
    const PlanProgress& progress = *report.progress;
    text += fmt::format(", {}, {}: {} of {} slots, {} keys, {}, {}; pauses {}", progress.phase,
                        times(progress), with_thousands(progress.slots_committed),
                        with_thousands(progress.slots_total),
                        part_of(static_cast<double>(progress.keys_copied),
                                static_cast<double>(progress.keys_total)),
                        byte_size(progress.payload_bytes), speed(report), pauses_words(progress));
  }
  if (const std::string why = why_waiting(report); !why.empty()) text += "; waits: " + why;
  return text + "\n";
}

}  // namespace admin
