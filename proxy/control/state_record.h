// ClusterState and its journal record: the bytes that say what is. Pure: no I/O.
//
// A journal is records one after another, nothing before, between or after them. Every record is a
// whole state, so that the last one alone counts. Integers are little-endian.
//
//   header   magic "SPJ1" · u32 payload bytes · u32 CRC32C of those 8 bytes · u32 CRC32C of the
//   payload payload  u8 version (3) · u8 kind (1: state) · body mark     one byte 0x0A
//
//   body     u64 epoch · text cluster
//            u32 nodes · for each: text name, u64 weight (bits of the double)
//            u32 runs · for each: u16 first slot, u16 last slot, u16 node  (ascending, maximal, all
//            of 0-16383) u32 identities · for each: text node name, text identity  (ascending by
//            name) u32 places · for each: text node name, text address, text endpoint, text
//            announced (ascending by name)
//            u64 id of the next plan · u32 plans · each as plan_record.h says (ascending by id)
//            u32 kept · each as plan_record.h says
//   text     u32 bytes · the bytes
//
// Versions 1 and 2 are read too: the first ends before the next plan's id, plans of the second are
// shorter.
//
// Why two checksums: a length that can't be trusted would make a damaged record look like the end
// of the journal, and what follows it would be lost in silence. Why the mark: after a crash some
// file systems show the end of a write that never finished as zeros; the last byte of a finished
// record is never zero, nor one flipped bit away from it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/control/plan_record.h"
#include "slots/result.h"
#include "slots/slot_map.h"

namespace proxy::control {

// Addresses as the configuration writes them; endpoint and announced are empty without an endpoint.
struct NodePlace {
  std::string address;
  std::string endpoint;
  std::string announced;

  friend bool operator==(const NodePlace&, const NodePlace&) = default;
};

struct ClusterState {
  std::string cluster;
  slots::SlotMap map;
  std::map<std::string, std::string> identities;  // Node name -> the value of its identity key.
  // Where nodes were when the configuration last named them: a node that owns slots has to be
  // served after it left the file, until a plan has drained it. Passwords are not kept.
  std::map<std::string, NodePlace> places = {};
  slots::PlanId next_plan = 1;
  std::map<slots::PlanId, PlanRecord> plans = {};  // Those not ended, and the last that ended.
  // One for each commit. What a plan is about to do follows from these and the
  // map: slots that its source owns are still to be moved, kept ones to be collected.
  std::vector<KeptSlots> kept = {};
};

// The same state always gives the same bytes.
[[nodiscard]] std::string encode_record(const ClusterState& state);

// What a journal's bytes hold.
struct JournalContents {
  std::optional<ClusterState> state;  // Of the last record; empty when there is none.
  std::size_t records = 0;
  std::size_t whole_bytes =
      0;  // Up to the end of the last whole record; what follows is an unfinished one.
};

// Errors: Corrupt, for anything that is neither a whole record nor the unfinished last one; the
// message says where. A record whose writing had finished is never taken for an unfinished one.
[[nodiscard]] slots::Result<JournalContents> read_journal(std::string_view bytes);

// The state for people to read, as YAML.
[[nodiscard]] std::string state_yaml(const ClusterState& state);

// CRC-32C (Castagnoli), as in iSCSI and ext4.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);

}  // namespace proxy::control
