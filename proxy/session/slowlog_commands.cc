// SLOWLOG and LATENCY: what the nodes noticed, as one server would say it; on an endpoint its own
// node's.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "proxy/resp/arguments.h"
#include "proxy/resp/reply_cursor.h"
#include "proxy/route/latency_merge.h"
#include "proxy/route/slowlog_merge.h"
#include "proxy/session/all_nodes.h"
#include "proxy/session/commands.h"

namespace proxy::session {

namespace {

using resp::CommandId;
using resp::ReplyWriter;

constexpr std::uint64_t kSlowlogCount = 10;  // Redis's own when none is given.

class NodesGather : public AllNodesGather {
 public:
  NodesGather(ClientSession& session, const Request& request)
      : AllNodesGather(session), id_(request.spec->id) {
    ask_all(NodesMeant::Every, request.bytes);
  }

 private:
  bool finish(std::string& out) final {
    out = merged_error();
    if (!out.empty()) return true;
    if (is_too_large()) {
      write_too_large(out, "ask for fewer entries");
      return true;
    }
    std::vector<std::string_view> replies;
    for (const Fragment& fragment : fragments()) replies.push_back(fragment.reply);
    auto merged = merge(replies);
    out = merged ? std::move(*merged) : malformed(fragments().front());
    return true;
  }

  // A whole RESP reply of replies that are no errors.
  [[nodiscard]] virtual std::optional<std::string> merge(
      const std::vector<std::string_view>& replies) = 0;

 protected:
  [[nodiscard]] CommandId id() const { return id_; }

 private:
  CommandId id_;
};

std::string text_of(std::string_view node, std::string_view said) {
  return fmt::format("Node {}:\n{}\n", node, said);
}

std::optional<std::vector<std::int64_t>> integers_of(const std::vector<std::string_view>& replies) {
  std::vector<std::int64_t> found;
  for (const std::string_view reply : replies) {
    const auto integer = resp::ReplyCursor(reply).read_integer();
    if (!integer) return std::nullopt;
    found.push_back(*integer);
  }
  return found;
}

std::string integer_reply(std::int64_t value) {
  std::string out;
  ReplyWriter(out, false).integer(value);
  return out;
}

class SlowlogGather final : public NodesGather {
 public:
  SlowlogGather(ClientSession& session, const Request& request, std::uint64_t count)
      : NodesGather(session, request), count_(count) {}

 private:
  std::optional<std::string> merge(const std::vector<std::string_view>& replies) override {
    if (id() == CommandId::SlowlogGet) return route::merge_slowlogs(replies, count_);
    const auto lengths = integers_of(replies);
    if (!lengths) return std::nullopt;
    std::int64_t sum = 0;
    for (const std::int64_t length : *lengths) sum += length;
    return integer_reply(sum);
  }

  std::uint64_t count_;
};

class LatencyGather final : public NodesGather {
 public:
  using NodesGather::NodesGather;

 private:
  std::optional<std::string> merge(const std::vector<std::string_view>& replies) override {
    switch (id()) {
      case CommandId::LatencyHistogram:
        return route::merge_latency_histograms(replies, resp3());
      case CommandId::LatencyLatest:
        return route::merge_latency_latest(replies);
      case CommandId::LatencyHistory:
        return route::merge_latency_history(replies);
      case CommandId::LatencyReset:
        return reset(replies);
      default:
        return doctor(replies);
    }
  }

  // The same event may be known at several nodes: it is one of one server.
  static std::optional<std::string> reset(const std::vector<std::string_view>& replies) {
    const auto events = integers_of(replies);
    if (!events || events->empty()) return std::nullopt;
    return integer_reply(*std::ranges::max_element(*events));
  }

  std::optional<std::string> doctor(const std::vector<std::string_view>& replies) {
    std::string text;
    for (std::size_t i = 0; i < replies.size(); ++i) {
      const auto said = resp::ReplyCursor(replies[i]).read_bulk();
      if (!said) return std::nullopt;
      text += text_of(name_of(fragments()[i]), *said);
    }
    std::string out;
    ReplyWriter(out, resp3()).verbatim(text);
    return out;
  }
};

// Of those that have samples.
class LatencyGraphGather final : public AllNodesGather {
 public:
  LatencyGraphGather(ClientSession& session, const Request& request) : AllNodesGather(session) {
    ask_all(NodesMeant::Every, request.bytes);
  }

 private:
  bool finish(std::string& out) override {
    std::string text;
    for (const Fragment& fragment : fragments()) {
      const auto said = resp::ReplyCursor(fragment.reply).read_bulk();
      if (said) text += text_of(name_of(fragment), *said);
    }
    if (text.empty()) {
      out = merged_error();
    } else {
      ReplyWriter(out, resp3()).verbatim(text);
    }
    return true;
  }
};

void slowlog_get(ClientSession& session, const Request& request) {
  std::uint64_t count = kSlowlogCount;
  if (request.args.size() == 3) {
    const auto wanted = resp::integer_of(request.args[2]);
    if (wanted.value_or(-2) < -1)
      return session.reply_error("ERR count should be greater than or equal to -1");
    count = *wanted < 0 ? std::numeric_limits<std::uint64_t>::max()
                        : static_cast<std::uint64_t>(*wanted);
  }
  (new SlowlogGather(session, request, count))->sent_all();
}

}  // namespace

void command_slowlog(ClientSession& session, const Request& request) {
  switch (request.spec->id) {
    case CommandId::SlowlogGet:
      if (request.args.size() > 3) return refuse_subcommand(session, request);
      return slowlog_get(session, request);
    case CommandId::SlowlogLen:
      return (new SlowlogGather(session, request, 0))->sent_all();
    case CommandId::SlowlogReset:
      return (new AllSucceededGather(session, request.bytes))->sent_all();
    default:
      return reply_help(
          session,
          std::to_array<std::string_view>(
              {"SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", "GET [<count>]",
               "    The newest entries of all nodes' slow logs; a count of -1: all.", "LEN",
               "    How many entries all nodes have.", "RESET",
               "    Empties the slow logs of all nodes.", "HELP", "    Print this help."}));
  }
}

void command_latency(ClientSession& session, const Request& request) {
  switch (request.spec->id) {
    case CommandId::LatencyGraph:
      return (new LatencyGraphGather(session, request))->sent_all();
    case CommandId::LatencyHelp:
      return reply_help(
          session,
          std::to_array<std::string_view>(
              {"LATENCY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
               "DOCTOR, GRAPH <event>, HISTOGRAM [<command> ...], HISTORY <event>, LATEST, RESET",
               "    What all nodes noticed, as of one server.", "HELP", "    Print this help."}));
    default:
      return (new LatencyGather(session, request))->sent_all();
  }
}

}  // namespace proxy::session
