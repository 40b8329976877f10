#include "admin/plan_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ostream>
#include <thread>

#include "admin/plan_api.h"
#include "admin/plan_render.h"
#include "admin/terminal_keys.h"
#include "admin/text.h"

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

// What whoever watches on a terminal can do to the plan with single keys.
class PlanKeys {
 public:
  enum class Next : std::uint8_t { GoOn, Leave };

  PlanKeys(const Session& session, const std::string& id) : session_(session), id_(id) {}

  Next press(char key, const PlanReport& report) {
    const bool is_confirmed = is_abort_asked_ && key == 'y';
    is_abort_asked_ = key == 'a';
    note_.clear();
    switch (key) {
      case 'q':
      case kInterrupt:
        return Next::Leave;
      case 'p':
        request({"PLAN", report.state == "paused" ? "RESUME" : "PAUSE", id_});
        break;
      case 'y':
        if (is_confirmed) request({"PLAN", "ABORT", id_});
        break;
      case '+':
      case '-':
        throttle(key == '+', report);
        break;
      default:
        break;
    }
    return Next::GoOn;
  }

  [[nodiscard]] std::string text() const {
    const std::size_t columns = session_.surroundings().columns;
    const std::string_view help =
        is_abort_asked_ ? "abort? Slots already committed stay. y yes, any other key no"
                        : "p pause or resume   a abort   + - limit   q leave (the plan goes on)";
    return clipped(help, columns) + "\n" + (note_.empty() ? "" : clipped(note_, columns) + "\n");
  }

 private:
  static constexpr char kInterrupt = '\x03';  // Ctrl-C.

  // Twice or half the limit; half the present speed when there is none.
  void throttle(bool up, const PlanReport& report) {
    std::uint64_t rate = report.bytes_per_second;
    if (rate == 0) {
      if (up || !report.progress) return;
      rate = report.progress->bytes_per_second;
    }
    rate = std::max<std::uint64_t>(up ? rate * 2 : rate / 2, 1000);
    request({"PLAN", "THROTTLE", id_, fmt::format("{}B/s", rate)});
  }

  void request(const Words& words) {
    const Result<std::string> answer = session_.ask(words);
    if (!answer) note_ = answer.error().message;
  }

  const Session& session_;
  const std::string& id_;
  bool is_abort_asked_ = false;
  std::string note_;  // Why the last key had no effect.
};

class PlanWatch {
 public:
  PlanWatch(const Session& session, const std::string& id)
      : session_(session),
        poll_(session, id),
        is_drawn_(session.surroundings().columns > 0 && !session.is_json()),
        keys_(is_drawn_ ? session.surroundings().keys : -1),
        plan_keys_(session, id) {}

  PlanExit run() {
    while (true) {
      Result<std::optional<Answer>> answer = poll_.ask();
      if (!answer) return refuse(session_, answer.error());
      std::optional<PlanExit> exit;
      if (*answer) {
        last_ = *std::move(answer);
        exit = ending_of(last_->report);
        show(last_->report, exit.has_value());
      } else if (!session_.is_json()) {
        print("the daemon is away; waiting for it\n");
      }
      if (exit) {
        if (!session_.is_json()) {
          session_.print(render_outcome(last_->report, session_.surroundings().style));
        }
        return *exit;
      }
      const std::optional<char> key = keys_.next(session_.surroundings().poll);
      if (key && last_ && plan_keys_.press(*key, last_->report) == PlanKeys::Next::Leave) {
        return PlanExit::Done;
      }
    }
  }

 private:
  void show(const PlanReport& report, bool has_ended) {
    if (session_.is_json()) return print(last_->json + "\n");
    if (!is_drawn_) return print(render_progress_line(report));
    std::string text =
        render_bars(report, session_.surroundings().columns, session_.surroundings().style);
    if (!has_ended)
      text += keys_.is_open() ? plan_keys_.text() : "Ctrl-C leaves; the plan goes on\n";
    print(text);
  }

  // On a terminal over what it printed before; else only what is new.
  void print(const std::string& text) {
    if (!is_drawn_ && text == printed_) return;
    if (is_drawn_ && lines_ > 0) session_.print(fmt::format("\x1b[{}A\r\x1b[J", lines_));
    session_.print(text);
    session_.out().flush();
    printed_ = text;
    lines_ = std::ranges::count(text, '\n');
  }

  const Session& session_;
  PlanPoll poll_;
  bool is_drawn_;
  TerminalKeys keys_;
  PlanKeys plan_keys_;
  std::optional<Answer> last_;
  std::string printed_;
  std::ptrdiff_t lines_ = 0;
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
  return PlanWatch(session, id).run();
}

}  // namespace admin
