// Commands about the connection itself: who the client is, how it wants its replies. Answered
// here, since nodes only know the connections that all sessions share.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "proxy/acl/users.h"
#include "proxy/net/resolver.h"
#include "proxy/resp/arguments.h"
#include "proxy/resp/command_table.h"
#include "proxy/session/all_nodes.h"
#include "proxy/session/answer_of_all.h"
#include "proxy/session/blocked_call.h"
#include "proxy/session/client_address.h"
#include "proxy/session/client_list.h"
#include "proxy/session/commands.h"
#include "proxy/session/rights.h"
#include "proxy/session/sessions.h"
#include "proxy/session/subscribers.h"
#include "proxy/session/tracking.h"
#include "proxy/session/transaction.h"

namespace proxy::session {

namespace {

using resp::CommandId;
using resp::ReplyWriter;

std::string ok() { return "+OK\r\n"; }

constexpr std::string_view kBadName =
    "ERR Client names cannot contain spaces, newlines or special characters.";

// A name shows up in CLIENT LIST, whose fields are parted by blanks.
bool is_plain_text(std::string_view text) {
  for (char c : text) {
    if (c < '!' || c > '~') return false;
  }
  return true;
}

ClientFacts facts_of(ClientSession& session) {
  ClientFacts facts;
  facts.id = session.id();
  facts.is_unix = !session.listener().is_tcp;
  facts.address = client_address(session);
  facts.local_address = local_address(session);
  facts.is_monitor = session.sessions().monitors().contains(session);
  facts.user = session.user().name();
  facts.descriptor = session.descriptor();
  std::uint64_t now = session.core().now_ms();
  facts.age_seconds = (now - session.created_ms()) / 1000;
  facts.idle_seconds = (now - session.last_active_ms()) / 1000;
  facts.input_bytes = session.input_bytes();
  facts.unread_bytes = session.unread_bytes();
  facts.protocol = session.resp3() ? 3 : 2;
  facts.database = session.channel().database();
  facts.is_blocked = session.is_held_for(Hold::Pause);
  if (const Transaction* transaction = session.transaction())
    facts.queued = static_cast<int>(transaction->size());
  if (const BlockedCall* call = session.blocked_call()) {
    facts.is_blocked = true;
    facts.last_command = call->command().name;
  }
  if (const Subscriptions* subscriptions = session.subscriptions_if_any()) {
    facts.channels = subscriptions->count(pubsub::Kind::Channel);
    facts.patterns = subscriptions->count(pubsub::Kind::Pattern);
    facts.sharded_channels = subscriptions->count(pubsub::Kind::Sharded);
  }
  if (const Tracking* tracking = session.tracking_if_any()) {
    facts.redirect = static_cast<std::int64_t>(tracking->options.redirect);
    facts.is_broadcast = tracking->options.is_broadcast;
    facts.is_redirect_broken = tracking->is_redirect_broken;
  }
  if (const SessionNotes* notes = session.notes_if_any()) {
    facts.name = notes->name;
    facts.library_name = notes->library_name;
    facts.library_version = notes->library_version;
  }
  return facts;
}

// PING where it is to speak for all nodes.
class PingGather final : public AllNodesApartGather {
 public:
  PingGather(ClientSession& session, std::string_view bytes)
      : AllNodesApartGather(session, bytes) {}

 private:
  bool finish(const std::vector<std::string>& replies, std::string& out) override {
    const auto wrong =
        std::ranges::find_if(replies, [](const auto& reply) { return reply.starts_with('-'); });
    out = wrong == replies.end() ? replies.front() : *wrong;
    return true;
  }
};

// What only the one who asks has: a command that is being executed.
struct Asking {
  Asking(const ClientSession& session, const Request& request)
      : id(session.id()), command(request.spec->name), bytes(request.bytes.size()) {}
  void add_to(ClientFacts& facts) const {
    if (facts.id != id) return;
    facts.last_command = command;
    facts.input_bytes += bytes;
  }

  std::uint64_t id;
  std::string command;
  std::size_t bytes;
};

std::string own_line(ClientSession& session, const Request& request) {
  ClientFacts facts = facts_of(session);
  Asking(session, request).add_to(facts);
  return client_line(facts);
}

void client_list(ClientSession& session, const Request& request) {
  auto filter = parse_list_filter(request.args);
  if (!filter) return session.reply_error(filter.error().message);
  auto answer = AnswerOfAll::of(session);
  session.sessions().others().ask_all(
      [filter = *filter, asking = Asking(session, request)](Sessions& sessions) {
        std::string lines;
        sessions.for_each([&](ClientSession& each) {
          ClientFacts facts = facts_of(each);
          asking.add_to(facts);
          if (filter.matches(facts)) lines += client_line(facts) + "\n";
        });
        return lines;
      },
      [answer](const std::vector<std::string>& answers) {
        if (answer->session() == nullptr) return;
        std::string out;
        ReplyWriter(out, answer->session()->resp3()).verbatim(lines_by_id(answers));
        answer->fill(out);
      });
}

void client_kill(ClientSession& session, const Request& request) {
  auto filter = parse_kill_filter(request.args, [&](std::string_view name) {
    return session.table().users->find(name) != nullptr;
  });
  if (!filter) return session.reply_error(filter.error().message);
  auto answer = AnswerOfAll::of(session);
  std::uint64_t me = session.id();
  session.sessions().others().ask_all(
      [filter = *filter, me](Sessions& sessions) {
        std::size_t killed = 0;
        sessions.for_each([&](ClientSession& each) {
          if ((filter.skip_me && each.id() == me) || !filter.matches(facts_of(each))) return;
          ++killed;
          // The one that asks still gets its answer.
          each.id() == me ? each.close_after_replies() : each.close_now();
        });
        return std::to_string(killed);
      },
      [answer, old_form = filter->old_form](const std::vector<std::string>& answers) {
        if (answer->session() == nullptr) return;
        std::int64_t killed = 0;
        for (const std::string& count : answers) killed += std::stoll(count);
        std::string out;
        ReplyWriter writer(out, answer->session()->resp3());
        if (!old_form) {
          writer.integer(killed);
        } else if (killed > 0) {
          writer.simple("OK");
        } else {
          writer.error("ERR No such client");
        }
        answer->fill(out);
      });
}

void client_unblock(ClientSession& session, const Request& request) {
  backend::UnblockReply reply = backend::UnblockReply::Timeout;
  if (request.args.size() > 4) {
    return session.reply_error(
        "ERR unknown subcommand or wrong number of arguments for 'UNBLOCK'. Try CLIENT HELP.");
  }
  if (request.args.size() == 4) {
    if (resp::is_word(request.args[3], "error")) {
      reply = backend::UnblockReply::Error;
    } else if (!resp::is_word(request.args[3], "timeout")) {
      return session.reply_error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
    }
  }
  auto id = resp::integer_of(request.args[2]);
  if (!id) return session.reply_error(resp::errors::kNotInteger);
  auto answer = AnswerOfAll::of(session);
  session.sessions().others().ask_all(
      [id = static_cast<std::uint64_t>(*id), reply](Sessions& sessions) {
        ClientSession* blocked = sessions.find(id);
        BlockedCall* call = blocked == nullptr ? nullptr : blocked->blocked_call();
        return std::string(call != nullptr && call->unblock(reply) ? "1" : "");
      },
      [answer](const std::vector<std::string>& answers) {
        if (answer->session() == nullptr) return;
        const bool is_unblocked = std::ranges::find(answers, std::string("1")) != answers.end();
        answer->fill(is_unblocked ? ":1\r\n" : ":0\r\n");
      });
}

void client_setname(ClientSession& session, const Request& request) {
  if (!is_plain_text(request.args[2])) return session.reply_error(kBadName);
  session.notes().name = std::string(request.args[2]);
  session.reply(ok());
}

void client_setinfo(ClientSession& session, const Request& request) {
  std::string_view attribute = request.args[2];
  std::string_view value = request.args[3];
  bool is_name = resp::is_word(attribute, "lib-name");
  if (!is_name && !resp::is_word(attribute, "lib-ver")) {
    return session.reply_error("ERR Unrecognized option '" + std::string(attribute) + "'");
  }
  if (!is_plain_text(value)) {
    return session.reply_error(std::string("ERR ") + (is_name ? "lib-name" : "lib-ver") +
                               " cannot contain spaces, newlines or special characters.");
  }
  (is_name ? session.notes().library_name : session.notes().library_version) = std::string(value);
  session.reply(ok());
}

void client_reply(ClientSession& session, const Request& request) {
  std::string_view mode = request.args[2];
  if (resp::is_word(mode, "on")) {
    session.set_reply_mode(ReplyMode::On);
    session.reply(ok());
  } else if (resp::is_word(mode, "off")) {
    session.set_reply_mode(ReplyMode::Off);
  } else if (resp::is_word(mode, "skip")) {
    // Once off, only ON brings replies back.
    if (session.reply_mode() != ReplyMode::Off) session.set_reply_mode(ReplyMode::SkipNext);
  } else {
    session.reply_error(resp::errors::kSyntax);
  }
}

void reply_on_or_off(ClientSession& session, const Request& request) {
  bool known = resp::is_word(request.args[2], "on") || resp::is_word(request.args[2], "off");
  known ? session.reply(ok()) : session.reply_error(resp::errors::kSyntax);
}

constexpr std::string_view kClientHelp[] = {
    "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CACHING (YES|NO)",
    "    Enable/disable tracking of the keys for next command in OPTIN/OPTOUT modes.",
    "GETREDIR",
    "    Return the client ID we are redirecting to when tracking is enabled.",
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "KILL <ip:port>",
    "    Kill connection made from <ip:port>.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Kill connections. Options are: ADDR, LADDR, TYPE, USER, SKIPME, ID.",
    "LIST [TYPE NORMAL | ID <id> ...]",
    "    Return information about the proxy's client connections.",
    "UNPAUSE",
    "    Stop the current client pause, resuming traffic.",
    "PAUSE <timeout> [WRITE|ALL]",
    "    Suspend all, or just write, clients of the proxy for <timeout> milliseconds.",
    "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to the current connection.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "SETINFO <option> <value>",
    "    Set client meta attr. Options are: LIB-NAME, LIB-VER.",
    "UNBLOCK <clientid> [TIMEOUT|ERROR]",
    "    Unblock the specified blocked client.",
    "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
    "         [OPTIN] [OPTOUT] [NOLOOP]",
    "    Control server assisted client side caching.",
    "TRACKINGINFO",
    "    Report tracking status for the current connection.",
    "NO-EVICT (ON|OFF)",
    "    Accepted; the proxy evicts no clients.",
    "NO-TOUCH (ON|OFF)",
    "    Accepted without effect on the nodes.",
    "HELP",
    "    Print this help.",
};

// HELLO's options; false: the error is replied, or the request was put off.
bool take_hello_options(ClientSession& session, const Request& request) {
  for (std::size_t i = 2; i < request.args.size(); ++i) {
    std::size_t left = request.args.size() - i - 1;
    if (resp::is_word(request.args[i], "auth") && left >= 2) {
      if (log_in(session, request, request.args[i + 1], request.args[i + 2]) != Login::Done)
        return false;
      i += 2;
    } else if (resp::is_word(request.args[i], "setname") && left >= 1) {
      if (!is_plain_text(request.args[i + 1])) {
        session.reply_error(kBadName);
        return false;
      }
      session.notes().name = std::string(request.args[++i]);
    } else {
      session.reply_error("ERR Syntax error in HELLO option '" + std::string(request.args[i]) +
                          "'");
      return false;
    }
  }
  return true;
}

}  // namespace

std::string client_info(ClientSession& session, const Request& request) {
  return own_line(session, request);
}

void command_auth(ClientSession& session, const Request& request) {
  if (request.args.size() > 3) return session.reply_error(resp::errors::kSyntax);
  bool with_user = request.args.size() == 3;
  if (!with_user && session.table().users->default_user().needs_no_password()) {
    return session.reply_error(
        "ERR AUTH <password> called without any password configured for the default user. Are you "
        "sure your configuration is correct?");
  }
  const std::string_view user = with_user ? request.args[1] : acl::Users::kDefault;
  if (log_in(session, request, user, request.args.back()) == Login::Done) session.reply(ok());
}

void command_echo(ClientSession& session, const Request& request) {
  std::string out;
  resp::append_bulk(out, request.args[1]);
  session.reply(out);
}

void command_ping(ClientSession& session, const Request& request) {
  if (request.args.size() > 2)
    return session.reply_error("ERR wrong number of arguments for 'ping' command");
  if (session.takes_messages_only()) {
    std::string out;
    ReplyWriter writer(out, false);
    writer.array(2);
    writer.bulk("pong");
    writer.bulk(request.args.size() == 2 ? request.args[1] : "");
    return session.reply(out);
  }
  if (session.table().ping_nodes) {
    if (!session.is_quiet()) return session.put_off();  // Other connections: it would overtake.
    return (new PingGather(session, request.bytes))->asked_all();
  }
  if (request.args.size() == 2) return command_echo(session, request);
  session.reply("+PONG\r\n");
}

void command_quit(ClientSession& session, const Request&) {
  session.reply(ok());
  session.close_after_replies();
}

void command_reset(ClientSession& session, const Request&) {
  session.reset();
  session.reply("+RESET\r\n");
}

void command_select(ClientSession& session, const Request& request) {
  auto database = resp::integer_of(request.args[1]);
  if (!database) return session.reply_error(resp::errors::kNotInteger);
  if (!std::in_range<std::int32_t>(*database)) {
    return session.reply_error(
        "ERR value is out of range, value must between -2147483648 and 2147483647");
  }
  if (session.is_redirect() && *database != 0)
    return session.reply_error(resp::errors::kSelectInCluster);
  if (!std::in_range<unsigned>(*database) || *database >= session.table().databases)
    return session.reply_error(resp::errors::kDatabaseRange);
  const backend::Channel channel = session.channel().at(static_cast<unsigned>(*database));
  if (channel != session.channel() && session.watch_if_any() != nullptr) {
    return session.reply_error(resp::errors::not_supported(
        request.spec->name, "keys of the database before are watched; EXEC, DISCARD or UNWATCH"));
  }
  session.set_channel(channel);
  session.reply(ok());
}

void command_hello(ClientSession& session, const Request& request) {
  backend::Protocol protocol = session.channel().protocol();
  if (request.args.size() > 1) {
    auto version = resp::integer_of(request.args[1]);
    if (!version)
      return session.reply_error("ERR Protocol version is not an integer or out of range");
    if (*version != 2 && *version != 3)
      return session.reply_error("NOPROTO unsupported protocol version");
    protocol = *version == 3 ? backend::Protocol::Resp3 : backend::Protocol::Resp2;
  }
  if (!take_hello_options(session, request)) return;
  if (!session.is_authenticated()) {
    return session.reply_error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
        "AUTH <user> <pass> option can be used to authenticate the client and select the RESP "
        "protocol version at the same time");
  }
  session.set_channel(session.channel().with(protocol));
  std::string out;
  ReplyWriter writer(out, session.resp3());
  writer.map(7);
  writer.bulk("server");
  writer.bulk("redis");
  writer.bulk("version");
  writer.bulk(session.table().version_for_clients());
  writer.bulk("proto");
  writer.integer(session.resp3() ? 3 : 2);
  writer.bulk("id");
  writer.integer(static_cast<std::int64_t>(session.id()));
  writer.bulk("mode");
  writer.bulk(session.is_redirect() || session.table().forward_cluster ? "cluster" : "standalone");
  writer.bulk("role");
  writer.bulk("master");
  writer.bulk("modules");
  writer.array(0);
  session.reply(out);
}

void command_client(ClientSession& session, const Request& request) {
  std::string out;
  ReplyWriter writer(out, session.resp3());
  switch (request.spec->id) {
    case CommandId::ClientId:
      writer.integer(static_cast<std::int64_t>(session.id()));
      break;
    case CommandId::ClientGetname: {
      const SessionNotes* notes = session.notes_if_any();
      notes != nullptr && !notes->name.empty() ? writer.bulk(notes->name) : writer.null();
      break;
    }
    case CommandId::ClientInfo:
      writer.verbatim(own_line(session, request) + "\n");
      break;
    case CommandId::ClientHelp:
      return reply_help(session, kClientHelp);
    case CommandId::ClientSetname:
      return client_setname(session, request);
    case CommandId::ClientSetinfo:
      return client_setinfo(session, request);
    case CommandId::ClientReply:
      return client_reply(session, request);
    case CommandId::ClientNoEvict:
    case CommandId::ClientNoTouch:
      return reply_on_or_off(session, request);
    case CommandId::ClientList:
      return client_list(session, request);
    case CommandId::ClientKill:
      return client_kill(session, request);
    case CommandId::ClientUnblock:
      return client_unblock(session, request);
    case CommandId::ClientPause:
      return client_pause(session, request);
    case CommandId::ClientUnpause:
      return client_unpause(session, request);
    case CommandId::ClientCaching:
      return client_caching(session, request);
    case CommandId::ClientGetredir:
      return client_getredir(session, request);
    case CommandId::ClientTracking:
      return client_tracking(session, request);
    case CommandId::ClientTrackinginfo:
      return client_trackinginfo(session, request);
    default:
      return session.reply_error(
          resp::errors::not_supported(request.spec->name, "it is not available yet"));
  }
  session.reply(out);
}

}  // namespace proxy::session
