// WorkerRig: Workers on their own threads in front of FakeNodes on the test's loop, and clients of
// the first one.
//
// A test says which nodes there are and which slots are theirs, installs one snapshot after the
// other, and looks at what clients read. Nothing else of a proxy runs: no health, no state.
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "proxy/acl/users.h"
#include "proxy/resp/command_table.h"
#include "proxy/resp/reply_parser.h"
#include "proxy/resp/reply_writer.h"
#include "proxy/session/script_cache.h"
#include "proxy/worker.h"
#include "slots/key_slot.h"
#include "tests/support/fake_node.h"
#include "tests/support/test_loop.h"

namespace tests {

inline std::string request_of(std::initializer_list<std::string_view> args) {
  std::string bytes;
  proxy::resp::append_request(bytes, args);
  return bytes;
}

// A client's connection. What it waits for comes while the test's loop runs.
class RigClient {
 public:
  RigClient(TestLoop& loop, std::uint16_t port) : loop_(loop) {
    descriptor_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    ::fcntl(descriptor_, F_SETFL, O_NONBLOCK);
  }
  ~RigClient() {
    if (descriptor_ >= 0) close();
  }
  RigClient(const RigClient&) = delete;
  RigClient& operator=(const RigClient&) = delete;

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      ssize_t count = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
      if (count < 0) {
        REQUIRE(errno == EAGAIN);
        loop_.run_until([] { return true; });
      }
    }
  }
  // The next whole reply; empty, and the test fails: none came.
  std::string read() {
    std::size_t size = 0;
    CHECK(loop_.run_until([&] { return (size = whole_reply()) > 0; }));
    std::string reply = unread_.substr(0, size);
    unread_.erase(0, size);
    return reply;
  }
  std::string ask(std::initializer_list<std::string_view> args) {
    send(request_of(args));
    return read();
  }
  [[nodiscard]] bool has_reply() { return whole_reply() > 0; }
  // Bytes that have come and are not read yet, of whole replies or not.
  [[nodiscard]] std::size_t received() {
    whole_reply();
    return unread_.size();
  }
  // Once everything is read.
  [[nodiscard]] bool is_closed() { return whole_reply() == 0 && closed_; }
  // Sends no more, and still reads.
  void shut_down() { ::shutdown(descriptor_, SHUT_WR); }
  void close() {
    ::close(descriptor_);
    descriptor_ = -1;
  }

 private:
  std::size_t whole_reply() {
    char bytes[4096];
    ssize_t count = 0;
    while ((count = ::recv(descriptor_, bytes, sizeof bytes, 0)) > 0)
      unread_.append(bytes, static_cast<std::size_t>(count));
    closed_ = closed_ || count == 0 || errno == ECONNRESET;
    proxy::resp::ReplyParser parser;
    const char* end = parser.next(unread_.data(), unread_.data() + unread_.size());
    return end == nullptr ? 0 : static_cast<std::size_t>(end - unread_.data());
  }

  TestLoop& loop_;
  int descriptor_;
  bool closed_ = false;
  std::string unread_;
};

class WorkerRig {
 public:
  // A node of a snapshot, and its slots: "0-99,200", or nothing.
  struct Part {
    std::string name;
    std::string slots;
  };

  explicit WorkerRig(TestLoop& loop, unsigned workers = 1)
      : loop_(loop), count_(workers), scripts_(workers) {
    limits.clients = 100;
    // Clients are no handles of the loop: they are looked at now and then.
    uv_timer_init(loop.get(), &now_and_then_);
    uv_timer_start(&now_and_then_, [](uv_timer_t*) {}, 1, 1);
  }
  ~WorkerRig() {
    stop();
    uv_close(reinterpret_cast<uv_handle_t*>(&now_and_then_), nullptr);
    nodes_.clear();
    loop_.run_until([this] { return uv_is_active(handle()) == 0; });
  }
  WorkerRig(const WorkerRig&) = delete;
  WorkerRig& operator=(const WorkerRig&) = delete;

  // Of the next snapshot.
  conf::Limits limits;
  conf::Timeouts timeouts;
  std::shared_ptr<const proxy::Fence> fence;
  std::shared_ptr<const proxy::acl::Users> users = proxy::acl::anybody();
  std::map<std::string, std::string> only_run_ids;  // Node -> NodeRoute::only_run_id.

  // The server behind the name, which is started when it is first spoken of.
  FakeNode& node(const std::string& name) {
    std::unique_ptr<FakeNode>& found = nodes_[name];
    if (found == nullptr) found = std::make_unique<FakeNode>(loop_.get());
    return *found;
  }

  // Starts the worker with the first snapshot, applies the next one; it is in force on return.
  void install(const std::vector<Part>& parts) {
    auto table = make_table(parts);
    if (workers_.empty()) return start(table);
    std::atomic<unsigned> applied = 0;
    hub_->install(table);
    for (const auto& worker : workers_) worker->install(table, [&] { ++applied; });
    REQUIRE(loop_.run_until([&] { return applied == count_; }));
  }
  // Ends them in turn, as a proxy does.
  void stop(const std::function<void()>& after_each = [] {}) {
    for (const auto& worker : workers_) {
      worker->stop();
      after_each();
    }
    if (hub_ != nullptr) hub_->stop();  // It calls nobody any more.
    workers_.clear();
    hub_ = nullptr;
  }

  std::unique_ptr<RigClient> client() {
    return std::make_unique<RigClient>(loop_, ports_.at(std::string()));
  }
  // At the endpoint of a node of the first snapshot.
  std::unique_ptr<RigClient> client_at(const std::string& name) {
    return std::make_unique<RigClient>(loop_, ports_.at(name));
  }

  bool run_until(const std::function<bool()>& holds) { return loop_.run_until(holds); }
  [[nodiscard]] proxy::Worker& worker(unsigned index = 0) { return *workers_[index]; }
  // In the order in which they came.
  [[nodiscard]] std::vector<proxy::FenceAck> acks() {
    std::lock_guard guard(mutex_);
    return acks_;
  }
  // The last fence that the pub/sub hub has acknowledged.
  [[nodiscard]] std::uint64_t hub_acked() const { return hub_acked_; }
  [[nodiscard]] const proxy::WorkerStats& stats() const { return workers_[0]->stats(); }

 private:
  uv_handle_t* handle() { return reinterpret_cast<uv_handle_t*>(&now_and_then_); }

  std::shared_ptr<const proxy::RoutingTable> make_table(const std::vector<Part>& parts) {
    auto table = std::make_shared<proxy::RoutingTable>();
    std::vector<slots::Node> map_nodes;
    slots::SlotMap::Owners owners{};
    for (const Part& part : parts) {
      auto index = static_cast<slots::NodeIndex>(map_nodes.size());
      map_nodes.push_back({part.name, 1.0});
      proxy::NodeRoute route;
      route.name = part.name;
      route.id = slots::node_id_of("rig", part.name);
      route.address = node(part.name).address();
      route.endpoint = route.announced = conf::Address{"127.0.0.1", 7000, {}};
      route.announced->port = static_cast<std::uint16_t>(7000 + part.name.front());
      route.state = proxy::NodeState::Up;
      route.only_run_id = only_run_ids[part.name];
      table->nodes.push_back(route);
      if (part.slots.empty()) continue;
      auto set = slots::parse_slot_set(part.slots);
      REQUIRE(set.has_value());
      for (const slots::SlotRange& range : set->ranges()) {
        for (std::size_t slot = range.first; slot <= range.last; ++slot) owners[slot] = index;
      }
    }
    auto map = slots::SlotMap::create(map_nodes, owners, ++epoch_);
    REQUIRE(map.has_value());
    table->cluster = "rig";
    table->version = epoch_;
    table->map = std::make_shared<slots::SlotMap>(*map);
    table->commands = proxy::resp::CommandTable::built_in();
    table->limits = limits;
    table->timeouts = timeouts;
    table->fence = fence;
    table->users = users;
    proxy::make_cluster_replies(*table, nullptr);
    return table;
  }

  void start(const std::shared_ptr<const proxy::RoutingTable>& table) {
    std::vector<proxy::WorkerListener> listeners;
    listeners.push_back(listen_for(""));
    for (const proxy::NodeRoute& node : table->nodes) {
      listeners.push_back(listen_for(node.name));
      listeners.back().facts->node = table->map->find(node.name).value_or(slots::kNoNode);
    }
    make_hub();
    for (unsigned i = 0; i < count_; ++i) {
      proxy::WorkerOptions options;
      options.index = i;
      options.count = count_;
      options.connection_name = "slotproxy:rig";
      options.scripts = &scripts_;
      options.refusals = &refusals_;
      options.pubsub = hub_.get();
      options.counts = &counts_;
      options.on_fenced = [this](proxy::FenceAck ack) {
        std::lock_guard guard(mutex_);
        acks_.push_back(std::move(ack));
      };
      workers_.push_back(std::make_unique<proxy::Worker>(options, table, workers_));
    }
    hub_->start();
    hub_->install(table);
    for (const auto& worker : workers_) worker->start(std::exchange(listeners, {}));
  }

  void make_hub() {
    proxy::pubsub::HubOptions options;
    options.workers = count_;
    options.connection_name = "slotproxy:rig";
    options.to_worker = [this](unsigned worker,
                               std::function<void(proxy::pubsub::Receiver&)> work) {
      workers_[worker]->post_messages(std::move(work));
    };
    options.on_fenced = [this](const proxy::FenceAck& ack) { hub_acked_ = ack.fence; };
    hub_ = std::make_unique<proxy::pubsub::Hub>(std::move(options));
  }

  proxy::WorkerListener listen_for(const std::string& node) {
    proxy::WorkerListener listener;
    auto opened = proxy::net::open_listeners(conf::Address{"127.0.0.1", 0, {}}, 1);
    REQUIRE(opened.has_value());
    listener.descriptor = opened->front();
    sockaddr_in address{};
    socklen_t length = sizeof address;
    ::getsockname(opened->front(), reinterpret_cast<sockaddr*>(&address), &length);
    ports_[node] = ntohs(address.sin_port);
    listener.facts = std::make_shared<proxy::session::ListenerFacts>();
    listener.facts->is_redirect = !node.empty();
    listener.facts->node_name = node;
    listener.facts->port = ports_[node];
    listener.facts->address = "127.0.0.1:" + std::to_string(ports_[node]);
    return listener;
  }

  TestLoop& loop_;
  unsigned count_;
  uv_timer_t now_and_then_{};
  std::map<std::string, std::unique_ptr<FakeNode>> nodes_;
  std::map<std::string, std::uint16_t> ports_;  // "": the forward port.
  slots::Epoch epoch_ = 0;
  std::mutex mutex_;
  std::vector<proxy::FenceAck> acks_;
  proxy::session::ScriptCache scripts_;
  proxy::backend::Refusals refusals_;
  proxy::session::SessionCounts counts_;
  std::unique_ptr<proxy::pubsub::Hub> hub_;
  std::atomic<std::uint64_t> hub_acked_ = 0;
  proxy::Worker::WorkersByIndex workers_;
};

// Two maps that differ by slot 3300, the slot of "b": it lies on node a at first, as does "c"
// (7365); "a" (15495) lies on node b.
inline const std::vector<WorkerRig::Part> kBefore = {{"a", "0-8191"}, {"b", "8192-16383"}};
inline const std::vector<WorkerRig::Part> kMoved = {{"a", "0-3299,3301-8191"},
                                                    {"b", "3300,8192-16383"}};

}  // namespace tests
