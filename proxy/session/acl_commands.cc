// ACL: who the users are, as the YAML says; they are changed there. Texts are Redis 7.0's.

#include <fmt/format.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <vector>

#include "proxy/acl/users.h"
#include "proxy/resp/arguments.h"
#include "proxy/resp/command_table.h"
#include "proxy/resp/error_text.h"
#include "proxy/resp/key_finder.h"
#include "proxy/session/commands.h"
#include "proxy/session/sessions.h"

namespace proxy::session {

namespace {

using resp::CommandId;
using resp::ReplyWriter;

constexpr std::string_view kHelp[] = {
    "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CAT [<category>]",
    "    List all commands that belong to <category>, or all command categories",
    "    when no category is specified.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Returns whether the user can execute the given command without executing the command.",
    "GETUSER <username>",
    "    Get the user's details.",
    "GENPASS [<bits>]",
    "    Generate a secure 256-bit user password. The optional `bits` argument can",
    "    be used to specify a different size.",
    "LIST",
    "    Show users details in config file format.",
    "LOG [<count> | RESET]",
    "    Show the ACL log entries.",
    "USERS",
    "    List all the registered usernames.",
    "WHOAMI",
    "    Return the current connection username.",
    "HELP",
    "    Prints this help.",
};

constexpr std::int64_t kLogCount = 10;  // Redis's own when none is given.

template <class Names>
void reply_list(ClientSession& session, const Names& names) {
  std::string out;
  ReplyWriter writer(out, session.resp3());
  writer.array(std::size(names));
  for (const auto& name : names) writer.bulk(name);
  session.reply(out);
}

void reply_bulk(ClientSession& session, std::string_view text) {
  std::string out;
  resp::append_bulk(out, text);
  session.reply(out);
}

void acl_cat(ClientSession& session, const Request& request) {
  if (request.args.size() > 3) return refuse_subcommand(session, request);
  if (request.args.size() == 2) return reply_list(session, resp::kCategoryNames);
  const std::uint32_t bit = acl::category_bit(request.args[2]);
  if (bit == 0)
    return session.reply_error(fmt::format("ERR Unknown category '{}'", request.args[2]));
  std::vector<std::string_view> names;
  for (const resp::CommandSpec& spec : session.table().commands->specs()) {
    if ((spec.categories & bit) != 0) names.push_back(spec.name);
  }
  reply_list(session, names);
}

void acl_list(ClientSession& session) {
  std::vector<std::string> lines;
  for (const auto& [name, user] : session.table().users->all()) lines.push_back(user.text());
  reply_list(session, lines);
}

void acl_users(ClientSession& session) {
  std::vector<std::string_view> names;
  for (const auto& [name, user] : session.table().users->all()) names.push_back(name);
  reply_list(session, names);
}

void write_selector(ReplyWriter& writer, const acl::Selector& selector) {
  writer.bulk("commands");
  writer.bulk(selector.commands_text());
  writer.bulk("keys");
  writer.bulk(selector.keys_text());
  writer.bulk("channels");
  writer.bulk(selector.channels_text());
}

void acl_getuser(ClientSession& session, const Request& request) {
  const acl::User* user = session.table().users->find(request.args[2]);
  std::string out;
  ReplyWriter writer(out, session.resp3());
  if (user == nullptr) {
    writer.null();
    return session.reply(out);
  }
  writer.map(6);
  writer.bulk("flags");
  writer.set(user->needs_no_password() ? 2 : 1);
  writer.bulk(user->is_enabled() ? "on" : "off");
  if (user->needs_no_password()) writer.bulk("nopass");
  writer.bulk("passwords");
  writer.array(user->passwords().size());
  for (const conf::PasswordHash& hash : user->passwords()) writer.bulk(conf::hex_of(hash));
  write_selector(writer, user->selectors().front());
  writer.bulk("selectors");
  const auto others = user->selectors().subspan(1);
  writer.array(others.size());
  for (const acl::Selector& selector : others) {
    writer.map(3);
    write_selector(writer, selector);
  }
  session.reply(out);
}

void write_age(std::string& out, bool resp3, std::uint64_t age_ms) {
  const std::string text = fmt::format("{:.17g}", static_cast<double>(age_ms) / 1000);
  if (resp3) {
    out.append(",").append(text).append("\r\n");
  } else {
    resp::append_bulk(out, text);
  }
}

void acl_log(ClientSession& session, const Request& request) {
  if (request.args.size() > 3) return refuse_subcommand(session, request);
  acl::DenialLog& log = session.sessions().denials();
  std::int64_t count = kLogCount;
  if (request.args.size() == 3) {
    if (resp::is_word(request.args[2], "reset")) {
      log.clear();
      return session.reply("+OK\r\n");
    }
    const auto wanted = resp::integer_of(request.args[2]);
    if (!wanted) return session.reply_error(resp::errors::kNotInteger);
    count = std::max<std::int64_t>(*wanted, 0);
  }
  const std::vector<acl::Denial> entries = log.newest(static_cast<std::size_t>(count));
  const std::uint64_t now = session.core().now_ms();
  std::string out;
  ReplyWriter writer(out, session.resp3());
  writer.array(entries.size());
  for (const acl::Denial& entry : entries) {
    writer.map(7);
    writer.bulk("count");
    writer.integer(static_cast<std::int64_t>(entry.count));
    for (const auto& [name, text] :
         std::to_array<std::pair<std::string_view, std::string_view>>({{"reason", entry.reason},
                                                                       {"context", entry.context},
                                                                       {"object", entry.object},
                                                                       {"username", entry.user}})) {
      writer.bulk(name);
      writer.bulk(text);
    }
    writer.bulk("age-seconds");
    write_age(out, session.resp3(), now > entry.last_ms ? now - entry.last_ms : 0);
    writer.bulk("client-info");
    writer.bulk(entry.client);
  }
  session.reply(out);
}

void acl_dryrun(ClientSession& session, const Request& request) {
  const resp::Args args = request.args;
  const acl::User* user = session.table().users->find(args[2]);
  if (user == nullptr) return session.reply_error(fmt::format("ERR User '{}' not found", args[2]));
  const resp::Args command = args.subspan(3);
  const resp::CommandSpec* spec = resp::find_command(*session.table().commands, command);
  if (spec == nullptr)
    return session.reply_error(fmt::format("ERR Command '{}' not found", command[0]));
  if (!spec->arity_ok(command.size())) return session.reply_error(resp::wrong_arity(spec->name));
  const acl::Verdict verdict = user->judge(*spec, command);
  switch (verdict.denied) {
    case acl::Denied::Nothing:
      return session.reply("+OK\r\n");
    case acl::Denied::Command:
      return reply_bulk(
          session, fmt::format("This user has no permissions to run the '{}' command", spec->name));
    case acl::Denied::Key:
    case acl::Denied::Channel:
      return reply_bulk(session,
                        fmt::format("This user has no permissions to access the '{}' {}",
                                    command[verdict.argument],
                                    verdict.denied == acl::Denied::Key ? "key" : "channel"));
  }
}

void acl_genpass(ClientSession& session, const Request& request) {
  constexpr std::int64_t kBitsMax = 4096;
  if (request.args.size() > 3) return refuse_subcommand(session, request);
  std::int64_t bits = 256;
  if (request.args.size() == 3) {
    const auto wanted = resp::integer_of(request.args[2]);
    if (!wanted) return session.reply_error(resp::errors::kNotInteger);
    bits = *wanted;
  }
  if (bits < 1 || bits > kBitsMax) {
    return session.reply_error(
        "ERR ACL GENPASS argument must be the number of bits for the output password, a positive "
        "number up to 4096");
  }
  const auto digits = static_cast<std::size_t>((bits + 3) / 4);
  std::vector<unsigned char> random(digits);
  if (RAND_bytes(random.data(), static_cast<int>(random.size())) != 1)
    return session.reply_error("ERR the system has no random numbers to give now");
  std::string password;
  for (const unsigned char byte : random) password += "0123456789abcdef"[byte & 15];
  reply_bulk(session, password);
}

}  // namespace

void command_acl(ClientSession& session, const Request& request) {
  switch (request.spec->id) {
    case CommandId::AclCat:
      return acl_cat(session, request);
    case CommandId::AclDryrun:
      return acl_dryrun(session, request);
    case CommandId::AclGenpass:
      return acl_genpass(session, request);
    case CommandId::AclGetuser:
      return acl_getuser(session, request);
    case CommandId::AclHelp:
      return reply_help(session, kHelp);
    case CommandId::AclList:
      return acl_list(session);
    case CommandId::AclLog:
      return acl_log(session, request);
    case CommandId::AclUsers:
      return acl_users(session);
    case CommandId::AclWhoami:
      return reply_bulk(session, session.user().name());
    default:
      return session.reply_error(resp::errors::not_supported(
          request.spec->name,
          "users stand in the YAML (users:); change them there, then slotctl reload or SIGHUP"));
  }
}

}  // namespace proxy::session
