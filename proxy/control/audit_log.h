// AuditLog: who did what to which plan, when and why: state_dir/audit.log.
//
// A line per act: the time for people, then admin::HistoryEntry as JSON. Only appended to.
//
// Thread:  the control thread; append() may block on the disk.
// Errors:  Io; the log is for people, so that a failure undoes nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "admin/plan_api.h"
#include "slots/plan.h"
#include "slots/result.h"

namespace proxy::control {

class AuditLog {
 public:
  static constexpr std::size_t kHistoryMax = 1000;  // Entries of an answer, the newest.

  explicit AuditLog(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] slots::Status append(const admin::HistoryEntry& entry) const;
  // The newest last; of one plan or of all.
  [[nodiscard]] std::vector<admin::HistoryEntry> history(std::optional<slots::PlanId> plan) const;

 private:
  std::string path_;
};

}  // namespace proxy::control
