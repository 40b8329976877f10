#include "admin/render.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "admin/table.h"
#include "admin/text.h"
#include "slots/slot.h"

namespace admin {

namespace {

constexpr std::size_t kWideGap = 3;
constexpr std::size_t kRangesWidth = 60;  // Of the column of slot ranges, as far as they allow.

Colour colour_of(std::string_view state) {
  if (state == "up") return Colour::Good;
  return state == "unverified" ? Colour::Doubtful : Colour::Bad;
}

// "ok", or the state and how long it has lasted.
Cell state_cell(const NodeReport& node) {
  if (node.is_up()) return {"ok", Colour::Good};
  return {fmt::format("{} {}", node.state, duration(node.since_seconds)), colour_of(node.state)};
}

// Nothing, or nothing known: the address of a node that is not in the configuration any more.
std::string or_dash(const std::optional<std::string>& text) {
  return text && !text->empty() ? *text : "-";
}

std::string keys_of(const NodeReport& node) {
  return node.keys ? short_number(static_cast<double>(*node.keys)) : "-";
}

std::string memory_of(const NodeReport& node) {
  return node.used_memory ? memory(*node.used_memory, node.maxmemory.value_or(0)) : "-";
}

std::string ops_of(const NodeReport& node) {
  return node.ops_per_second ? short_number(static_cast<double>(*node.ops_per_second)) : "-";
}

// Words with wide gaps, on one line.
std::string spaced(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (word.empty()) continue;
    if (!line.empty()) line.append(kWideGap, ' ');
    line += word;
  }
  return line + "\n";
}

std::string render_drift(const std::string& path, const std::vector<std::string>& drift,
                         RenderStyle style) {
  const std::string file = path.empty() ? "the configuration" : path;
  if (drift.empty()) return fmt::format("drift from {}: none\n", file);
  std::string text =
      painted(fmt::format("drift from {}: {}", file, counted(drift.size(), "difference")),
              Colour::Doubtful, style.is_coloured) +
      "; shown only, the map stays as it is\n";
  for (const std::string& line : drift) text += "  " + line + "\n";
  return text;
}

// Plans that wait for somebody or are at work.
std::string render_plans(const std::vector<OpenPlanReport>& plans, RenderStyle style) {
  std::string text;
  for (const OpenPlanReport& plan : plans) {
    const Colour colour = plan.state == "running" ? Colour::Good : Colour::Doubtful;
    text += fmt::format("plan {} {}: {}", plan.id, painted(plan.state, colour, style.is_coloured),
                        plan.purpose);
    if (!plan.reason.empty()) text += ", " + plan.reason;
    text +=
        fmt::format("   slotctl plan {} {}\n", plan.state == "running" ? "watch" : "show", plan.id);
  }
  return text;
}

std::string first_digits(const std::optional<std::string>& id) {
  return id && !id->empty() ? id->substr(0, 8) : "-";
}

// The ranges in lines of some width.
std::vector<std::string> wrapped(const std::vector<std::string>& ranges) {
  std::vector<std::string> lines;
  for (const std::string& range : ranges) {
    if (lines.empty() || lines.back().size() + range.size() > kRangesWidth) {
      if (!lines.empty()) lines.back() += ',';
      lines.push_back(range);
    } else {
      lines.back() += ", " + range;
    }
  }
  if (lines.empty()) lines.emplace_back("-");
  return lines;
}

std::string joined(const std::vector<Bytes>& keys) {
  std::string text;
  for (const Bytes& key : keys) text += (text.empty() ? "" : " ") + printable(key.raw);
  return text;
}

std::string not_up(const std::string& state, const std::string& reason) {
  if (state == "up") return "";
  return reason.empty() ? state : fmt::format("{}: {}", state, reason);
}

std::string render_places(const ExplainReport& report, RenderStyle style) {
  Table table({{}, {}, {}, {}, {}, {}}, kWideGap);
  for (const KeyPlace& place : report.keys) {
    std::string note = not_up(place.state, place.reason);
    if (place.is_reserved) note = "the proxy's own key: refused to clients";
    table.add(
        {fmt::format("key  {}", printable(place.key.raw)),
         fmt::format("hashed part {}", in_quotes(place.hashed_part.raw)),
         fmt::format("slot {}", place.slot),
         fmt::format("owner {} {} (epoch {})", place.node, or_dash(place.address), report.epoch),
         place.announced ? "endpoint " + *place.announced : "",
         {std::move(note), place.is_reserved ? Colour::Doubtful : colour_of(place.state)}});
  }
  return table.text(style.is_coloured);
}

Colour outcome_colour(const std::string& outcome) {
  return outcome == "cross_slot" || outcome == "refused" ? Colour::Bad : Colour::Good;
}

std::string outcome_words(const std::string& outcome) {
  if (outcome == "one_node") return "goes to one node";
  if (outcome == "split") return "is split";
  if (outcome == "all_nodes") return "goes to all nodes";
  if (outcome == "any_node") return "goes to any node";
  if (outcome == "local") return "is answered by the proxy";
  if (outcome == "cross_slot") return "is refused: CROSSSLOT";
  if (outcome == "refused") return "is refused";
  return outcome;
}

std::string render_command(const ExplainReport& report, RenderStyle style) {
  std::string text =
      spaced({"command  " + printable(*report.command),
              painted(outcome_words(report.outcome.value_or("")),
                      outcome_colour(report.outcome.value_or("")), style.is_coloured)});
  if (report.why && !report.why->empty()) text += "  " + *report.why + "\n";
  text += render_places(report, style);
  Table parts({{}, {}, {}, {}}, kWideGap);
  for (const CommandPart& part : report.parts) {
    parts.add({"to  " + part.node,
               or_dash(part.address),
               part.keys.empty() ? "" : counted(part.keys.size(), "key") + ": " + joined(part.keys),
               {not_up(part.state, part.reason), colour_of(part.state)}});
  }
  return text + parts.text(style.is_coloured);
}

}  // namespace

std::string render(const StatusReport& report, RenderStyle style) {
  std::string text =
      spaced({"cluster " + report.cluster, fmt::format("epoch {}", report.epoch),
              counted(report.workers.size(), "worker"), "up " + duration(report.uptime_seconds),
              counted(report.clients, "client"), short_number(report.ops_per_second) + " ops/s",
              report.is_draining ? painted("draining", Colour::Doubtful, style.is_coloured) : ""});
  Table table({{"NODE"},
               {"ADDRESS"},
               {"STATE"},
               {"WEIGHT", Align::Right},
               {"SLOTS", Align::Right},
               {"", Align::Right},
               {"KEYS", Align::Right},
               {"MEMORY", Align::Right},
               {"OPS/S", Align::Right},
               {}});
  for (const NodeReport& node : report.nodes) {
    table.add({node.name, or_dash(node.address), state_cell(node), weight(node.weight),
               with_thousands(node.slots), percent(node.slots, slots::kSlotCount), keys_of(node),
               memory_of(node), ops_of(node), node.reason});
  }
  return text + table.text(style.is_coloured) + render_plans(report.plans, style) +
         render_drift(report.config_path, report.drift, style);
}

std::string render(const NodesReport& report, RenderStyle style) {
  Table table({{"NODE"},
               {"ADDRESS"},
               {"ENDPOINT"},
               {"ANNOUNCED"},
               {"STATE"},
               {"FOR", Align::Right},
               {"VERSION"},
               {"KEYS", Align::Right},
               {"MEMORY", Align::Right},
               {"EVICTION"},
               {"OPS/S", Align::Right},
               {"ID"},
               {"RUN ID"},
               {}});
  for (const NodeReport& node : report.nodes) {
    table.add({node.name,
               or_dash(node.address),
               or_dash(node.endpoint),
               or_dash(node.announced),
               {node.is_up() ? "ok" : node.state, colour_of(node.state)},
               duration(node.since_seconds),
               or_dash(node.version),
               keys_of(node),
               memory_of(node),
               or_dash(node.maxmemory_policy),
               ops_of(node),
               first_digits(node.id),
               first_digits(node.run_id),
               node.reason});
  }
  return spaced({"cluster " + report.cluster, fmt::format("epoch {}", report.epoch),
                 counted(report.nodes.size(), "node")}) +
         table.text(style.is_coloured);
}

std::string render(const SlotsReport& report, RenderStyle style) {
  Table table({{"NODE"}, {"ADDRESS"}, {"SLOTS", Align::Right}, {"", Align::Right}, {"RANGES"}});
  for (const SlotOwner& owner : report.owners) {
    const std::vector<std::string> lines = wrapped(owner.ranges);
    table.add({{owner.node, owner.state == "up" ? Colour::None : colour_of(owner.state)},
               or_dash(owner.address),
               with_thousands(owner.slots),
               percent(owner.slots, slots::kSlotCount),
               lines.front()});
    for (std::size_t i = 1; i < lines.size(); ++i) table.add({"", "", "", "", lines[i]});
  }
  return spaced({"cluster " + report.cluster, fmt::format("epoch {}", report.epoch),
                 with_thousands(slots::kSlotCount) + " slots"}) +
         table.text(style.is_coloured);
}

std::string render(const ExplainReport& report, RenderStyle style) {
  return report.command ? render_command(report, style) : render_places(report, style);
}

std::string render(const StraysReport& report, RenderStyle style) {
  Table table({{"NODE"}, {"KEYS", Align::Right}, {"STRAYS", Align::Right}, {"SLOTS"}, {}});
  std::uint64_t strays = 0;
  bool is_whole = true;
  std::string names;
  for (const NodeStrays& node : report.nodes) {
    if (!node.error.empty()) {
      table.add({node.node, "-", "-", "-", {"not counted: " + node.error, Colour::Bad}});
      is_whole = false;
      continue;
    }
    strays += node.strays;
    const std::vector<std::string> lines = wrapped(node.ranges);
    table.add({node.node,
               with_thousands(node.keys),
               {with_thousands(node.strays), node.strays == 0 ? Colour::None : Colour::Doubtful},
               lines.front(),
               node.is_exact ? "" : "about: the count is not exact"});
    for (std::size_t i = 1; i < lines.size(); ++i) table.add({"", "", "", lines[i]});
    for (const Bytes& name : node.names) {
      names += fmt::format("{}  {}\n", node.node, printable(name.raw));
    }
    if (report.is_list && node.names.size() < node.strays) {
      names += fmt::format("{}  … and {} more\n", node.node,
                           with_thousands(node.strays - node.names.size()));
    }
  }
  std::string text = table.text(style.is_coloured) + names;
  if (strays == 0) {
    return text + (is_whole ? "no strays: every key lies on the node that owns its slot\n"
                            : "no strays on the nodes that were counted\n");
  }
  text += counted(strays, "stray") +
          ": clients do not see these keys, since another node owns their slots\n";
  return text + (report.is_list
                     ? "give them to their owners with:   slotctl plan propose --collect-strays\n"
                     : "list them with:   slotctl strays --list\n");
}

std::string render(const ReloadReport& report, RenderStyle) {
  if (report.notes.empty()) return "reloaded: nothing has changed\n";
  std::string text = "reloaded\n";
  for (const std::string& note : report.notes) text += "  " + note + "\n";
  return text;
}

std::string render(const HealthReport& report, RenderStyle style) {
  const Colour colour = report.health == "ok" ? Colour::Good : Colour::Bad;
  return spaced({painted(report.health, colour, style.is_coloured),
                 fmt::format("{} of {} up", report.nodes_up, counted(report.nodes, "node")),
                 fmt::format("{} of {} slots served", with_thousands(report.slots_served),
                             with_thousands(slots::kSlotCount))});
}

std::string render(const ConfigReport& report, RenderStyle style) {
  Table table({{"OPTION"}, {"VALUE"}});
  for (const ConfigOption& option : report.options) {
    std::string values;
    for (const std::string& value : option.values) {
      values += (values.empty() ? "" : ", ") + printable(value);
    }
    table.add({option.path, values.empty() ? "-" : values});
  }
  return fmt::format("configuration {}\n", or_dash(report.path)) + table.text(style.is_coloured) +
         render_drift(report.path, report.drift, style);
}

}  // namespace admin
