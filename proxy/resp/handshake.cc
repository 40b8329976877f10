#include "proxy/resp/handshake.h"

#include <charconv>

#include "proxy/resp/reply_writer.h"

namespace proxy::resp {

void append_login(std::string& out, std::string_view username, std::string_view password) {
  if (password.empty()) return;
  if (username.empty()) {
    append_request(out, {"AUTH", password});
  } else {
    append_request(out, {"AUTH", username, password});
  }
}

std::uint64_t client_id_in(std::string_view hello) {
  constexpr std::string_view kField = "\r\nid\r\n:";
  const std::size_t at = hello.find(kField);
  if (at == std::string_view::npos) return 0;
  hello.remove_prefix(at + kField.size());
  std::uint64_t id = 0;
  std::from_chars(hello.data(), hello.data() + hello.size(), id);
  return id;
}

std::string error_text(std::string_view error) {
  return std::string(error.substr(1, error.find('\r') - 1));
}

}  // namespace proxy::resp
