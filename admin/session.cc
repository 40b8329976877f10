#include "admin/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <ostream>

#include "conf/loader.h"

namespace admin {

using slots::Errc;
using slots::fail;
using slots::Result;

namespace {

constexpr const char* kDefaultAdmin = "/tmp/slotproxy/admin.sock";
// A mistake of whoever typed the command; told from the daemon's refusals by its code.
constexpr Errc kUsage = Errc::NotFound;

AdminClient::Milliseconds milliseconds(double seconds) {
  return std::chrono::duration_cast<AdminClient::Milliseconds>(
      std::chrono::duration<double>(seconds));
}

}  // namespace

Result<conf::Address> Session::admin_address() const {
  std::string text = kDefaultAdmin;
  std::string source = "the default";
  if (!options_.admin.empty()) {
    text = options_.admin;
    source = "--admin";
  } else if (!surroundings_.admin_address.empty()) {
    text = surroundings_.admin_address;
    source = "$SLOTPROXY_ADMIN";
  }
  Result<conf::Address> address = conf::parse_address(text);
  if (!address) return fail(kUsage, fmt::format("{}: {}", source, address.error().message));
  return address;
}

Result<std::string> Session::password() const {
  if (options_.password_file.empty()) return surroundings_.admin_password;
  std::ifstream file(options_.password_file);
  std::string line;
  if (!file || !std::getline(file, line)) {
    return fail(kUsage, fmt::format("can't read a password from {}; name a file with "
                                    "--admin-password-file whose first line is the password",
                                    options_.password_file));
  }
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

Result<std::string> Session::ask(const Words& request, double timeout) const {
  const double seconds = options_.timeout > 0 ? options_.timeout : timeout;
  const Result<conf::Address> address = admin_address();
  if (!address) return std::unexpected(address.error());
  const Result<std::string> secret = password();
  if (!secret) return std::unexpected(secret.error());
  Result<AdminClient> client =
      AdminClient::open(*address, *secret, milliseconds(std::min(seconds, kTimeoutSeconds)));
  if (!client) return std::unexpected(client.error());
  return client->call(request, milliseconds(seconds));
}

void Session::print(const std::string& text) const { out_ << text; }

Exit Session::complain(const slots::Error& error) const {
  switch (error.code) {
    case Errc::Unavailable:
    case Errc::Timeout:
      err_ << error.message << '\n';
      return Exit::Unreachable;
    case kUsage:
      err_ << error.message << '\n';
      return Exit::Usage;
    default:
      break;
  }
  std::string message = error.message;
  if (message.starts_with("ERR ")) message.erase(0, 4);
  err_ << "refused: " << message << '\n';
  return Exit::Refused;
}

}  // namespace admin
