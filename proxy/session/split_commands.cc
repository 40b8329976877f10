// MGET, MSET, DEL, UNLINK, EXISTS and TOUCH over several slots: one fragment per node, one reply.
//
// A stock server takes keys of all its slots in one command, so fragments are made by node, not by
// slot. On a redirect endpoint nothing is split: several slots are CROSSSLOT there, as on a cluster
// node.

#include <charconv>
#include <vector>

#include "proxy/resp/reply_cursor.h"
#include "proxy/resp/reserved_key.h"
#include "proxy/session/commands.h"
#include "proxy/session/gather.h"
#include "slots/key_slot.h"

namespace proxy::session {

namespace {

constexpr std::size_t kNoFragment = static_cast<std::size_t>(-1);

// Which keys go where. Scratch of the thread: valid until the next plan().
struct SplitPlan {
  std::vector<std::size_t> fragment_of;  // Per key.
  std::vector<slots::SlotId> slot_of;    // Per key.
  std::vector<slots::NodeIndex> nodes;   // Per fragment.
  std::vector<slots::SlotId> slots;  // Per fragment: the slot of its first key, for error texts.
  std::vector<std::size_t> counts;   // Keys per fragment.
  std::vector<std::size_t> fragment_at;  // Per node.
  bool one_slot = true;
};

// `stride`: arguments per key (2 for MSET). False: a key is reserved; the error is replied.
bool plan(ClientSession& session, const Request& request, std::size_t stride, SplitPlan& plan) {
  const slots::SlotMap& map = *session.table().map;
  plan.fragment_of.clear();
  plan.slot_of.clear();
  plan.nodes.clear();
  plan.slots.clear();
  plan.counts.clear();
  plan.fragment_at.assign(map.nodes().size(), kNoFragment);
  plan.one_slot = true;
  slots::SlotId first_slot = 0;
  for (std::size_t i = 1; i < request.args.size(); i += stride) {
    if (resp::is_reserved_key(request.args[i])) {
      session.reply_error(resp::errors::kReservedKey);
      return false;
    }
    slots::SlotId slot = slots::slot_of_key(request.args[i]);
    slots::NodeIndex owner = map.owner(slot);
    if (i == 1) first_slot = slot;
    plan.one_slot = plan.one_slot && slot == first_slot;
    std::size_t& fragment = plan.fragment_at[owner];
    if (fragment == kNoFragment) {
      fragment = plan.nodes.size();
      plan.nodes.push_back(owner);
      plan.slots.push_back(slot);
      plan.counts.push_back(0);
    }
    ++plan.counts[fragment];
    plan.fragment_of.push_back(fragment);
    plan.slot_of.push_back(slot);
  }
  return true;
}

SplitPlan& thread_plan() {
  thread_local SplitPlan plan;
  return plan;
}

// Each key counts as an operation of its slot.
void send_fragments(Gather& gather, SlotTraffic& traffic, const Request& request,
                    std::size_t stride, const SplitPlan& plan) {
  thread_local std::vector<std::string> bytes;
  if (bytes.size() < plan.nodes.size()) bytes.resize(plan.nodes.size());
  for (std::size_t f = 0; f < plan.nodes.size(); ++f) {
    bytes[f].clear();
    resp::append_array_header(bytes[f], 1 + stride * plan.counts[f]);
    resp::append_bulk(bytes[f], request.args[0]);
  }
  for (std::size_t k = 0; k < plan.fragment_of.size(); ++k) {
    std::string& to = bytes[plan.fragment_of[k]];
    const std::size_t before = to.size();
    for (std::size_t i = 0; i < stride; ++i)
      resp::append_bulk(to, request.args[1 + k * stride + i]);
    traffic.add(plan.slot_of[k], to.size() - before);
  }
  for (std::size_t f = 0; f < plan.nodes.size(); ++f)
    gather.send(plan.nodes[f], plan.slots[f], bytes[f]);
  gather.sent_all();
}

// True: the request was answered or sent as it is.
bool handled_whole(ClientSession& session, const Request& request, const SplitPlan& plan) {
  if (session.is_redirect()) {
    if (!plan.one_slot) {
      session.reply_error(resp::errors::kCrossSlot);
      return true;
    }
    if (session.is_elsewhere(plan.slots[0], plan.nodes[0])) {
      session.redirect(plan.slots[0], plan.nodes[0]);
      return true;
    }
  }
  if (plan.nodes.size() > 1) return false;
  session.forward(plan.nodes[0], plan.slots[0], request.bytes);
  for (std::size_t k = 1; k < plan.slot_of.size() && !plan.one_slot; ++k)
    session.core().traffic->add(plan.slot_of[k], 0);
  return true;
}

class MgetGather final : public Gather {
 public:
  MgetGather(ClientSession& session, const SplitPlan& plan)
      : Gather(session), fragment_of_(plan.fragment_of), slot_of_(plan.slot_of) {}

 private:
  bool finish(std::string& out) override {
    for (const Fragment& fragment : fragments()) {
      if (fragment.is_error()) {
        out = named_error(fragment);
        return true;
      }
    }
    if (is_too_large()) {
      write_too_large(out, "; ask for fewer keys at once");
      return true;
    }
    std::vector<resp::ReplyCursor> cursors;
    std::size_t bytes = 16;
    for (const Fragment& fragment : fragments()) {
      cursors.emplace_back(fragment.reply);
      bytes += fragment.reply.size();
      cursors.back().read_header();
    }
    out.reserve(bytes);
    resp::append_array_header(out, fragment_of_.size());
    for (std::size_t k = 0; k < fragment_of_.size(); ++k) {
      std::string_view value = cursors[fragment_of_[k]].read_raw();
      if (value.empty()) {
        out = "-ERR a node answered MGET with another number of values than asked for\r\n";
        return true;
      }
      out.append(value);
      session().core().traffic->add_bytes(slot_of_[k], value.size());
    }
    return true;
  }

  std::vector<std::size_t> fragment_of_;
  std::vector<slots::SlotId> slot_of_;
};

class AllOkGather final : public Gather {
 public:
  explicit AllOkGather(ClientSession& session) : Gather(session) {}

 private:
  bool finish(std::string& out) override {
    for (const Fragment& fragment : fragments()) {
      if (!fragment.is_error()) continue;
      out = named_error(fragment);
      return true;
    }
    out = "+OK\r\n";
    return true;
  }
};

class SumGather final : public Gather {
 public:
  explicit SumGather(ClientSession& session) : Gather(session) {}

 private:
  bool finish(std::string& out) override {
    std::int64_t sum = 0;
    for (const Fragment& fragment : fragments()) {
      if (fragment.is_error()) {
        out = named_error(fragment);
        return true;
      }
      std::int64_t part = 0;
      std::from_chars(fragment.reply.data() + 1, fragment.reply.data() + fragment.reply.size(),
                      part);
      sum += part;
    }
    resp::ReplyWriter(out, resp3()).integer(sum);
    return true;
  }
};

}  // namespace

void command_mget(ClientSession& session, const Request& request) {
  SplitPlan& split = thread_plan();
  if (!plan(session, request, 1, split) || handled_whole(session, request, split)) return;
  send_fragments(*new MgetGather(session, split), *session.core().traffic, request, 1, split);
}

void command_mset(ClientSession& session, const Request& request) {
  if (request.args.size() % 2 == 0)
    return session.reply_error("ERR wrong number of arguments for 'mset' command");
  SplitPlan& split = thread_plan();
  if (!plan(session, request, 2, split) || handled_whole(session, request, split)) return;
  send_fragments(*new AllOkGather(session), *session.core().traffic, request, 2, split);
}

void command_sum_over_keys(ClientSession& session, const Request& request) {
  SplitPlan& split = thread_plan();
  if (!plan(session, request, 1, split) || handled_whole(session, request, split)) return;
  send_fragments(*new SumGather(session), *session.core().traffic, request, 1, split);
}

}  // namespace proxy::session
