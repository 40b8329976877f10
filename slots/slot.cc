#include "slots/slot.h"

#include <charconv>

namespace slots {
namespace {

std::string quoted(std::string_view text) { return '"' + std::string(text) + '"'; }

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// `whole` is the text the operator wrote: an error shows it rather than the fragment alone.
Result<SlotId> parse_slot(std::string_view text, std::string_view whole) {
  unsigned value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool is_number = !text.empty() && stop == end && error != std::errc::invalid_argument;
  if (!is_number) {
    return fail(Errc::InvalidArgument,
                quoted(whole) + " is not a slot or a range of slots; write 7000 or 0-5460");
  }
  if (error == std::errc::result_out_of_range || value >= kSlotCount) {
    return fail(Errc::InvalidArgument,
                quoted(whole) + ": " + std::string(text) + " is not a slot; slots are 0 to 16383");
  }
  return static_cast<SlotId>(value);
}

// How two ranges meet, for an error: the first slot named by both.
std::string first_common(const SlotSet& set, const SlotRange& range) {
  for (std::size_t slot = range.first; slot <= range.last; ++slot) {
    if (set.contains(static_cast<SlotId>(slot))) return std::to_string(slot);
  }
  return {};
}

}  // namespace

Result<SlotRange> parse_slot_range(std::string_view text) {
  const std::string_view body = trimmed(text);
  const std::size_t dash = body.find('-');
  const Result<SlotId> first = parse_slot(trimmed(body.substr(0, dash)), body);
  if (!first) return std::unexpected(first.error());
  if (dash == std::string_view::npos) return SlotRange{*first, *first};
  const Result<SlotId> last = parse_slot(trimmed(body.substr(dash + 1)), body);
  if (!last) return std::unexpected(last.error());
  if (*first > *last) {
    return fail(Errc::InvalidArgument, quoted(body) + " runs backwards; write " +
                                           std::to_string(*last) + "-" + std::to_string(*first));
  }
  return SlotRange{*first, *last};
}

std::string to_string(const SlotRange& range) {
  std::string text = std::to_string(range.first);
  if (range.last != range.first) text += '-' + std::to_string(range.last);
  return text;
}

void SlotSet::add(const SlotRange& range) {
  for (std::size_t slot = range.first; slot <= range.last; ++slot) bits_.set(slot);
}

std::vector<SlotRange> SlotSet::ranges() const {
  std::vector<SlotRange> found;
  for (std::size_t slot = bits_._Find_first(); slot < kSlotCount; slot = bits_._Find_next(slot)) {
    const SlotId id = static_cast<SlotId>(slot);
    if (!found.empty() && found.back().last + 1 == id) {
      found.back().last = id;
    } else {
      found.push_back({id, id});
    }
  }
  return found;
}

Result<SlotSet> parse_slot_set(std::string_view text) {
  SlotSet set;
  std::string_view rest = trimmed(text);
  if (rest.empty()) return set;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = trimmed(rest.substr(0, comma));
    if (part.empty()) {
      return fail(
          Errc::InvalidArgument,
          quoted(text) + ": nothing stands between two commas or at an end; remove the comma");
    }
    const Result<SlotRange> range = parse_slot_range(part);
    if (!range) return std::unexpected(range.error());
    if (const std::string twice = first_common(set, *range); !twice.empty()) {
      return fail(Errc::InvalidArgument,
                  quoted(text) + ": slot " + twice + " is named twice; name each slot once");
    }
    set.add(*range);
    if (comma == std::string_view::npos) return set;
    rest.remove_prefix(comma + 1);
  }
}

std::string to_string(const SlotSet& set) {
  std::string text;
  for (const SlotRange& range : set.ranges()) {
    if (!text.empty()) text += ',';
    text += to_string(range);
  }
  return text;
}

}  // namespace slots
