// ClientSession, who it is: the user that it is logged in as, and what a reload makes of that.

#include <algorithm>

#include "proxy/acl/users.h"
#include "proxy/session/client_session.h"
#include "proxy/session/sessions.h"
#include "proxy/session/subscribers.h"

namespace proxy::session {

namespace {

// One of those that may be logged in as this user at once.
bool take_place(const acl::User& user) {
  const std::uint64_t others = user.connections()->fetch_add(1, std::memory_order_relaxed);
  if (user.connections_max() == 0 || others < user.connections_max()) return true;
  user.connections()->fetch_sub(1, std::memory_order_relaxed);
  return false;
}

}  // namespace

void ClientSession::begin_as_default() {
  give_place();
  user_ = &table().users->default_user();
  password_ = kNoPassword;
  authenticated_ = user_->is_enabled() && user_->needs_no_password() && take_place(*user_);
  note_plainness();
}

bool ClientSession::become(const acl::User& user, const conf::PasswordHash& password) {
  if (&user != user_ || !authenticated_) {
    if (!take_place(user)) return false;
    give_place();
  }
  const auto passwords = user.passwords();
  const auto place = std::ranges::find(passwords, password) - passwords.begin();
  user_ = &user;
  password_ = user.needs_no_password() ? kNoPassword : static_cast<std::uint32_t>(place);
  authenticated_ = true;
  note_plainness();
  return true;
}

void ClientSession::give_place() {
  if (authenticated_) user_->connections()->fetch_sub(1, std::memory_order_relaxed);
  authenticated_ = false;
}

// As Redis's ACL LOAD: connections of users that are gone end, those of "default" go on.
void ClientSession::follow_users() {
  if (!authenticated_) return begin_as_default();
  const acl::User* now = table().users->find(user_->name());
  if (now == nullptr) return close_now();
  const auto passwords = now->passwords();
  const auto place = password_ == kNoPassword
                         ? passwords.end()
                         : std::ranges::find(passwords, user_->passwords()[password_]);
  const bool is_known = now->needs_no_password() || place != passwords.end();
  if (now->name() != acl::Users::kDefault && !(now->is_enabled() && is_known)) return close_now();
  password_ = place == passwords.end() ? kNoPassword
                                       : static_cast<std::uint32_t>(place - passwords.begin());
  user_ = now;
  note_plainness();
  if (subscriptions_ != nullptr && !may_keep_subscriptions()) close_now();
}

bool ClientSession::may_keep_subscriptions() {
  if (may_do_everything_) return true;
  for (const pubsub::Kind kind :
       {pubsub::Kind::Channel, pubsub::Kind::Pattern, pubsub::Kind::Sharded}) {
    for (const std::string& name : subscriptions_->names(kind)) {
      if (!user_->may_subscribe(name, kind == pubsub::Kind::Pattern)) return false;
    }
  }
  return true;
}

}  // namespace proxy::session
