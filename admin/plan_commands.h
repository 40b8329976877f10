// slotctl plan: what an operator can do about plans.
#pragma once

#include "admin/session.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11 named it.
class App;
}

namespace admin {

// All arguments must outlive the app.
void register_plan(CLI::App& app, const Session& session, int& exit_code);

}  // namespace admin
