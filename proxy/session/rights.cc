#include "proxy/session/rights.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "conf/words.h"
#include "proxy/acl/users.h"
#include "proxy/resp/key_finder.h"
#include "proxy/session/client_address.h"
#include "proxy/session/commands.h"
#include "proxy/session/sessions.h"
#include "proxy/session/transaction.h"
#include "proxy/session/watch.h"

namespace proxy::session {

namespace {

using acl::Denied;

// Redis's texts of the refusal, behind "NOPERM", and of the reason at EXEC.
struct DenialWords {
  std::string_view reason;  // For ACL LOG.
  std::string_view at_exec;
};

DenialWords words_of(Denied denied) {
  switch (denied) {
    case Denied::Key:
      return {"key", "no permission to touch the specified keys"};
    case Denied::Channel:
      return {"channel",
              "no permission to access one of the channels used as arguments to the command"};
    default:
      return {"command", "no permission to execute the command or subcommand"};
  }
}

std::string refusal(Denied denied, std::string_view command) {
  if (denied == Denied::Command) {
    return fmt::format("NOPERM this user has no permissions to run the '{}' command", command);
  }
  return fmt::format(
      "NOPERM this user has no permissions to access one of the {}s used as arguments",
      words_of(denied).reason);
}

void note_denial(ClientSession& session, const Request& request, std::string_view reason,
                 std::string_view object, std::string_view user) {
  acl::Denial denial;
  denial.reason = reason;
  const bool is_multi = session.transaction() != nullptr || session.is_capturing();
  denial.context = is_multi ? "multi" : "toplevel";
  denial.object = object.substr(0, acl::DenialLog::kTextMax);
  denial.user = user.substr(0, acl::DenialLog::kTextMax);
  denial.client = client_info(session, request);
  session.sessions().denials().add(std::move(denial), session.core().now_ms());
}

void note_denial(ClientSession& session, const Request& request, const resp::CommandSpec& spec,
                 resp::Args args, const acl::Verdict& verdict) {
  note_denial(session, request, words_of(verdict.denied).reason,
              verdict.denied == Denied::Command ? spec.name : args[verdict.argument],
              session.user().name());
}

void note_failed_login(ClientSession& session, const Request& request, std::string_view user,
                       const std::string& address) {
  const std::uint64_t now = session.core().now_ms();
  acl::LoginGuard& guard = session.sessions().login_guard();
  guard.on_failure(acl::guarded_address(address), now);
  note_denial(session, request, "auth", request.args[0], user);
  const auto count = guard.may_log(now);
  if (!count) return;
  const std::string others =
      *count > 1 ? fmt::format(", and {} more since the last line", *count - 1) : "";
  spdlog::warn("login failed: user {} from {}{}", conf::in_quotes(user), address, others);
}

}  // namespace

bool has_to_wait_for_login(ClientSession& session) {
  Sessions& sessions = session.sessions();
  const acl::LoginGuard& guard = sessions.login_guard();
  if (guard.is_quiet()) return false;
  const std::uint64_t now = session.core().now_ms();
  const bool delays = guard.delays(acl::guarded_address(client_address(session)), now);
  return sessions.delayed_logins().has_to_wait(session.id(), delays, now);
}

Login log_in(ClientSession& session, const Request& request, std::string_view name,
             std::string_view password) {
  // A transaction has waited before.
  if (!session.is_capturing() && has_to_wait_for_login(session)) {
    session.put_off();
    return Login::Later;
  }
  const conf::PasswordHash given = conf::hash_of(password);
  const acl::User* user = session.table().users->find(name);
  const bool is_right =
      user != nullptr && user->is_enabled() && (user->needs_no_password() || user->accepts(given));
  if (!is_right) {
    note_failed_login(session, request, name, client_address(session));
    session.reply_error(resp::errors::kWrongPass);
    return Login::Refused;
  }
  if (!session.become(*user, given)) {
    session.reply_error(fmt::format(
        "ERR max number of connections of user '{}' reached; the YAML's users say how many", name));
    return Login::Refused;
  }
  return Login::Done;
}

bool check_rights(ClientSession& session, const Request& request) {
  const acl::Verdict verdict = session.user().judge(*request.spec, request.args);
  if (verdict.is_allowed()) return true;
  note_denial(session, request, *request.spec, request.args, verdict);
  const std::string text = refusal(verdict.denied, request.spec->name);
  if (request.spec->id != resp::CommandId::Exec) return session.reject(text), false;
  session.take_transaction();
  session.take_watch();
  session.reply_error("EXECABORT Transaction discarded because of: " + text);
  return false;
}

void judge_again(ClientSession& session, const Request& exec, Transaction& transaction) {
  if (!transaction.logs_in() && transaction.users() == session.table().users) return;
  const resp::CommandTable& commands = *session.table().commands;
  std::string reply;
  session.capture_replies(&reply);
  transaction.withdraw([&](resp::Args args) -> std::string {
    reply.clear();
    const resp::CommandSpec* spec = resp::find_command(commands, args);
    if (spec != nullptr && spec->id == resp::CommandId::Auth) {
      command_auth(session, Request{args, exec.bytes, spec});
      return reply;
    }
    const acl::Verdict verdict =
        spec == nullptr ? acl::Verdict{Denied::Command, 0} : session.user().judge(*spec, args);
    if (verdict.is_allowed()) return {};
    if (spec != nullptr) note_denial(session, exec, *spec, args, verdict);
    return fmt::format(
        "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the "
        "EXEC call. This command is no longer allowed for the following reason: {}\r\n",
        words_of(verdict.denied).at_exec);
  });
  session.capture_replies(nullptr);
}

}  // namespace proxy::session
