#include "proxy/session/script_calls.h"

#include <algorithm>
#include <cctype>
#include <span>
#include <utility>

#include "proxy/resp/handshake.h"
#include "proxy/resp/reply_cursor.h"
#include "proxy/resp/reply_writer.h"
#include "proxy/resp/reserved_key.h"

namespace proxy::session {

class ScriptCalls::AtNode final : private pubsub::FeedOwner {
 public:
  AtNode(ScriptCalls& calls, const NodeRoute& route) : calls_(calls), route_(route) {
    pubsub::FeedOwner& owner = *this;
    connection_ = std::make_unique<pubsub::FeedConnection>(
        calls.core_.loop, owner,
        std::span<char>(calls.core_.read_buffer.get(), WorkerCore::kReadBytes));
    connection_->connect(route.address, calls.core_.table->timeouts.connect);
  }
  ~AtNode() { close(); }
  AtNode(const AtNode&) = delete;
  AtNode& operator=(const AtNode&) = delete;

  [[nodiscard]] const NodeRoute& route() const { return route_; }
  [[nodiscard]] bool is_lost() const { return connection_ == nullptr; }
  [[nodiscard]] bool is_settled() const { return is_lost() || is_on_; }

 private:
  void on_open() override {
    std::string bytes;
    resp::append_login(bytes, route_.username, route_.password);
    resp::append_request(bytes, {"CLIENT", "SETNAME", calls_.core_.connection_name});
    resp::append_request(bytes, {"GET", resp::kIdentityKey});
    resp::append_request(bytes, {"MONITOR"});
    connection_->send(bytes);
  }
  void on_value(std::string_view value) override {
    if (value.front() == '-') return lose();
    if (value.front() == '$') {
      const auto identity = resp::ReplyCursor(value).read_bulk();
      if (identity && !route_.identity.empty() && *identity != route_.identity) return lose();
      is_identified_ = true;
    } else if (value.size() > 1 && std::isdigit(static_cast<unsigned char>(value[1])) != 0) {
      if (is_of_script(value)) calls_.show_(value);
    } else if (is_identified_ && !std::exchange(is_on_, true)) {
      calls_.note_settled();
    }
  }
  void on_read_end() override {}
  void on_lost(const std::string&) override { lose(); }
  [[nodiscard]] bool may_read() const override { return true; }

  // "+1700000000.123456 [0 lua] ..."; the proxy's own keys are nobody's business.
  static bool is_of_script(std::string_view line) {
    const std::size_t end = line.find(']');
    return end != std::string_view::npos && line.substr(0, end).ends_with(" lua") &&
           line.find(resp::kReservedPrefix) == std::string_view::npos;
  }
  void lose() {
    close();
    calls_.note_settled();
  }
  void close() {
    if (connection_ == nullptr) return;
    pubsub::FeedConnection::end(std::move(connection_),
                                [this](std::unique_ptr<net::Socket> socket) {
                                  calls_.core_.graveyard.push_back(std::move(socket));
                                });
  }

  ScriptCalls& calls_;
  NodeRoute route_;
  bool is_identified_ = false;
  bool is_on_ = false;
  std::unique_ptr<pubsub::FeedConnection> connection_;
};

ScriptCalls::ScriptCalls(WorkerCore& core, std::function<void(std::string_view)> show)
    : core_(core), show_(std::move(show)) {}

ScriptCalls::~ScriptCalls() = default;

void ScriptCalls::begin(std::function<void()> when_all) {
  is_on_ = true;
  waiting_.push_back(std::move(when_all));
  tick();
  note_settled();
}

void ScriptCalls::end() {
  if (!is_on_) return;
  is_on_ = false;
  waiting_.clear();
  nodes_.clear();
}

void ScriptCalls::tick() {
  if (!is_on_) return;
  const RoutingTable& table = *core_.table;
  std::erase_if(nodes_, [&](const auto& node) {
    return node->is_lost() || std::ranges::none_of(table.nodes, [&](const NodeRoute& route) {
             return route.state == NodeState::Up && route.name == node->route().name &&
                    route.address == node->route().address;
           });
  });
  for (const NodeRoute& route : table.nodes) {
    const bool is_there = std::ranges::any_of(
        nodes_, [&](const auto& node) { return node->route().name == route.name; });
    if (route.state == NodeState::Up && !is_there)
      nodes_.push_back(std::make_unique<AtNode>(*this, route));
  }
}

void ScriptCalls::note_settled() {
  if (std::ranges::any_of(nodes_, [](const auto& node) { return !node->is_settled(); })) return;
  for (const std::function<void()>& done : std::exchange(waiting_, {})) done();
}

}  // namespace proxy::session
