// CLIENT TRACKING, CACHING, TRACKINGINFO and GETREDIR. Texts are Redis 7.0's.

#include "proxy/resp/arguments.h"
#include "proxy/session/answer_of_all.h"
#include "proxy/session/commands.h"
#include "proxy/session/sessions.h"
#include "proxy/session/trackers.h"

namespace proxy::session {

namespace {

using resp::ReplyWriter;

constexpr std::string_view kOk = "+OK\r\n";

void refuse(AnswerOfAll& answer, std::string_view text) {
  ClientSession& session = *answer.session();
  session.core().stats.errors.add();
  std::string out;
  ReplyWriter(out, session.resp3()).error(text);
  answer.fill(out);
}

// The client whom others are to be told instead of is there, if one was named.
void turn(const std::shared_ptr<AnswerOfAll>& answer, bool on, const TrackingWords& words) {
  ClientSession& session = *answer->session();
  Trackers& trackers = session.sessions().trackers();
  if (!words.error.empty()) return refuse(*answer, words.error);
  if (!on) {
    trackers.turn_off(session);
    return answer->fill(kOk);
  }
  const Tracking* now = session.tracking_if_any();
  const slots::Status checked = check_tracking(words, now != nullptr ? &now->options : nullptr,
                                               now != nullptr ? now->prefixes : Prefixes());
  if (!checked) return refuse(*answer, checked.error().message);
  trackers.turn_on(session, words, [answer] {
    if (answer->session() != nullptr) answer->fill(kOk);
  });
}

}  // namespace

void client_tracking(ClientSession& session, const Request& request) {
  if (session.transaction() != nullptr)
    return session.reply_error(
        resp::errors::not_supported(request.spec->name, "call it before MULTI"));
  const TrackingWords words = read_tracking_words(request.args.subspan(3));
  const bool on = resp::is_word(request.args[2], "on");
  TrackingWords judged = words;
  if (judged.error.empty() && !on && !resp::is_word(request.args[2], "off"))
    judged.error = resp::errors::kSyntax;
  const auto answer = AnswerOfAll::of(session);
  if (words.options.redirect == 0) return turn(answer, on, judged);
  session.sessions().others().ask_all(
      [id = words.options.redirect](Sessions& sessions) {
        return std::string(sessions.find(id) != nullptr ? "1" : "");
      },
      [answer, on, judged](const std::vector<std::string>& found) {
        if (answer->session() == nullptr) return;
        if (std::ranges::find(found, std::string("1")) == found.end())
          return refuse(*answer, kNoRedirectTarget);
        turn(answer, on, judged);
      });
}

void client_caching(ClientSession& session, const Request& request) {
  Tracking* tracking = session.tracking_if_any();
  if (tracking == nullptr) {
    return session.reply_error(
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or "
        "OPTOUT mode enabled");
  }
  const bool yes = resp::is_word(request.args[2], "yes");
  if (!yes && !resp::is_word(request.args[2], "no"))
    return session.reply_error(resp::errors::kSyntax);
  if (yes && !tracking->options.opt_in) {
    return session.reply_error(
        "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.");
  }
  if (!yes && !tracking->options.opt_out) {
    return session.reply_error(
        "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.");
  }
  tracking->is_caching_given = true;
  session.reply(kOk);
}

void client_getredir(ClientSession& session, const Request&) {
  const Tracking* tracking = session.tracking_if_any();
  std::string out;
  ReplyWriter(out, session.resp3())
      .integer(tracking == nullptr ? -1 : static_cast<std::int64_t>(tracking->options.redirect));
  session.reply(out);
}

void client_trackinginfo(ClientSession& session, const Request&) {
  std::vector<std::string_view> flags;
  const Tracking* tracking = session.tracking_if_any();
  flags.emplace_back(tracking != nullptr ? "on" : "off");
  if (tracking != nullptr) {
    const TrackingOptions& options = tracking->options;
    if (options.is_broadcast) flags.emplace_back("bcast");
    if (options.opt_in) flags.emplace_back("optin");
    if (options.opt_in && tracking->is_caching_given) flags.emplace_back("caching-yes");
    if (options.opt_out) flags.emplace_back("optout");
    if (options.opt_out && tracking->is_caching_given) flags.emplace_back("caching-no");
    if (options.no_loop) flags.emplace_back("noloop");
    if (tracking->is_redirect_broken) flags.emplace_back("broken_redirect");
  }
  std::string out;
  ReplyWriter writer(out, session.resp3());
  writer.map(3);
  writer.bulk("flags");
  writer.set(flags.size());
  for (const std::string_view flag : flags) writer.bulk(flag);
  writer.bulk("redirect");
  writer.integer(tracking == nullptr ? -1 : static_cast<std::int64_t>(tracking->options.redirect));
  writer.bulk("prefixes");
  writer.array(tracking == nullptr ? 0 : tracking->prefixes.size());
  if (tracking != nullptr) {
    for (const std::string& prefix : tracking->prefixes) writer.bulk(prefix);
  }
  session.reply(out);
}

}  // namespace proxy::session
