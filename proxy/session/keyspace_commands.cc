// DBSIZE, KEYS, SCAN, RANDOMKEY, FLUSHALL and FLUSHDB: commands about all keys, wherever they are.
//
// What a client sees is the keys of a node's own slots. Those of the proxy itself, and keys that a
// node does not own (copies under way, strays), are left out of every list.

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <random>

#include "proxy/resp/arguments.h"
#include "proxy/resp/reply_cursor.h"
#include "proxy/resp/reserved_key.h"
#include "proxy/route/scan_place.h"
#include "proxy/session/all_nodes.h"
#include "proxy/session/commands.h"

namespace proxy::session {

namespace {

// --- DBSIZE --------------------------------------------------------------------------------------

class DbsizeGather final : public AllNodesGather {
 public:
  DbsizeGather(ClientSession& session, std::string_view bytes) : AllNodesGather(session) {
    std::string exists;
    resp::append_request(exists, {"EXISTS", resp::kIdentityKey});
    for (slots::NodeIndex node : nodes_meant(session, NodesMeant::Owners)) {
      ask(node, bytes);
      ask(node, exists);
    }
  }

 private:
  bool finish(std::string& out) override {
    out = merged_error();
    if (!out.empty()) return true;
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < fragments().size(); ++i) {
      auto number = resp::ReplyCursor(fragments()[i].reply).read_integer();
      if (!number) {
        out = malformed(fragments()[i]);
        return true;
      }
      sum += i % 2 == 0 ? *number : -*number;
    }
    resp::ReplyWriter(out, resp3()).integer(std::max<std::int64_t>(sum, 0));
    return true;
  }
};

// --- KEYS ----------------------------------------------------------------------------------------

class KeysGather final : public AllNodesGather {
 public:
  KeysGather(ClientSession& session, std::string_view bytes) : AllNodesGather(session) {
    ask_all(NodesMeant::Owners, bytes);
  }

 private:
  bool finish(std::string& out) override {
    out = merged_error();
    if (!out.empty()) return true;
    if (is_too_large()) {
      write_too_large(out, "; use SCAN, which answers in small pieces");
      return true;
    }
    std::size_t bytes = 32;
    for (const Fragment& fragment : fragments()) bytes += fragment.reply.size();
    std::string keys;
    keys.reserve(bytes);
    std::size_t count = 0;
    for (const Fragment& fragment : fragments()) {
      if (!append_visible(fragment, keys, count)) {
        out = malformed(fragment);
        return true;
      }
    }
    std::string header;
    resp::append_array_header(header, count);
    keys.insert(0, header);
    out = std::move(keys);
    return true;
  }

  bool append_visible(const Fragment& fragment, std::string& keys, std::size_t& count) const {
    resp::ReplyCursor cursor(fragment.reply);
    auto header = cursor.read_header();
    if (!header || header->type != '*') return false;
    for (std::int64_t i = 0; i < header->count; ++i) {
      auto key = cursor.read_bulk();
      if (!key) return false;
      if (!is_visible(*key, fragment.node)) continue;
      resp::append_bulk(keys, *key);
      ++count;
    }
    return true;
  }
};

// --- SCAN ----------------------------------------------------------------------------------------

// As parseScanCursorOrReply() in Redis's db.c, which leaves it to strtoul().
std::optional<std::uint64_t> parse_cursor(std::string_view text) {
  if (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0)
    return std::nullopt;
  if (text.find('\0') != std::string_view::npos) return std::nullopt;
  std::string copy(text);
  char* end = nullptr;
  errno = 0;
  std::uint64_t value = std::strtoull(copy.c_str(), &end, 10);
  if (*end != '\0' || errno == ERANGE) return std::nullopt;
  return value;
}

class ScanGather final : public AllNodesGather {
 public:
  // The endpoint's own node, with its own cursors.
  ScanGather(ClientSession& session, std::string_view bytes) : AllNodesGather(session) {
    ask_all(NodesMeant::Every, bytes);
  }
  // One node of all.
  ScanGather(ClientSession& session, route::ScanPlace place, std::string_view bytes)
      : AllNodesGather(session), place_(std::move(place)) {
    ask(place_->node(), bytes);
  }

 private:
  bool finish(std::string& out) override {
    if (is_too_large()) {
      write_too_large(out, "; use a smaller COUNT");
    } else if (fragments().front().is_error()) {
      // What is wrong with the arguments is said as Redis says it; what is wrong with a node, with
      // its name.
      const Fragment& fragment = fragments().front();
      bool is_about_node = place_ && !fragment.reply.starts_with("-ERR ");
      out = is_about_node ? error_with_name(fragment) : std::string(fragment.reply);
    } else if (!write_page(fragments().front(), out)) {
      out = malformed(fragments().front());
    }
    return true;
  }

  bool write_page(const Fragment& fragment, std::string& out) {
    resp::ReplyCursor cursor(fragment.reply);
    auto pair = cursor.read_header();
    if (!pair || pair->type != '*' || pair->count != 2) return false;
    auto text = cursor.read_bulk();
    auto node_cursor = text ? parse_cursor(*text) : std::nullopt;
    auto list = cursor.read_header();
    if (!node_cursor || !list || list->type != '*') return false;
    std::string keys;
    std::size_t count = 0;
    for (std::int64_t i = 0; i < list->count; ++i) {
      auto key = cursor.read_bulk();
      if (!key) return false;
      if (!is_visible(*key, fragment.node)) continue;
      resp::append_bulk(keys, *key);
      ++count;
    }
    auto next = place_ ? place_->next(*node_cursor, *asked().map)
                       : slots::Result<std::uint64_t>(*node_cursor);
    resp::ReplyWriter writer(out, resp3());
    if (!next) {
      writer.error("ERR node " + name_of(fragment) + ": " + next.error().message);
      return true;
    }
    writer.array(2);
    writer.bulk(std::to_string(*next));
    writer.array(count);
    out.append(keys);
    return true;
  }

  std::optional<route::ScanPlace> place_;
};

slots::Result<route::ScanPlace> place_of(const RoutingTable& table, std::string_view text) {
  auto cursor = parse_cursor(text);
  if (!cursor) return slots::fail(slots::Errc::InvalidArgument, "no number");
  std::vector<std::string_view> ids;
  for (const NodeRoute& node : table.nodes) ids.push_back(node.id);
  return route::ScanPlace::find(*cursor, *table.map, ids);
}

// --- RANDOMKEY -----------------------------------------------------------------------------------

// Asks one node after the other, in random order, until one shows a key. A node may well answer
// with a key that clients must not see; then it is asked more often at once, so that a single
// visible key is found almost surely. The session is held meanwhile: what a client sends behind it
// must not be executed before the later questions.
class RandomkeyGather final : public AllNodesGather {
 public:
  explicit RandomkeyGather(ClientSession& session) : AllNodesGather(session) {
    resp::append_request(request_, {"RANDOMKEY"});
    nodes_ = nodes_meant(session, NodesMeant::Owners);
    thread_local std::minstd_rand random{std::random_device{}()};
    std::shuffle(nodes_.begin(), nodes_.end(), random);
    if (ask_next()) session.hold(Hold::Answer);
  }

 private:
  static constexpr std::size_t kTriesMax =
      64;  // At once; of 1, 4, 16 and 64 all hidden: the node counts as empty.

  bool finish(std::string& out) override {
    if (!take_answers(out)) return false;
    session().release(Hold::Answer);
    return true;
  }

  // False: more are to come.
  bool take_answers(std::string& out) {
    bool node_is_done = false;
    for (; answered_ < fragments().size() && out.empty(); ++answered_) {
      const Fragment& fragment = fragments()[answered_];
      if (fragment.is_error()) {
        if (error_.empty()) error_ = error_with_name(fragment);
        node_is_done = true;
        continue;
      }
      auto key = resp::ReplyCursor(fragment.reply).read_bulk();
      if (!key) {
        node_is_done = true;
      } else if (is_visible(*key, nodes_.back())) {
        out = fragment.reply;
      }
    }
    if (!out.empty()) return true;
    tries_ *= 4;
    if (node_is_done || tries_ > kTriesMax) {
      nodes_.pop_back();
      tries_ = 1;
    }
    if (ask_next()) return false;
    if (error_.empty()) {
      resp::ReplyWriter(out, resp3()).null();
    } else {
      out = error_;
    }
    return true;
  }

  bool ask_next() {
    follow_table(nodes_);
    if (nodes_.empty()) return false;
    for (std::size_t i = 0; i < tries_; ++i) ask(nodes_.back(), request_);
    return true;
  }

  std::string request_;
  std::vector<slots::NodeIndex> nodes_;  // Still to ask; the one that is asked now is the last.
  std::size_t tries_ = 1;
  std::size_t answered_ = 0;
  std::string error_;
};

// --- FLUSHALL, FLUSHDB ---------------------------------------------------------------------------

// Where database 0 is flushed, the identity key must stand again: its SET follows on the same
// connection, so the node executes both in one go. So FLUSHALL of whoever uses another database
// goes by way of database 0.
class FlushGather final : public AllNodesGather {
 public:
  FlushGather(ClientSession& session, std::string_view bytes, bool is_all)
      : AllNodesGather(session),
        under_way_(session.core().flushes_under_way),
        lost_(session.core().stats.lost_flushes),
        is_detour_(is_all && session.channel().database() != 0) {
    if (is_detour_) {
      use_database(0);
      session.hold(Hold::Answer);
    }
    const bool is_of_identity = is_all || session.channel().database() == 0;
    const backend::Channel channel(session.channel().protocol(), 0);
    ++under_way_;
    session.core().stats.flushes.add();
    for (slots::NodeIndex node : nodes_meant(session, NodesMeant::Every)) {
      bool is_sent = ask(node, bytes);
      const std::string& identity = session.table().nodes[node].identity;
      std::string restore;
      resp::append_request(restore, {"SET", resp::kIdentityKey, identity});
      // An answer that nobody waits for: without its identity a node is given it again when it is
      // next verified.
      if (is_sent && is_of_identity && !identity.empty())
        session.send_ahead(node, channel, restore);
    }
  }
  ~FlushGather() override {
    --under_way_;
    if (is_any_lost()) lost_.add();
  }

 private:
  bool finish(std::string& out) override {
    if (is_detour_) session().release(Hold::Answer);
    out = merged_error();
    if (out.empty()) out = "+OK\r\n";
    return true;
  }

  std::uint64_t& under_way_;
  Counter& lost_;
  bool is_detour_;
};

}  // namespace

void command_dbsize(ClientSession& session, const Request& request) {
  (new DbsizeGather(session, request.bytes))->sent_all();
}

void command_keys(ClientSession& session, const Request& request) {
  (new KeysGather(session, request.bytes))->sent_all();
}

void command_scan(ClientSession& session, const Request& request) {
  if (session.is_redirect()) return (new ScanGather(session, request.bytes))->sent_all();
  auto place = place_of(session.table(), request.args[1]);
  if (!place) return session.reply_error("ERR invalid cursor");
  if (place->is_over()) return session.reply("*2\r\n$1\r\n0\r\n*0\r\n");
  std::string bytes;
  resp::append_array_header(bytes, request.args.size());
  resp::append_bulk(bytes, "SCAN");
  resp::append_bulk(bytes, std::to_string(place->node_cursor()));
  for (std::string_view arg : request.args.subspan(2)) resp::append_bulk(bytes, arg);
  (new ScanGather(session, std::move(*place), bytes))->sent_all();
}

void command_randomkey(ClientSession& session, const Request&) {
  (new RandomkeyGather(session))->sent_all();
}

void command_flush(ClientSession& session, const Request& request) {
  bool is_valid = request.args.size() == 1 ||
                  (request.args.size() == 2 && (resp::is_word(request.args[1], "async") ||
                                                resp::is_word(request.args[1], "sync")));
  if (!is_valid) return session.reply_error(resp::errors::kSyntax);
  const bool is_all = request.spec->id == resp::CommandId::Flushall;
  if (is_all && session.channel().database() != 0 && !session.is_quiet()) return session.put_off();
  (new FlushGather(session, request.bytes, is_all))->sent_all();
}

}  // namespace proxy::session
