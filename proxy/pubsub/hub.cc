#include "proxy/pubsub/hub.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "slots/assert.h"
#include "slots/key_slot.h"

namespace proxy::pubsub {

namespace {

constexpr std::uint64_t kTickMs = 25;

}  // namespace

Hub::Hub(HubOptions options) : options_(std::move(options)), registry_(options_.workers) {
  SP_ASSERT(uv_loop_init(&loop_) == 0);
  mailbox_.open(&loop_);
  uv_timer_init(&loop_, &ticker_);
  ticker_.data = this;
}

Hub::~Hub() { SP_ASSERT(!thread_.joinable()); }

void Hub::start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "pubsub");
    uv_run(&loop_, UV_RUN_DEFAULT);
  });
}

void Hub::stop() {
  if (thread_.joinable()) {
    mailbox_.post([this] { close(); });
    thread_.join();
  } else {
    close();
    uv_run(&loop_, UV_RUN_DEFAULT);
  }
  SP_ASSERT(uv_loop_close(&loop_) == 0);
}

void Hub::close() {
  feeds_.clear();
  mailbox_.close();
  uv_close(reinterpret_cast<uv_handle_t*>(&ticker_), nullptr);
}

// --- from other threads

void Hub::install(std::shared_ptr<const RoutingTable> table) {
  mailbox_.post([this, table = std::move(table)]() mutable { apply(std::move(table)); });
}

void Hub::want(unsigned worker, std::uint64_t wish, Kind kind, std::vector<std::string> names,
               std::uint64_t table_version) {
  mailbox_.post([this, late = LateWish{worker, wish, kind, std::move(names), table_version}] {
    // What the worker knows of nodes and slots that this does not know yet would not be heard.
    if (table_ == nullptr || late.table_version > table_->version) {
      late_wishes_.push_back(late);
    } else {
      take_wish(late);
    }
  });
}

void Hub::hear_out(unsigned worker, std::uint64_t wish) {
  mailbox_.post([this, worker, wish] {
    next_to_hear_.emplace_back(worker, wish);
    if (hearing_.waiting_for.empty()) begin_hearing();
  });
}

void Hub::let_go(std::vector<Topic> topics) {
  mailbox_.post([this, topics = std::move(topics)] {
    for (const Topic& topic : topics) forget(topic);
  });
}

// --- nodes

void Hub::apply(std::shared_ptr<const RoutingTable> table) {
  const auto before = std::exchange(table_, std::move(table));
  is_applying_ = true;
  follow_nodes();
  if (before != nullptr && before->map != table_->map) moved_at_ = table_->version;
  follow_fence();
  is_applying_ = false;
  settle_all();
  for (const LateWish& wish : std::exchange(late_wishes_, {})) {
    if (wish.table_version > table_->version) {
      late_wishes_.push_back(wish);
    } else {
      take_wish(wish);
    }
  }
  acknowledge_fence();
  tell_of_moves();
}

void Hub::follow_nodes() {
  const bool is_used = !by_id_.empty();
  FeedHost& host = *this;
  for (const NodeRoute& route : table_->nodes) {
    NodeFeed* feed = find_feed(route.name);
    if (feed == nullptr) {
      feeds_.push_back(std::make_unique<NodeFeed>(host, route.name));
      feed = feeds_.back().get();
    }
    feed->follow(route, is_used);
  }
  // What a worker with the table before has sent there may still publish.
  const auto drain = static_cast<std::uint64_t>(table_->timeouts.drain.count());
  for (const auto& feed : feeds_) {
    if (!feed->is_leaving() && !table_->map->find(feed->node()))
      feed->leave(uv_now(&loop_) + drain + 1);
  }
}

NodeFeed* Hub::find_feed(std::string_view name) {
  auto found = std::ranges::find_if(feeds_, [&](const auto& feed) { return feed->node() == name; });
  return found == feeds_.end() ? nullptr : found->get();
}

void Hub::start_feeds() {
  for (const auto& feed : feeds_) feed->start();
  if (uv_is_active(reinterpret_cast<uv_handle_t*>(&ticker_)) != 0) return;
  uv_timer_start(
      &ticker_, [](uv_timer_t* timer) { static_cast<Hub*>(timer->data)->tick(); }, kTickMs,
      kTickMs);
}

void Hub::tick() {
  const std::uint64_t now = uv_now(&loop_);
  for (const auto& feed : feeds_) {
    feed->go_on_reading();
    feed->tick(now);
  }
  for (std::size_t i = 0; i < feeds_.size();) {
    if (!feeds_[i]->has_left(now)) {
      ++i;
      continue;
    }
    forget_feed(*feeds_[i]);
    feeds_.erase(feeds_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  // A fence of which nobody knows how it ends must not silence a node for good.
  constexpr std::uint64_t kPauseMostMs = 1000;
  if (pause_ && now - pause_->since_ms > kPauseMostMs) take_pause()->resume();
}

void Hub::bury(std::unique_ptr<net::Socket> socket) {
  mailbox_.post([kept = std::shared_ptr<net::Socket>(std::move(socket))] {});
}

void Hub::on_feed_changed(NodeFeed& feed) {
  if (!feed.has_caught_up()) {
    end_departures_from(feed);
    note_heard(feed);
  }
  if (is_applying_) return;
  settle_all();
  acknowledge_fence();
}

// --- topics

void Hub::subscribe_all(NodeFeed& feed) {
  for (auto& [id, state] : by_id_) {
    if (is_at(*state, feed)) feed.subscribe(id, state->kind, state->name);
  }
}

Hub::State& Hub::state_of(Kind kind, const std::string& name) {
  auto [found, is_new] = topics_[kind].try_emplace(name);
  State& state = found->second;
  if (!is_new) return state;
  const bool is_first = by_id_.empty();
  state.id = ++last_id_;
  state.kind = kind;
  state.name = found->first;
  by_id_.emplace(state.id, &state);
  if (kind == Kind::Sharded) place(state);
  for (const auto& feed : feeds_) {
    if (is_at(state, *feed)) feed->subscribe(state.id, kind, name);
  }
  if (is_first) start_feeds();
  return state;
}

void Hub::take_wish(const LateWish& late) {
  auto wish = std::make_shared<Wish>(late.worker, late.wish, late.names.size(), std::string());
  for (const std::string& name : late.names) {
    // Who wished for it may have left, and nobody would ever let go of it again.
    if (!registry_.is_wanted(late.kind, name)) continue;
    State& state = state_of(late.kind, name);
    if (!state.refusal.empty()) ask_again(state);
    state.waiting.push_back(wish);
    unsettled_.insert(&state);
    settle(state);
  }
}

// The node may think better of it by now.
void Hub::ask_again(State& state) {
  state.refusal.clear();
  for (const auto& feed : feeds_) {
    if (is_at(state, *feed)) feed->subscribe(state.id, state.kind, state.name);
  }
}

bool Hub::is_at(const State& state, const NodeFeed& feed) {
  return state.kind != Kind::Sharded || state.owner == &feed || state.next_owner == &feed;
}

void Hub::forget(const Topic& topic) {
  auto found = topics_[topic.kind].find(topic.name);
  // Somebody else may want it by now.
  if (found == topics_[topic.kind].end() || registry_.is_wanted(topic.kind, topic.name)) return;
  State& state = found->second;
  for (const auto& feed : feeds_) {
    if (is_at(state, *feed)) feed->unsubscribe(state.id, state.kind, state.name);
  }
  unsettled_.erase(&state);
  by_id_.erase(state.id);
  topics_[topic.kind].erase(found);
  acknowledge_fence();
}

bool Hub::is_in_force(const State& state) const {
  auto is_missing = [&](const NodeFeed* feed) {
    return feed != nullptr && feed->is_counted_on() && !feed->holds(state.id);
  };
  if (state.kind == Kind::Sharded) return !is_missing(state.owner) && !is_missing(state.next_owner);
  return std::ranges::none_of(feeds_, [&](const auto& feed) { return is_missing(feed.get()); });
}

bool Hub::is_owner_heard(const State& state) {
  return state.owner != nullptr && state.owner->holds(state.id);
}

void Hub::settle(State& state) {
  const bool is_settled = is_in_force(state);
  const bool is_heard = state.kind != Kind::Sharded || is_owner_heard(state);
  registry_.set_in_force(state.kind, state.name, is_settled && is_heard);
  if (!is_settled) return;
  unsettled_.erase(&state);
  hand_over();  // What came before is before the confirmation.
  for (const std::shared_ptr<Wish>& wish : std::exchange(state.waiting, {})) {
    if (!state.refusal.empty()) wish->error = state.refusal;
    // Nobody else could be heard instead.
    if (!is_heard)
      wish->error =
          "CLUSTERDOWN the owner of this channel's slot can't be reached now; see slotctl nodes";
    if (--wish->left > 0) continue;
    options_.to_worker(wish->worker, [number = wish->number, error = wish->error](Receiver& to) {
      to.on_settled(number, error);
    });
  }
}

void Hub::settle_all() {
  note_reach();
  const std::vector<State*> waited_for(unsettled_.begin(), unsettled_.end());
  for (State* state : waited_for) settle(*state);
}

void Hub::note_reach() {
  std::vector<std::string> heard;
  bool is_whole = true;
  for (const auto& feed : feeds_) {
    if (feed->has_caught_up()) heard.push_back(feed->node());
    is_whole = is_whole && (feed->has_caught_up() || !feed->is_counted_on());
  }
  registry_.set_heard_nodes(std::move(heard));
  registry_.set_whole(is_whole ? table_->version : 0);
}

void Hub::on_confirmed(TopicId id) {
  auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  if (unsettled_.contains(found->second)) settle(*found->second);
}

void Hub::on_refused(TopicId id, const std::string& why) {
  if (auto found = by_id_.find(id); found != by_id_.end()) found->second->refusal = why;
  on_confirmed(id);
}

// --- hearing nodes out

// One at a time: whoever comes meanwhile goes with the next one.
void Hub::begin_hearing() {
  hearing_ = {++last_barrier_, {}, std::exchange(next_to_hear_, {})};
  for (const auto& feed : feeds_) {
    if (feed->send_barrier(hearing_.barrier)) hearing_.waiting_for.push_back(feed.get());
  }
  if (hearing_.waiting_for.empty()) end_hearing();
}

void Hub::end_hearing() {
  hand_over();
  for (const auto& [worker, wish] : std::exchange(hearing_.wishes, {}))
    options_.to_worker(worker, [number = wish](Receiver& to) { to.on_settled(number, {}); });
}

void Hub::note_heard(NodeFeed& feed) {
  if (std::erase(hearing_.waiting_for, &feed) == 0 || !hearing_.waiting_for.empty()) return;
  end_hearing();
  if (!next_to_hear_.empty()) begin_hearing();
}

// --- messages

void Hub::on_message(Kind kind, std::string_view name, std::string_view message) {
  if (batch_ == nullptr) batch_ = std::make_shared<Batch>(under_way_);
  batch_->add(kind, name, message);
}

void Hub::on_read_end() {
  hand_over();
  acknowledge_fence();
}

void Hub::hand_over() {
  if (batch_ == nullptr) return;
  const std::shared_ptr<const Batch> batch = std::exchange(batch_, nullptr);
  for (unsigned worker = 0; worker < options_.workers; ++worker) {
    if (!registry_.has_any(worker)) continue;
    options_.to_worker(worker, [batch](Receiver& to) { to.on_messages(*batch); });
  }
}

}  // namespace proxy::pubsub
