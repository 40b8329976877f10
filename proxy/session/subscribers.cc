#include "proxy/session/subscribers.h"

#include <algorithm>
#include <array>
#include <utility>

#include "proxy/resp/reply_writer.h"
#include "proxy/session/sessions.h"
#include "slots/assert.h"
#include "slots/key_slot.h"

namespace proxy::session {

using pubsub::Kind;

// --- Subscriptions

Subscriptions::Added Subscriptions::add(Kind kind, std::string_view name) {
  pubsub::ByName<Audience>& audiences = subscribers_.audiences_[kind];
  auto found = audiences.find(name);
  if (found == audiences.end()) {
    found = audiences.emplace(name, Audience{}).first;
    found->second.kind = kind;
    found->second.name = found->first;
  }
  Audience& audience = found->second;
  auto [place, is_new] =
      places_.try_emplace(&audience, Place{audience.sessions.size(), last_number_ + 1});
  if (!is_new) return Added::Already;
  ++last_number_;
  audience.sessions.push_back(&session_);
  ++counts_[static_cast<std::size_t>(kind)];
  bytes_ += name.size() + kOverhead;
  const WorkerCore& core = subscribers_.core_;
  const bool is_in_force =
      core.pubsub->registry().add(core.worker, kind, name, core.table->version);
  session_.on_subscriptions_changed();
  return is_in_force ? Added::InForce : Added::NotYet;
}

bool Subscriptions::leave(Places::iterator place) {
  Audience& audience = *place->first;
  // The last session takes the place of the one that leaves.
  ClientSession* last = audience.sessions.back();
  const std::size_t index = place->second.index;
  audience.sessions[index] = last;
  if (last != &session_) last->subscriptions_if_any()->places_.at(&audience).index = index;
  audience.sessions.pop_back();
  const Kind kind = audience.kind;
  --counts_[static_cast<std::size_t>(kind)];
  bytes_ -= audience.name.size() + kOverhead;
  const WorkerCore& core = subscribers_.core_;
  const bool was_last =
      core.pubsub->registry().remove(core.worker, kind, audience.name, place->second.is_leaving);
  places_.erase(place);
  if (audience.sessions.empty()) {
    pubsub::ByName<Audience>& audiences = subscribers_.audiences_[kind];
    audiences.erase(audiences.find(audience.name));
  }
  return was_last;
}

bool Subscriptions::contains(Kind kind, std::string_view name) {
  return find(kind, name) != places_.end();
}

Subscriptions::Places::iterator Subscriptions::find(Kind kind, std::string_view name) {
  pubsub::ByName<Audience>& audiences = subscribers_.audiences_[kind];
  auto audience = audiences.find(name);
  return audience == audiences.end() ? places_.end() : places_.find(&audience->second);
}

void Subscriptions::set_leaving(Kind kind, std::string_view name) {
  auto place = find(kind, name);
  if (place == places_.end() || place->second.is_leaving) return;
  place->second.is_leaving = true;
  subscribers_.core_.pubsub->registry().set_leaving(kind, name);
}

bool Subscriptions::remove(Kind kind, std::string_view name) {
  auto place = find(kind, name);
  if (place == places_.end()) return false;
  std::vector<pubsub::Topic> gone;
  gone.push_back({kind, std::string(name)});
  if (leave(place)) subscribers_.core_.pubsub->let_go(std::move(gone));
  session_.on_subscriptions_changed();
  return true;
}

void Subscriptions::leave_all() {
  std::vector<pubsub::Topic> gone;
  while (!places_.empty()) {
    const Audience& audience = *places_.begin()->first;
    pubsub::Topic topic{audience.kind, std::string(audience.name)};
    if (leave(places_.begin())) gone.push_back(std::move(topic));
  }
  if (!gone.empty()) subscribers_.core_.pubsub->let_go(std::move(gone));
}

std::vector<std::string> Subscriptions::names(Kind kind) const {
  std::vector<std::pair<std::uint64_t, std::string_view>> found;
  for (const auto& [audience, place] : places_) {
    if (audience->kind == kind) found.emplace_back(place.number, audience->name);
  }
  std::ranges::sort(found);
  std::vector<std::string> names;
  names.reserve(found.size());
  for (const auto& [number, name] : found) names.emplace_back(name);
  return names;
}

// --- Reservation

bool Reservation::add(std::string_view name) {
  names_.emplace_back(name);
  return core_.pubsub->registry().add(core_.worker, kind_, name, core_.table->version);
}

Reservation::~Reservation() {
  std::vector<pubsub::Topic> gone;
  for (std::string& name : names_) {
    if (core_.pubsub->registry().remove(core_.worker, kind_, name, /*was_leaving=*/false))
      gone.push_back({kind_, std::move(name)});
  }
  if (!gone.empty()) core_.pubsub->let_go(std::move(gone));
}

// --- Subscribers

// A place in a session's order until the Hub says so. The session executes nothing behind it
// meanwhile.
class Subscribers::Wait final : public backend::PendingReply {
 public:
  Wait(Subscribers& subscribers, std::uint64_t wish, ClientSession& session, Finish finish)
      : subscribers_(subscribers),
        wish_(wish),
        session_(session),
        place_(session.push_pending(this)),
        finish_(std::move(finish)) {
    session.hold(Hold::Answer);
  }

  void abandon() override { subscribers_.waits_.erase(wish_); }
  void come_even_when_replies_are_off() { place_->silent = false; }
  void end(const std::string& error) {
    ClientSession& session = session_;
    backend::Ticket* place = place_;
    const Finish finish = std::move(finish_);
    subscribers_.waits_.erase(wish_);
    session.fill(place, finish(session, error));
    session.release(Hold::Answer);
  }

 private:
  Subscribers& subscribers_;
  std::uint64_t wish_;
  ClientSession& session_;
  backend::Ticket* place_;
  Finish finish_;
};

Subscribers::Subscribers(WorkerCore& core) : core_(core) {}

Subscribers::~Subscribers() { SP_ASSERT(waits_.empty()); }

std::uint64_t Subscribers::wait(ClientSession& session, bool is_push, Finish finish) {
  const std::uint64_t wish = ++last_wish_;
  auto& wait = waits_[wish];
  wait = std::make_unique<Wait>(*this, wish, session, std::move(finish));
  if (is_push) wait->come_even_when_replies_are_off();
  return wish;
}

void Subscribers::wait_in_force(ClientSession& session, Kind kind, std::vector<std::string> missing,
                                bool is_push, Finish finish) {
  const std::uint64_t wish = wait(session, is_push, std::move(finish));
  if (is_push) session.push_behind(true);
  core_.pubsub->want(core_.worker, wish, kind, std::move(missing), core_.table->version);
}

void Subscribers::wait_heard(ClientSession& session, Finish finish) {
  const std::uint64_t wish = wait(session, /*is_push=*/true, std::move(finish));
  session.push_behind(false);
  core_.pubsub->hear_out(core_.worker, wish);
}

void Subscribers::on_settled(std::uint64_t wish, const std::string& error) {
  auto found = waits_.find(wish);
  if (found != waits_.end()) found->second->end(error);
}

void Subscribers::on_messages(const pubsub::Batch& batch) {
  std::string as_push;
  batch.for_each([&](Kind kind, std::string_view name, std::string_view message) {
    auto audience = audiences_[kind].find(name);
    if (audience == audiences_[kind].end()) return;
    as_push.clear();
    for (ClientSession* session : audience->second.sessions) {
      if (!session->resp3()) {
        session->push(message);
        continue;
      }
      if (as_push.empty()) as_push.assign(message).front() = '>';
      session->push(as_push);
    }
  });
}

void Subscribers::on_slots_moved(std::uint64_t table_version) {
  moved_at_ = table_version;
  follow_table();
}

void Subscribers::follow_table() {
  if (moved_at_ == 0 || moved_at_ > core_.table->version) return;
  moved_at_ = 0;
  end_moved_channels();
}

// A client of an endpoint is told as a cluster node tells it; one of the forward port has nothing
// to do with who owns what.
void Subscribers::end_moved_channels() {
  const slots::SlotMap& map = *core_.table->map;
  std::vector<std::pair<ClientSession*, std::string>> ended;
  for (const auto& [name, audience] : audiences_[Kind::Sharded]) {
    const slots::NodeIndex owner = map.owner(slots::slot_of_key(name));
    for (ClientSession* session : audience.sessions) {
      if (session->is_redirect() && session->listener().node != owner)
        ended.emplace_back(session, name);
    }
  }
  for (const auto& [session, name] : ended) {
    Subscriptions& subscriptions = session->subscriptions();
    subscriptions.remove(Kind::Sharded, name);
    std::string notice;
    const std::string_view channel = name;
    write_subscription(notice, session->resp3(), pubsub::words_of(Kind::Sharded).unsubscribe,
                       &channel, subscriptions.count_for_reply(Kind::Sharded));
    session->push(notice);
  }
}

void write_subscription(std::string& out, bool resp3, std::string_view word,
                        const std::string_view* name, std::size_t count) {
  out.append(resp3 ? ">3\r\n" : "*3\r\n");
  resp::ReplyWriter writer(out, resp3);
  writer.bulk(word);
  name != nullptr ? writer.bulk(*name) : writer.null();
  writer.integer(static_cast<std::int64_t>(count));
}

}  // namespace proxy::session
