#include "proxy/control/audit_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <fstream>
#include <system_error>

#include "proxy/control/plan_record.h"

namespace proxy::control {

slots::Status AuditLog::append(const admin::HistoryEntry& entry) const {
  const std::string line = fmt::format("{} {}\n", utc_text(entry.at_ms), admin::to_json(entry));
  const int fd = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const bool is_written =
      fd >= 0 && ::write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
      ::fdatasync(fd) == 0;
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (is_written) return {};
  return slots::fail(slots::Errc::Io, fmt::format("{} can't be written to: {}", path_,
                                                  std::generic_category().message(error)));
}

std::vector<admin::HistoryEntry> AuditLog::history(std::optional<slots::PlanId> plan) const {
  std::deque<admin::HistoryEntry> newest;
  std::ifstream file(path_);
  for (std::string line; std::getline(file, line);) {
    const std::size_t json = line.find('{');
    if (json == std::string::npos) continue;
    auto entry = admin::from_json<admin::HistoryEntry>(line.substr(json));
    if (!entry || (plan && entry->plan != plan)) continue;
    newest.push_back(*std::move(entry));
    if (newest.size() > kHistoryMax) newest.pop_front();
  }
  return {newest.begin(), newest.end()};
}

}  // namespace proxy::control
