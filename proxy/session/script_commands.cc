// EVAL, EVALSHA, SCRIPT, FUNCTION, FCALL and their read-only forms.
//
// A script runs where its keys are; one without keys, where its client's requests without keys go.
// Scripts and functions are loaded on all nodes. Sources of scripts are remembered
// (script_cache.h), so that EVALSHA works on a node that restarted, joined later, or never got the
// SCRIPT LOAD.

#include <algorithm>
#include <charconv>

#include "proxy/resp/arguments.h"
#include "proxy/resp/command_table.h"
#include "proxy/resp/reply_cursor.h"
#include "proxy/resp/reserved_key.h"
#include "proxy/session/all_nodes.h"
#include "proxy/session/apart_gather.h"
#include "proxy/session/commands.h"
#include "proxy/session/script_cache.h"
#include "slots/key_slot.h"

namespace proxy::session {

namespace {

using resp::CommandId;

WorkerScripts& scripts_of(ClientSession& session) {
  return session.core().scripts->of(session.core().worker);
}

// Where a script runs.
struct Target {
  slots::NodeIndex node = slots::kNoNode;
  slots::SlotId slot = 0;
  bool has_keys = false;
};

// The keys that stand behind their number, the third argument. None when there is no such number:
// the node says then what is wrong with it.
resp::Args keys_of(const Request& request) {
  constexpr std::size_t kFirstKey = 3;
  std::string_view text = request.args[2];
  std::size_t count = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  bool is_number = error == std::errc{} && end == text.data() + text.size();
  if (!is_number || count > request.args.size() - kFirstKey) return {};
  return request.args.subspan(kFirstKey, count);
}

// Nothing: the request was answered.
std::optional<Target> find_target(ClientSession& session, const Request& request) {
  resp::Args keys = keys_of(request);
  if (keys.empty()) {
    slots::NodeIndex node = any_node(session);
    if (node == slots::kNoNode) return std::nullopt;
    return Target{node, slots::kNoSlot, false};
  }
  slots::SlotId slot = slots::slot_of_key(keys.front());
  for (std::string_view key : keys) {
    if (resp::is_reserved_key(key))
      return session.reply_error(resp::errors::kReservedKey), std::nullopt;
    if (slots::slot_of_key(key) != slot)
      return session.reply_error(resp::errors::kCrossSlot), std::nullopt;
  }
  slots::NodeIndex owner = session.table().map->owner(slot);
  if (session.is_elsewhere(slot, owner)) return session.redirect(slot, owner), std::nullopt;
  return Target{owner, slot, true};
}

// --- EVALSHA -------------------------------------------------------------------------------------

// A script that should be known to the node. Where it is not after all (the server restarted a
// moment ago, or somebody flushed its scripts behind the proxy's back), it is loaded and the
// request sent again. What the client sent behind it may run before it then; the answers keep their
// order.
class EvalshaGather final : public Gather {
 public:
  EvalshaGather(ClientSession& session, const Target& target, const ScriptId& id,
                std::string_view bytes)
      : Gather(session),
        target_(target),
        node_(session.table().nodes[target.node].name),
        id_(id),
        bytes_(bytes) {
    send(target.node, target.slot, bytes_);
  }

 private:
  bool finish(std::string& out) override {
    if (is_too_large()) {
      write_too_large(out, "; EVAL passes on replies of any size");
      return true;
    }
    std::string_view reply = fragments().back().reply;
    if (reply.starts_with("-NOSCRIPT ") && !is_repaired_ && repair()) return false;
    if (is_repaired_) session().release(Hold::Answer);
    session().core().traffic->add(target_.slot, bytes_.size() + reply.size());
    out = reply;
    return true;
  }

  // The node has forgotten the script behind the proxy's back. With requests behind this one, doing
  // it again would change their order, and a fence lets nothing through that was not sent before:
  // the client gets the NOSCRIPT, which it knows how to repair, and the next one finds it loaded.
  bool repair() {
    if (has_followers() || session().table().fence != nullptr) {
      scripts_of(session()).note_missing(id_, node_);
      return false;
    }
    ScriptSource source = scripts_of(session()).find(id_);
    const slots::SlotMap& map = *session().table().map;
    auto node = map.find(node_);
    if (source == nullptr || !node || (target_.has_keys && map.owner(target_.slot) != *node))
      return false;
    is_repaired_ = true;
    session().hold(Hold::Answer);
    std::string load;
    resp::append_request(load, {"SCRIPT", "LOAD", *source});
    send(*node, target_.slot, load);
    send(*node, target_.slot, bytes_);
    return true;
  }

  Target target_;
  std::string node_;
  ScriptId id_;
  std::string bytes_;
  bool is_repaired_ = false;
};

// --- SCRIPT --------------------------------------------------------------------------------------

class ScriptLoadGather final : public AllNodesGather {
 public:
  ScriptLoadGather(ClientSession& session, const Request& request)
      : AllNodesGather(session),
        source_(request.args[2]),
        as_of_(session.core().scripts->flushes()) {
    ask_all(NodesMeant::Every, request.bytes);
  }

 private:
  bool finish(std::string& out) override {
    // A node that can't be reached is given it ahead of the first EVALSHA that it gets, once it is
    // remembered.
    for (const Fragment& fragment : fragments()) {
      if (fragment.is_error() || !remember()) continue;
      out = fragment.reply;
      return true;
    }
    out = merged_error();
    if (out.empty()) out = fragments().front().reply;
    return true;
  }

  bool remember() {
    ScriptCache& cache = *session().core().scripts;
    // A SCRIPT FLUSH that came behind it must not be undone.
    if (cache.flushes() != as_of_) return true;
    return cache.remember(script_id_of(source_), source_, session().table().limits.script_cache,
                          true);
  }

  std::string source_;
  std::uint64_t as_of_;
};

class ScriptExistsGather final : public AllNodesGather {
 public:
  ScriptExistsGather(ClientSession& session, const Request& request) : AllNodesGather(session) {
    for (std::string_view name : request.args.subspan(2)) {
      auto id = parse_script_id(name);
      known_.push_back(id ? session.core().scripts->knowledge_of(*id) : ScriptCache::Knowledge{});
    }
    ask_all(NodesMeant::Every, request.bytes);
  }

 private:
  // Whether EVALSHA would find it wherever its keys are: all nodes have it, or the proxy has it to
  // give. What the proxy saw in an EVAL counts once some node has compiled it.
  bool finish(std::string& out) override {
    std::vector<bool> everywhere(known_.size(), true);
    std::vector<bool> somewhere(known_.size(), false);
    std::size_t answers = 0;
    for (const Fragment& fragment : fragments()) {
      resp::ReplyCursor cursor(fragment.reply);
      auto header = cursor.read_header();
      bool is_answer = header && header->type == '*' &&
                       header->count == static_cast<std::int64_t>(known_.size());
      if (is_answer) ++answers;
      for (std::size_t i = 0; i < known_.size(); ++i) {
        bool exists = is_answer && cursor.read_integer() == 1;
        everywhere[i] = everywhere[i] && exists;
        somewhere[i] = somewhere[i] || exists;
      }
    }
    if (answers == 0) {
      out = merged_error();
      if (out.empty()) out = malformed(fragments().front());
      return true;
    }
    resp::ReplyWriter writer(out, resp3());
    writer.array(known_.size());
    for (std::size_t i = 0; i < known_.size(); ++i) {
      bool can_be_given = known_[i].is_remembered && (known_[i].is_compiled || somewhere[i]);
      writer.integer(everywhere[i] || can_be_given ? 1 : 0);
    }
    return true;
  }

  std::vector<ScriptCache::Knowledge> known_;
};

void script_flush(ClientSession& session, const Request& request) {
  bool is_valid = request.args.size() == 2 ||
                  (request.args.size() == 3 && (resp::is_word(request.args[2], "async") ||
                                                resp::is_word(request.args[2], "sync")));
  if (!is_valid) return session.reply_error("ERR SCRIPT FLUSH only support SYNC|ASYNC option");
  session.core().scripts->forget_all();
  (new AllSucceededGather(session, request.bytes))->sent_all();
}

// --- KILL and STATS: of nodes that are busy with a script ----------------------------------------

// SCRIPT KILL, FUNCTION KILL: one success is enough. Else what matters most: a script that can't be
// killed.
class KillGather final : public AllNodesApartGather {
 public:
  KillGather(ClientSession& session, std::string_view bytes)
      : AllNodesApartGather(session, bytes) {}

 private:
  static int weight(std::string_view reply) {
    if (!reply.starts_with('-')) return 3;
    for (std::string_view about_node : {"-CLUSTERDOWN ", "-LOADING ", "-ERR "}) {
      if (reply.starts_with(about_node)) return 0;
    }
    return reply.starts_with("-NOTBUSY ") ? 1 : 2;
  }

  bool finish(const std::vector<std::string>& replies, std::string& out) override {
    auto best = std::max_element(replies.begin(), replies.end(), [](const auto& a, const auto& b) {
      return weight(a) < weight(b);
    });
    out = *best;
    return true;
  }
};

// FUNCTION STATS: of a node that runs a function, if there is one.
class FunctionStatsGather final : public AllNodesApartGather {
 public:
  FunctionStatsGather(ClientSession& session, std::string_view bytes)
      : AllNodesApartGather(session, bytes) {}

 private:
  static int weight(std::string_view reply) {
    if (reply.starts_with('-')) return 0;
    resp::ReplyCursor cursor(reply);
    cursor.read_header();
    cursor.read_bulk();  // "running_script"
    auto running = cursor.read_header();
    return running && running->count > 0 ? 2 : 1;
  }

  bool finish(const std::vector<std::string>& replies, std::string& out) override {
    auto best = std::max_element(replies.begin(), replies.end(), [](const auto& a, const auto& b) {
      return weight(a) < weight(b);
    });
    out = *best;
    return true;
  }
};

void forward_anywhere(ClientSession& session, const Request& request) {
  slots::NodeIndex node = any_node(session);
  if (node != slots::kNoNode) session.forward(node, slots::kNoSlot, request.bytes);
}

}  // namespace

void command_eval(ClientSession& session, const Request& request) {
  auto target = find_target(session, request);
  if (!target) return;
  scripts_of(session).remember(request.args[1], session.table().limits.script_cache);
  session.forward_script(target->node, target->slot, request.bytes);
}

void command_evalsha(ClientSession& session, const Request& request) {
  auto target = find_target(session, request);
  if (!target) return;
  auto id = parse_script_id(request.args[1]);
  backend::NodeBackend& backend = session.core().backends->node(target->node);
  // A connection is opened now, if there is none: what the node was given before is not counted on.
  const std::string* why_not = nullptr;
  if (!id || backend.accepting(session.channel(), why_not) == nullptr)
    return session.forward_script(target->node, target->slot, request.bytes);
  WorkerScripts& scripts = scripts_of(session);
  const ScriptHost host{session.table().nodes[target->node].name, backend.connections_opened()};
  switch (scripts.standing(*id, target->node, host)) {
    case WorkerScripts::Standing::Unknown:
      return session.forward_script(target->node, target->slot, request.bytes);
    case WorkerScripts::Standing::Missing:
      if (ScriptSource source = scripts.find(*id)) {
        std::string load;
        resp::append_request(load, {"SCRIPT", "LOAD", *source});
        session.send_ahead(target->node, session.channel(), load);
        scripts.note_loaded(*id, target->node, host);
      }
      break;
    case WorkerScripts::Standing::Loaded:
      break;
  }
  (new EvalshaGather(session, *target, *id, request.bytes))->sent_all();
}

std::size_t append_scripts(ClientSession& session, slots::NodeIndex node,
                           std::span<const ScriptId> ids, bool is_shared, std::string& requests) {
  std::size_t count = 0;
  WorkerScripts& scripts = scripts_of(session);
  const ScriptHost host{session.table().nodes[node].name,
                        session.core().backends->node(node).connections_opened()};
  for (const ScriptId& id : ids) {
    if (is_shared && scripts.standing(id, node, host) != WorkerScripts::Standing::Missing) continue;
    ScriptSource source = scripts.find(id);
    if (source == nullptr) continue;
    resp::append_request(requests, {"SCRIPT", "LOAD", *source});
    if (is_shared) scripts.note_loaded(id, node, host);
    ++count;
  }
  return count;
}

void command_script(ClientSession& session, const Request& request) {
  switch (request.spec->id) {
    case CommandId::ScriptLoad:
      return (new ScriptLoadGather(session, request))->sent_all();
    case CommandId::ScriptExists:
      return (new ScriptExistsGather(session, request))->sent_all();
    case CommandId::ScriptFlush:
      return script_flush(session, request);
    case CommandId::ScriptKill:
      return (new KillGather(session, request.bytes))->asked_all();
    case CommandId::ScriptHelp:
      return forward_anywhere(session, request);
    default:
      return session.reply_error(resp::errors::not_supported(
          request.spec->name, "a debugger needs a server for itself; connect to the node itself"));
  }
}

void command_function(ClientSession& session, const Request& request) {
  switch (request.spec->id) {
    case CommandId::FunctionLoad:
    case CommandId::FunctionDelete:
    case CommandId::FunctionFlush:
    case CommandId::FunctionRestore:
      return (new AllSucceededGather(session, request.bytes))->sent_all();
    case CommandId::FunctionKill:
      return (new KillGather(session, request.bytes))->asked_all();
    case CommandId::FunctionStats:
      return (new FunctionStatsGather(session, request.bytes))->asked_all();
    default:
      return forward_anywhere(session, request);
  }
}

void command_fcall(ClientSession& session, const Request& request) {
  if (auto target = find_target(session, request))
    session.forward_script(target->node, target->slot, request.bytes);
}

}  // namespace proxy::session
