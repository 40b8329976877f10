// What is said when a connection to a node begins: logging in, and what the answers tell. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace proxy::resp {

// AUTH, as https://redis.io/docs/latest/commands/auth/ has it with and without a user's name.
// Nothing, if there is no password.
void append_login(std::string& out, std::string_view username, std::string_view password);

// The connection's id at the node, which HELLO's reply says in RESP2 and RESP3 alike; 0: it does
// not. https://redis.io/docs/latest/commands/hello/
[[nodiscard]] std::uint64_t client_id_in(std::string_view hello);

// "ERR no" of the reply "-ERR no\r\n".
[[nodiscard]] std::string error_text(std::string_view error);

}  // namespace proxy::resp
