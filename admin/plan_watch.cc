#include "admin/plan_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ostream>
#include <thread>

#include "admin/plan_api.h"
#include "admin/plan_render.h"

namespace admin {

namespace {

using Clock = std::chrono::steady_clock;
using slots::Errc;
using slots::Result;

constexpr std::chrono::seconds kPatience{60};  // With a daemon that was there.

std::optional<PlanExit> ending_of(const PlanReport& report) {
  if (report.state == "done") return PlanExit::Done;
  if (report.state == "failed") return PlanExit::Failed;
  if (report.state == "aborted") return PlanExit::Aborted;
  if (report.state == "rejected" || report.state == "stale") return PlanExit::NeverStarted;
  return std::nullopt;
}

bool is_paused_by_system(const PlanReport& report) {
  return report.state == "paused" && report.paused_by == "system";
}

struct Answer {
  std::string json;
  PlanReport report;
};

// Asks for a plan, and bears a daemon that is gone for a while.
class PlanPoll {
 public:
  PlanPoll(const Session& session, const std::string& id)
      : session_(session), request_{"PLAN", "SHOW", id} {}

  // Nothing: the daemon is gone, ask again.
  Result<std::optional<Answer>> ask() {
    Result<std::string> json = session_.ask(request_);
    if (!json) {
      const bool is_gone =
          json.error().code == Errc::Unavailable || json.error().code == Errc::Timeout;
      if (!is_gone || !was_reached_ || Clock::now() - reached_at_ > kPatience) {
        return std::unexpected(json.error());
      }
      return std::nullopt;
    }
    Result<PlanReport> report = from_json<PlanReport>(*json);
    if (!report) return std::unexpected(report.error());
    was_reached_ = true;
    reached_at_ = Clock::now();
    return Answer{*std::move(json), *std::move(report)};
  }

 private:
  const Session& session_;
  Words request_;
  bool was_reached_ = false;
  Clock::time_point reached_at_;
};

PlanExit refuse(const Session& session, const slots::Error& error) {
  (void)session.complain(error);
  return PlanExit::Refused;
}

void print_outcome(const Session& session, const Answer& answer) {
  session.print(session.is_json() ? answer.json + "\n"
                                  : render_outcome(answer.report, session.surroundings().style));
}

// What is on the terminal, to be drawn over.
class Screen {
 public:
  explicit Screen(const Session& session) : session_(session) {}

  void draw(const std::string& text) {
    std::string out;
    if (lines_ > 0) out = fmt::format("\x1b[{}A\r\x1b[J", lines_);
    session_.print(out + text);
    session_.out().flush();
    lines_ = static_cast<std::size_t>(std::ranges::count(text, '\n'));
  }

 private:
  const Session& session_;
  std::size_t lines_ = 0;
};

}  // namespace

PlanExit wait_for_plan(const Session& session, const std::string& id,
                       std::optional<double> seconds) {
  const auto start = Clock::now();
  PlanPoll poll(session, id);
  std::optional<Answer> last;
  while (true) {
    Result<std::optional<Answer>> answer = poll.ask();
    if (!answer) return refuse(session, answer.error());
    if (*answer) {
      last = *std::move(answer);
      std::optional<PlanExit> exit = ending_of(last->report);
      if (is_paused_by_system(last->report)) exit = PlanExit::PausedBySystem;
      if (exit) {
        print_outcome(session, *last);
        return *exit;
      }
    }
    const std::chrono::duration<double> passed = Clock::now() - start;
    if (seconds && passed.count() >= *seconds) {
      print_outcome(session, *last);
      return PlanExit::Timeout;
    }
    std::chrono::duration<double> pause = session.surroundings().poll;
    if (seconds) pause = std::min(pause, std::chrono::duration<double>(*seconds) - passed);
    std::this_thread::sleep_for(pause);
  }
}

PlanExit watch_plan(const Session& session, const std::string& id) {
  const std::size_t columns = session.surroundings().columns;
  const RenderStyle style = session.surroundings().style;
  const bool is_drawn = columns > 0 && !session.is_json();
  PlanPoll poll(session, id);
  Screen screen(session);
  std::string last;
  while (true) {
    const Result<std::optional<Answer>> answer = poll.ask();
    if (!answer) return refuse(session, answer.error());
    std::string text = "the daemon is away; waiting for it\n";
    std::optional<PlanExit> exit;
    if (*answer) {
      const PlanReport& report = (*answer)->report;
      exit = ending_of(report);
      if (session.is_json()) {
        text = (*answer)->json + "\n";
      } else if (is_drawn) {
        text = render_bars(report, columns, style);
        if (!exit) text += "Ctrl-C leaves; the plan goes on\n";
      } else {
        text = render_progress_line(report);
      }
    } else if (session.is_json()) {
      text = last;
    }
    if (is_drawn) {
      screen.draw(text);
    } else if (text != last) {
      session.print(text);
      session.out().flush();
    }
    last = std::move(text);
    if (exit) {
      if (!session.is_json()) session.print(render_outcome((*answer)->report, style));
      return *exit;
    }
    std::this_thread::sleep_for(session.surroundings().poll);
  }
}

}  // namespace admin
