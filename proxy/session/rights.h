// What the user of a session may do: who logs in, which requests are refused, and what ACL LOG says
// of it. Only who may not do everything is looked at: is_plain() sessions of others come nowhere
// near.
//
// What a script does at its node is not looked at: it runs there as the proxy's own user.
#pragma once

#include <string>
#include <string_view>

#include "proxy/session/client_session.h"

namespace proxy::session {

enum class Login {
  Done,
  Refused,  // The error was replied.
  Later,    // The request was put off.
};

// AUTH, or HELLO's AUTH.
[[nodiscard]] Login log_in(ClientSession& session, const Request& request, std::string_view user,
                           std::string_view password);

// Too many have failed from the client's address: its login is looked at later, and has to be put
// off. Asked once for each login; the next time it is false, once the time is over.
[[nodiscard]] bool has_to_wait_for_login(ClientSession& session);

// False: its user may not send this; that was replied, and its transaction is spoiled. Requires the
// request's own spec and an arity that holds.
[[nodiscard]] bool check_rights(ClientSession& session, const Request& request);

// Of a transaction whose user's rights have changed since it was queued, or change in it by AUTH,
// which is executed here: what is not allowed any more is not executed, and says so in its place.
void judge_again(ClientSession& session, const Request& exec, Transaction& transaction);

}  // namespace proxy::session
