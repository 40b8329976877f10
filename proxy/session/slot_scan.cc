#include "proxy/session/slot_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "proxy/resp/reply_cursor.h"
#include "proxy/resp/reserved_key.h"
#include "proxy/session/apart_gather.h"
#include "proxy/session/commands.h"
#include "slots/key_slot.h"

namespace proxy::session {

namespace {

constexpr std::string_view kKeysPerStep = "1000";

// DBSIZE first, behind all that the client has asked before, then SCAN to its end over a connection
// of its own. What becomes of the slot's keys is the subclass's. A slot that changes its owner
// meanwhile is read anew: the old one's copies are on their way out.
class SlotScan : public ApartGather {
 protected:
  SlotScan(ClientSession& session, slots::SlotId slot)
      : ApartGather(session),
        slot_(slot),
        node_(session.table().nodes[session.table().map->owner(slot)].name) {
    ask_in_order(session.table().map->owner(slot), slot, dbsize());
  }

  // A key of the slot; perhaps again, as SCAN shows keys twice while the node's table grows or
  // shrinks. False: enough.
  virtual bool take_key(std::string_view key) = 0;
  virtual void write(std::string& out) = 0;
  // What was taken does not count.
  virtual void forget() = 0;

 private:
  static std::string dbsize() {
    std::string bytes;
    resp::append_request(bytes, {"DBSIZE"});
    return bytes;
  }

  bool finish(const std::vector<std::string>& replies, std::string& out) override {
    const RoutingTable& table = session().table();
    slots::NodeIndex owner = table.map->owner(slot_);
    if (table.nodes[owner].name != node_) {
      begin_again(owner);
      return false;
    }
    const std::string& reply = replies.front();
    if (reply.starts_with('-')) {
      out = reply;
      return true;
    }
    if (!is_scanning_) {
      out = why_not(reply);
      if (!out.empty()) return true;
      is_scanning_ = true;
    } else if (!take_page(reply)) {
      out =
          fmt::format("-ERR node {} answered SCAN with something that is no such reply\r\n", node_);
      return true;
    }
    if (is_through_) {
      write(out);
      return true;
    }
    std::string bytes;
    resp::append_request(bytes, {"SCAN", cursor_, "COUNT", kKeysPerStep});
    ask(owner, slot_, bytes);
    return false;
  }

  void begin_again(slots::NodeIndex owner) {
    node_ = session().table().nodes[owner].name;
    is_scanning_ = false;
    cursor_ = "0";
    forget();
    ask(owner, slot_, dbsize());
  }

  // Empty: the node may be scanned.
  std::string why_not(std::string_view dbsize_reply) {
    auto count = resp::ReplyCursor(dbsize_reply).read_integer();
    if (!count)
      return fmt::format("-ERR node {} answered DBSIZE with something that is no such reply\r\n",
                         node_);
    std::uint64_t most = session().table().limits.slot_scan_keys;
    if (static_cast<std::uint64_t>(*count) <= most) return {};
    return fmt::format(
        "-ERR node {} holds {} keys; to find those of one slot all of them have to be looked at, "
        "which is "
        "refused above limits.slot_scan_keys ({})\r\n",
        node_, *count, most);
  }

  bool take_page(std::string_view reply) {
    resp::ReplyCursor page(reply);
    auto pair = page.read_header();
    if (!pair || pair->type != '*' || pair->count != 2) return false;
    auto cursor = page.read_bulk();
    auto list = page.read_header();
    if (!cursor || !list || list->type != '*') return false;
    cursor_ = *cursor;
    is_through_ = cursor_ == "0";
    for (std::int64_t i = 0; i < list->count; ++i) {
      auto key = page.read_bulk();
      if (!key) return false;
      if (slots::slot_of_key(*key) != slot_ || resp::is_reserved_key(*key)) continue;
      if (!take_key(*key)) is_through_ = true;
    }
    return true;
  }

  slots::SlotId slot_;
  std::string node_;
  bool is_scanning_ = false;
  bool is_through_ = false;
  std::string cursor_ = "0";
};

class SlotCount final : public SlotScan {
 public:
  SlotCount(ClientSession& session, slots::SlotId slot) : SlotScan(session, slot) {}

 private:
  bool take_key(std::string_view key) override {
    hashes_.push_back(std::hash<std::string_view>()(key));
    return true;
  }
  void write(std::string& out) override {
    std::sort(hashes_.begin(), hashes_.end());
    auto count = std::unique(hashes_.begin(), hashes_.end()) - hashes_.begin();
    resp::ReplyWriter(out, false).integer(count);
  }
  void forget() override { hashes_.clear(); }

  std::vector<std::uint64_t> hashes_;  // 8 bytes a key, at most limits.slot_scan_keys of them.
};

class SlotKeys final : public SlotScan {
 public:
  SlotKeys(ClientSession& session, slots::SlotId slot, std::uint64_t keys_max)
      : SlotScan(session, slot), keys_max_(keys_max) {}

 private:
  bool take_key(std::string_view key) override {
    if (keys_.size() >= keys_max_) return false;
    if (keys_.emplace(key).second) bytes_ += key.size();
    return keys_.size() < keys_max_ && !is_too_large();
  }
  void write(std::string& out) override {
    resp::ReplyWriter writer(out, false);
    if (is_too_large())
      return writer.error(
          "ERR the keys together are larger than limits.merged_reply; ask for fewer");
    writer.array(keys_.size());
    for (const std::string& key : keys_) writer.bulk(key);
  }
  void forget() override {
    keys_.clear();
    bytes_ = 0;
  }
  bool is_too_large() { return bytes_ > session().table().limits.merged_reply; }

  std::uint64_t keys_max_;
  std::size_t bytes_ = 0;
  std::unordered_set<std::string> keys_;
};

}  // namespace

void reply_key_count_of_slot(ClientSession& session, slots::SlotId slot) {
  (new SlotCount(session, slot))->asked_all();
}

void reply_keys_of_slot(ClientSession& session, slots::SlotId slot, std::uint64_t keys_max) {
  if (keys_max == 0) return session.reply("*0\r\n");
  (new SlotKeys(session, slot, keys_max))->asked_all();
}

}  // namespace proxy::session
