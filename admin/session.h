// Session: one run of slotctl: what every command needs of the command line and its surroundings.
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "admin/client.h"
#include "admin/json_fields.h"
#include "admin/render.h"
#include "conf/config.h"
#include "slots/result.h"

namespace admin {

using Words = std::vector<std::string>;

// Documented in --help; scripts rely on them.
enum class Exit : int {
  Ok = 0,
  Refused = 1,      // The daemon's answer is an error, or the health is not ok.
  Usage = 2,        // The command line or a configuration file has mistakes.
  Unreachable = 4,  // No daemon, or no answer in time.
};

// What the program gets from around it.
struct Surroundings {
  std::string admin_address = {};   // $SLOTPROXY_ADMIN
  std::string admin_password = {};  // $SLOTPROXY_ADMIN_PASSWORD
  RenderStyle style = {};
  std::size_t columns = 0;  // Of the terminal that `out` is; 0: it is none.
  int keys = -1;            // The descriptor of the terminal that is typed at; -1: there is none.
  std::chrono::milliseconds poll{500};  // How often a plan that is watched is asked for.
};

// The options of slotctl itself.
struct SessionOptions {
  std::string admin;
  std::string password_file;
  double timeout = 0;  // Seconds; 0: the command's own.
  bool is_json = false;
};

inline constexpr double kTimeoutSeconds = 10;

class Session {
 public:
  // All must outlive it.
  Session(const SessionOptions& options, const Surroundings& surroundings, std::ostream& out,
          std::ostream& err)
      : options_(options), surroundings_(surroundings), out_(out), err_(err) {}

  [[nodiscard]] bool is_json() const { return options_.is_json; }
  [[nodiscard]] const Surroundings& surroundings() const { return surroundings_; }
  [[nodiscard]] std::ostream& out() const { return out_; }
  [[nodiscard]] std::ostream& err() const { return err_; }

  // The daemon's answer to one request, on a connection of its own. Errors: as AdminClient's, and
  // NotFound for mistakes of whoever typed the command.
  [[nodiscard]] slots::Result<std::string> ask(const Words& request,
                                               double timeout = kTimeoutSeconds) const;

  // Prints the report in a daemon's answer: `text(report)` for people, or the JSON as it came;
  // `judge` may turn a report into another exit code.
  template <class Report, class Text>
  Exit show(const Words& request, double timeout, Text text,
            Exit (*judge)(const Report&) = nullptr) const {
    const slots::Result<std::string> answer = ask(request, timeout);
    if (!answer) return complain(answer.error());
    const slots::Result<Report> report = from_json<Report>(*answer);
    if (!report) return complain(report.error());
    print(is_json() ? *answer + "\n" : text(*report));
    return judge == nullptr ? Exit::Ok : judge(*report);
  }

  template <class Report>
  Exit show(const Words& request, double timeout = kTimeoutSeconds,
            Exit (*judge)(const Report&) = nullptr) const {
    const auto text = [this](const Report& report) { return render(report, surroundings_.style); };
    return show<Report>(request, timeout, text, judge);
  }

  void print(const std::string& text) const;
  // Says what went wrong.
  Exit complain(const slots::Error& error) const;

 private:
  [[nodiscard]] slots::Result<conf::Address> admin_address() const;
  [[nodiscard]] slots::Result<std::string> password() const;

  const SessionOptions& options_;
  const Surroundings& surroundings_;
  std::ostream& out_;
  std::ostream& err_;
};

}  // namespace admin
