#include "proxy/control/state_record.h"

#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

#include "conf/units.h"
#include "conf/writer.h"
#include "proxy/control/record_bytes.h"

namespace proxy::control {
namespace {

using slots::Errc;
using slots::fail;
using slots::Result;

constexpr std::string_view kMagic = "SPJ1";
constexpr std::size_t kHeaderBytes = 16;
constexpr char kMark = '\n';
constexpr std::uint32_t kPayloadBytesMax = 16U << 20;
constexpr std::uint8_t kVersion = 3;
constexpr std::uint8_t kVersionWithoutPlans = 1;
constexpr std::uint8_t kKindState = 1;

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  constexpr std::uint32_t kPolynomial = 0x82F63B78;  // Castagnoli's, reflected.
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1U) ^ ((value & 1U) != 0 ? kPolynomial : 0);
    table[i] = value;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kCrcTable = make_crc_table();

struct Run {
  slots::SlotId first = 0;
  slots::SlotId last = 0;
  slots::NodeIndex owner = 0;
};

std::vector<Run> runs_of(const slots::SlotMap& map) {
  std::vector<Run> runs;
  for (std::size_t s = 0; s < slots::kSlotCount; ++s) {
    const auto slot = static_cast<slots::SlotId>(s);
    if (runs.empty() || runs.back().owner != map.owner(slot)) {
      runs.push_back({slot, slot, map.owner(slot)});
    } else {
      runs.back().last = slot;
    }
  }
  return runs;
}

std::string encode_payload(const ClusterState& state) {
  std::string out;
  put(out, kVersion);
  put(out, kKindState);
  put(out, state.map.epoch());
  put_text(out, state.cluster);
  put(out, static_cast<std::uint32_t>(state.map.nodes().size()));
  for (const slots::Node& node : state.map.nodes()) {
    put_text(out, node.name);
    put_double(out, node.weight);
  }
  const std::vector<Run> runs = runs_of(state.map);
  put(out, static_cast<std::uint32_t>(runs.size()));
  for (const Run& run : runs) {
    put(out, run.first);
    put(out, run.last);
    put(out, run.owner);
  }
  put(out, static_cast<std::uint32_t>(state.identities.size()));
  for (const auto& [name, identity] : state.identities) {
    put_text(out, name);
    put_text(out, identity);
  }
  put(out, static_cast<std::uint32_t>(state.places.size()));
  for (const auto& [name, place] : state.places) {
    put_text(out, name);
    put_text(out, place.address);
    put_text(out, place.endpoint);
    put_text(out, place.announced);
  }
  put(out, state.next_plan);
  put(out, static_cast<std::uint32_t>(state.plans.size()));
  for (const auto& [id, plan] : state.plans) put_plan(out, plan);
  put(out, static_cast<std::uint32_t>(state.kept.size()));
  for (const KeptSlots& kept : state.kept) put_kept(out, kept);
  return out;
}

std::unexpected<slots::Error> corrupt(std::string message) {
  return fail(Errc::Corrupt, std::move(message));
}

std::vector<slots::Node> take_nodes(Decoder& decoder) {
  std::vector<slots::Node> nodes;
  const auto count = decoder.take<std::uint32_t>();
  // Ends when the bytes do, whatever the count says.
  for (std::uint32_t i = 0; i < count && !decoder.failed(); ++i) {
    std::string name = decoder.take_text();
    nodes.push_back({std::move(name), decoder.take_double()});
  }
  return nodes;
}

Result<slots::SlotMap::Owners> take_owners(Decoder& decoder) {
  slots::SlotMap::Owners owners{};
  const auto count = decoder.take<std::uint32_t>();
  std::size_t next = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto first = decoder.take<std::uint16_t>();
    const auto last = decoder.take<std::uint16_t>();
    const auto owner = decoder.take<std::uint16_t>();
    const bool repeats_owner = next > 0 && owners[next - 1] == owner;
    if (decoder.failed() || first != next || last < first || last >= slots::kSlotCount ||
        repeats_owner) {
      return corrupt("its slots are not in order");
    }
    for (; next <= last; ++next) owners[next] = owner;
  }
  if (next != slots::kSlotCount) return corrupt("it does not say who owns every slot");
  return owners;
}

Result<std::map<std::string, std::string>> take_identities(Decoder& decoder) {
  std::map<std::string, std::string> identities;
  const auto count = decoder.take<std::uint32_t>();
  for (std::uint32_t i = 0; i < count; ++i) {
    std::string name = decoder.take_text();
    std::string identity = decoder.take_text();
    if (decoder.failed() || (!identities.empty() && identities.rbegin()->first >= name)) {
      return corrupt("its identities are not in order");
    }
    identities.emplace_hint(identities.end(), std::move(name), std::move(identity));
  }
  return identities;
}

Result<std::map<std::string, NodePlace>> take_places(Decoder& decoder) {
  std::map<std::string, NodePlace> places;
  const auto count = decoder.take<std::uint32_t>();
  for (std::uint32_t i = 0; i < count; ++i) {
    std::string name = decoder.take_text();
    NodePlace place;
    place.address = decoder.take_text();
    place.endpoint = decoder.take_text();
    place.announced = decoder.take_text();
    if (decoder.failed() || (!places.empty() && places.rbegin()->first >= name)) {
      return corrupt("its places are not in order");
    }
    places.emplace_hint(places.end(), std::move(name), std::move(place));
  }
  return places;
}

slots::Status take_plans(Decoder& decoder, std::uint8_t version, ClusterState& state) {
  state.next_plan = decoder.take<std::uint64_t>();
  const auto plans = decoder.take<std::uint32_t>();
  for (std::uint32_t i = 0; i < plans; ++i) {
    PlanRecord plan = take_plan(decoder, version);
    const slots::PlanId id = plan.plan.content.id;
    const bool is_after = state.plans.empty() || state.plans.rbegin()->first < id;
    if (decoder.failed() || !is_after || id >= state.next_plan)
      return corrupt("its plans are not in order");
    state.plans.emplace_hint(state.plans.end(), id, std::move(plan));
  }
  const auto kept = decoder.take<std::uint32_t>();
  for (std::uint32_t i = 0; i < kept && !decoder.failed(); ++i)
    state.kept.push_back(take_kept(decoder));
  return {};
}

Result<ClusterState> decode_payload(std::string_view payload) {
  Decoder decoder(payload);
  const auto version = decoder.take<std::uint8_t>();
  const auto kind = decoder.take<std::uint8_t>();
  if (!decoder.failed() && (version < kVersionWithoutPlans || version > kVersion)) {
    return corrupt(fmt::format(
        "it has format version {}, this program knows {}; was it written by a newer one?", version,
        kVersion));
  }
  if (decoder.failed() || kind != kKindState)
    return corrupt(fmt::format("it is of the unknown kind {}", kind));
  const auto epoch = decoder.take<std::uint64_t>();
  std::string cluster = decoder.take_text();
  std::vector<slots::Node> nodes = take_nodes(decoder);
  const auto owners = take_owners(decoder);
  if (!owners) return std::unexpected(owners.error());
  auto identities = take_identities(decoder);
  if (!identities) return std::unexpected(std::move(identities).error());
  auto places = take_places(decoder);
  if (!places) return std::unexpected(std::move(places).error());
  auto map = slots::SlotMap::create(std::move(nodes), *owners, epoch);
  if (!map) return corrupt(map.error().message);
  ClusterState state{std::move(cluster), *std::move(map), *std::move(identities),
                     *std::move(places)};
  if (version != kVersionWithoutPlans) {
    if (slots::Status taken = take_plans(decoder, version, state); !taken)
      return std::unexpected(std::move(taken).error());
  }
  if (!decoder.is_at_end()) return corrupt("it does not end where it should");
  return state;
}

// The header of a record, its checksum right.
struct Header {
  std::uint32_t payload_bytes = 0;
  std::uint32_t payload_crc = 0;
};

std::optional<Header> read_header(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes || !bytes.starts_with(kMagic)) return {};
  Decoder decoder(bytes.substr(kMagic.size(), kHeaderBytes - kMagic.size()));
  const auto payload_bytes = decoder.take<std::uint32_t>();
  const auto header_crc = decoder.take<std::uint32_t>();
  const auto payload_crc = decoder.take<std::uint32_t>();
  if (header_crc != crc32c(bytes.substr(0, 8)) || payload_bytes > kPayloadBytesMax) return {};
  return Header{payload_bytes, payload_crc};
}

// Whether the rest of a journal, which does not begin with a sound header, is the beginning of one
// and nothing else.
bool is_unfinished_header(std::string_view rest) {
  if (rest.size() < kHeaderBytes) return true;
  const std::size_t last_written = rest.find_last_not_of('\0');
  return rest.back() == '\0' &&
         (last_written == std::string_view::npos || last_written < kHeaderBytes);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char c : bytes)
    crc = (crc >> 8U) ^ kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xFFU];
  return crc ^ 0xFFFFFFFF;
}

std::string encode_record(const ClusterState& state) {
  const std::string payload = encode_payload(state);
  std::string record(kMagic);
  put(record, static_cast<std::uint32_t>(payload.size()));
  put(record, crc32c(record));
  put(record, crc32c(payload));
  return record + payload + kMark;
}

Result<JournalContents> read_journal(std::string_view bytes) {
  JournalContents contents;
  while (contents.whole_bytes < bytes.size()) {
    const std::string_view rest = bytes.substr(contents.whole_bytes);
    const std::string name =
        fmt::format("record {} at byte {}", contents.records + 1, contents.whole_bytes);
    const std::optional<Header> header = read_header(rest);
    if (!header) {
      if (is_unfinished_header(rest)) return contents;
      return corrupt(fmt::format("{} is damaged: its header is wrong", name));
    }
    const std::size_t record_bytes = kHeaderBytes + header->payload_bytes + 1;
    if (record_bytes > rest.size()) return contents;
    const char mark = rest[record_bytes - 1];
    const bool ends_in_zeros =
        rest.find_first_not_of('\0', record_bytes - 1) == std::string_view::npos;
    if (ends_in_zeros) return contents;
    const std::string_view payload = rest.substr(kHeaderBytes, header->payload_bytes);
    if (mark != kMark || crc32c(payload) != header->payload_crc) {
      return corrupt(fmt::format("{} is damaged: its checksum is wrong", name));
    }
    auto state = decode_payload(payload);
    if (!state) return corrupt(fmt::format("{} can't be used: {}", name, state.error().message));
    contents.state = *std::move(state);
    contents.whole_bytes += record_bytes;
    ++contents.records;
  }
  return contents;
}

std::string state_yaml(const ClusterState& state) {
  std::string out =
      "# What is: written by slotproxy after each change, for people. The journal beside it is "
      "what counts; changes made\n"
      "# here have no effect.\n";
  out += fmt::format("cluster: {}\nepoch: {}\nnodes:\n", conf::yaml_scalar(state.cluster),
                     state.map.epoch());
  for (std::size_t i = 0; i < state.map.nodes().size(); ++i) {
    const slots::Node& node = state.map.nodes()[i];
    const slots::SlotSet owned = state.map.slots_of(static_cast<slots::NodeIndex>(i));
    out += fmt::format("  - name: {}\n    weight: {}\n    slots: {}\n",
                       conf::yaml_scalar(node.name), conf::print_weight(node.weight),
                       owned.empty() ? "[]" : slots::to_string(owned));
    const auto identity = state.identities.find(node.name);
    if (identity != state.identities.end()) {
      out += fmt::format("    identity: {}\n", conf::yaml_scalar(identity->second));
    }
  }
  return out;
}

}  // namespace proxy::control
