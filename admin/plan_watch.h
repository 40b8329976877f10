// plan wait and plan watch: asks for one plan again and again until it has ended.
//
// Errors: a daemon that was reached once may be gone for a minute (a restart) before that is one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "admin/session.h"

namespace admin {

// How a plan has ended, as exit code of wait and watch; scripts rely on them. A daemon that can't
// be reached exits with Refused there, since 4 is taken.
enum class PlanExit : int {
  Done = 0,
  Refused = 1,
  Failed = 3,
  Aborted = 4,
  NeverStarted = 5,    // Rejected or stale.
  PausedBySystem = 6,  // Wait only: somebody has to look.
  Timeout = 7,
};

// Prints the plan once it has ended, has been paused by the system, or the time is over.
[[nodiscard]] PlanExit wait_for_plan(const Session& session, const std::string& id,
                                     std::optional<double> seconds);
// Prints its progress: bars, drawn again in place, on a terminal, where keys pause, abort and
// throttle it; else a line when something has changed; with --json one object a line.
[[nodiscard]] PlanExit watch_plan(const Session& session, const std::string& id);

}  // namespace admin
