#include "proxy/control/health_watcher.h"

#include <algorithm>
#include <utility>

namespace proxy::control {

HealthWatcher::HealthWatcher(uv_loop_t* loop, HealthOptions options, HealthCallbacks callbacks)
    : loop_(loop),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      event_timer_(loop) {}

HealthWatcher::~HealthWatcher() { *life_ = false; }

void HealthWatcher::set_nodes(const std::vector<WatchedNode>& nodes) {
  std::set<std::string> names;
  for (const WatchedNode& node : nodes) names.insert(node.name);
  std::erase_if(nodes_, [&](const auto& entry) {
    if (names.contains(entry.first)) return false;
    release_run_id(entry.first);
    unsettled_.erase(entry.first);
    return true;
  });
  if (!first_round_begun_) unsettled_ = std::move(names);
  first_round_begun_ = true;
  for (const WatchedNode& node : nodes) {
    const auto known = nodes_.find(node.name);
    if (known != nodes_.end()) {
      known->second->change(node);
    } else {
      NodeWatch::Listener& listener = *this;
      nodes_.emplace(node.name, std::make_unique<NodeWatch>(loop_, options_, node, listener));
    }
  }
  end_first_round();
}

void HealthWatcher::set_timeouts(conf::Milliseconds connect, conf::Milliseconds node_silent) {
  options_.connect = connect;
  options_.node_silent = node_silent;
}

NodeStatus HealthWatcher::status(const std::string& node) const {
  const auto found = nodes_.find(node);
  if (found != nodes_.end()) return found->second->status();
  NodeStatus unknown;
  unknown.reason = "unknown node";
  return unknown;
}

std::shared_ptr<const std::string> HealthWatcher::command_reply(const std::string& node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? nullptr : found->second->commands();
}

std::optional<std::string> HealthWatcher::claim_run_id(const std::string& node,
                                                       const std::string& run_id) {
  const auto holder = holders_.find(run_id);
  if (holder != holders_.end() && holder->second != node) return holder->second;
  release_run_id(node);
  holders_[run_id] = node;
  return std::nullopt;
}

void HealthWatcher::release_run_id(const std::string& node) {
  std::erase_if(holders_, [&](const auto& entry) { return entry.second == node; });
}

std::shared_ptr<const std::string> HealthWatcher::shared(std::string commands) {
  for (const auto& [name, watch] : nodes_) {
    const auto known = watch->commands();
    if (known != nullptr && *known == commands) return known;
  }
  return std::make_shared<const std::string>(std::move(commands));
}

void HealthWatcher::on_status(const std::string& node) {
  const bool is_posted = std::ranges::any_of(events_, [&](const Event& event) {
    return event.kind == Event::Kind::Change && event.node == node;
  });
  if (!is_posted) post({Event::Kind::Change, node, {}});
}

void HealthWatcher::on_settled(const std::string& node) {
  unsettled_.erase(node);
  end_first_round();
}

void HealthWatcher::on_identity(const std::string& node, const std::string& identity) {
  post({Event::Kind::Identity, node, identity});
}

void HealthWatcher::on_warning(const std::string& node, const std::string& text) {
  post({Event::Kind::Warning, node, text});
}

void HealthWatcher::end_first_round() {
  if (!first_round_begun_ || first_round_told_ || !unsettled_.empty()) return;
  first_round_told_ = true;
  post({Event::Kind::FirstRound, {}, {}});
}

void HealthWatcher::post(Event event) {
  events_.push_back(std::move(event));
  if (!event_timer_.is_running()) event_timer_.start(conf::Milliseconds{0}, [this] { tell(); });
}

void HealthWatcher::tell() {
  const auto life = life_;
  const std::vector<Event> events = std::exchange(events_, {});
  for (const Event& event : events) {
    tell(event);
    if (!*life) return;
  }
}

void HealthWatcher::tell(const Event& event) {
  const auto found = nodes_.find(event.node);
  const bool is_watched = found != nodes_.end();
  switch (event.kind) {
    case Event::Kind::Change:
      if (is_watched && callbacks_.on_change) {
        const NodeStatus status =
            found->second->status();  // A copy: the callback may change the nodes.
        callbacks_.on_change(event.node, status);
      }
      return;
    case Event::Kind::Identity:
      if (is_watched && callbacks_.on_identity) callbacks_.on_identity(event.node, event.text);
      return;
    case Event::Kind::Warning:
      if (is_watched && callbacks_.on_warning) callbacks_.on_warning(event.node, event.text);
      return;
    case Event::Kind::FirstRound:
      if (callbacks_.first_round_done) callbacks_.first_round_done();
      return;
  }
}

}  // namespace proxy::control
