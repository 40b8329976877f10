// CLUSTER COUNTKEYSINSLOT and GETKEYSINSLOT of a slot, read from its owner.
//
// A stock server has no index by slot, so all its keys are looked at: SCAN in small steps on a
// connection of its own, one step per round trip, so that the node serves everybody else in
// between.
//
// Limits:  refused on a node that holds more than limits.slot_scan_keys keys; the keys that are
//          answered together hold limits.merged_reply bytes.
#pragma once

#include <cstdint>

#include "proxy/session/client_session.h"

namespace proxy::session {

// Both answer the request of now, later; the session's next request waits for that.
void reply_key_count_of_slot(ClientSession& session, slots::SlotId slot);
void reply_keys_of_slot(ClientSession& session, slots::SlotId slot, std::uint64_t keys_max);

}  // namespace proxy::session
