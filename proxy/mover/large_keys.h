// LargeKeys: keys whose values go to the target in pieces: which are to be copied, when, and what
// they cost under a fence. Pure.
//
// Copying one takes so long that it may change meanwhile, or seem to: a change of its name in
// another database looks the same. Then it is copied again, after waits that
// grow, and given up after some tries: its slot can't be moved in this plan. One that is cheap
// enough is copied under the fence, whenever it changes.
//
// Streams among them need a word under the fence even when nothing was heard of them: their groups
// change without notice. Mostly they have not, which is quickly seen; else their pending entries
// have to be read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proxy/mover/databases.h"
#include "slots/slot.h"

namespace proxy::mover {

class LargeKeys {
 public:
  static constexpr unsigned kTriesMax = 6;    // Copies in a row that a change made worthless.
  static constexpr unsigned kCopiesMax = 24;  // All copies of one key.

  // A few exchanges with both nodes, under a fence.
  static constexpr double kMsPerKey = 2;

  struct Key {
    DbKey key;
    slots::SlotId slot = 0;
    std::uint64_t bytes = 0;   // In the source's memory.
    std::string type = {};     // "": not known yet.
    bool is_any_size = false;  // The target can't read its payload.
    bool is_whole = false;     // It can't be read in pieces.
    bool is_copied = false;    // And has not changed since.
    bool has_changed = false;  // Since the last copy began.
    unsigned tries = 0;
    unsigned copies = 0;
    std::uint64_t not_before_ms = 0;
    std::string why = {};  // The last try was in vain.
    // Of a stream:
    std::uint64_t pending = 0;
    std::int64_t groups_at_ms = 0;  // Its groups were copied; the source's clock. 0: unknown.
    bool must_renew = false;        // Too much has changed in its groups for a fence.

    [[nodiscard]] bool is_stream() const { return type == "stream"; }
  };

  // Found: it is to be copied in pieces. What is known of it stays.
  Key& note(const DbKey& key, slots::SlotId slot, std::uint64_t bytes);
  // Whether it is one of these, in whichever database.
  bool note_changed(const std::string& name, slots::SlotId slot, std::uint64_t now_ms);
  void note_vain_try(Key& key, std::uint64_t now_ms, const std::string& why);
  // Null: it is none of these.
  [[nodiscard]] Key* find(const DbKey& key, slots::SlotId slot);
  [[nodiscard]] bool has(const DbKey& key, slots::SlotId slot) const;
  void forget(const DbKey& key, slots::SlotId slot);
  void remove_slots(const slots::SlotSet& slots);
  void clear() { keys_.clear(); }

  // The next one to be copied, or whose groups are to be renewed, outside of a fence; null: none.
  [[nodiscard]] Key* next(std::uint64_t now_ms);
  // Under the fence of these slots: one that is to be copied; null: none.
  [[nodiscard]] Key* next_of(const slots::SlotSet& slots);
  [[nodiscard]] std::vector<DbKey> streams_of(const slots::SlotSet& slots) const;

  // What the last copy of these takes, about, in milliseconds.
  [[nodiscard]] double cost_ms(slots::SlotId slot) const;
  [[nodiscard]] static double cost_ms(const Key& key);
  // Pending entries of groups that may be renewed under a fence of `budget_ms`.
  [[nodiscard]] static std::uint64_t pending_for(double budget_ms);
  // Some are still to be copied.
  [[nodiscard]] bool is_open(slots::SlotId slot) const;
  [[nodiscard]] slots::SlotSet open_slots() const;
  // One that was given up; null: none.
  [[nodiscard]] const Key* given_up(slots::SlotId slot) const;
  // One that has changed so often that people should know; null: none.
  [[nodiscard]] const Key* restless() const;

 private:
  static bool is_given_up(const Key& key);

  std::map<slots::SlotId, std::map<DbKey, Key>> keys_;
};

// For people: which key, of which type and size, in which slot.
[[nodiscard]] std::string words_of(const LargeKeys::Key& key);
[[nodiscard]] std::string megabytes(std::uint64_t bytes);

}  // namespace proxy::mover
