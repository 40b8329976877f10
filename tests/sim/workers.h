// Workers: the proxy's workers, as far as moves can tell: each routes by the table that it has
// applied last, keeps clients' commands back under a fence, and acknowledges it once all that it
// had sent before is answered. Tables and acknowledgements lie in mailboxes for a while.
//
// What a fence keeps back the daemon's own rule says (session/fence_rules.h). Where the daemon
// answers that a node can't be sent anything because it may have lost what was moved to it
// (NodeRoute::only_run_id), a command waits here: the answer to it is worth more than an error.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proxy/resp/command_table.h"
#include "proxy/routing_table.h"
#include "tests/sim/node.h"
#include "tests/sim/random.h"

namespace sim {

class Workers {
 public:
  static constexpr std::size_t kCount = 2;

  Workers(const std::uint64_t& now_ms, Random& random, std::vector<std::string> keys);
  void set_nodes(Node& source, Node& target);
  // Its keys are not used before: those of database 0 instead.
  void set_late_database(proxy::mover::Database database, std::uint64_t from_ms) {
    late_database_ = database;
    late_from_ms_ = from_ms;
  }

  // --- what clients or chance do
  void issue();  // A client that has nothing under way sends a command.
  // The same; the command is FLUSHALL or FLUSHDB, of both nodes or at one's endpoint.
  void flush();
  void deliver();  // Replies come back.
  void break_connection();
  void on_node_lost(Node& node);
  void step();  // One of them looks into its mailbox, or at its fence.

  // --- what the control thread does
  void start(const std::shared_ptr<const proxy::RoutingTable>& table);
  void crash();
  void install(const std::shared_ptr<const proxy::RoutingTable>& table);
  bool have_applied(std::uint64_t version) const;
  std::optional<proxy::FenceAck> take_ack();
  std::uint64_t flushes() const { return flushes_; }
  std::uint64_t lost_flushes() const { return lost_flushes_; }

  std::uint64_t longest_wait_ms() const { return longest_wait_ms_; }

  bool forgets_lost_connections = false;  // Flaws.
  bool acknowledges_early = false;
  bool sends_to_any_process = false;

 private:
  static constexpr std::size_t kClients = 6;
  struct Sent {
    Node* node = nullptr;
    ConnectionId connection = 0;
    std::uint64_t id = 0;
  };
  struct Client {
    std::optional<Command> command;
    std::vector<Sent> sent;  // None: it waits.
    std::uint64_t waits_since_ms = 0;
    bool is_withheld = false;
  };
  struct Worker {
    std::shared_ptr<const proxy::RoutingTable> table;
    std::deque<std::shared_ptr<const proxy::RoutingTable>> mailbox;
    std::map<Node*, ConnectionId> connections;
    bool has_to_acknowledge = false;
    std::uint64_t fenced_behind = 0;  // Commands with lower ids were sent before the fence.
    std::vector<ConnectionId> lost;   // At the source.
    std::size_t handed_over = 0;      // Of them.
  };

  Client* idle_client();
  Worker& worker_of(const Client& client);
  void begin(Client& client, Command command);
  Command make_command(std::size_t client);
  void route(Client& client);
  void send(Client& client, Node& node, Worker& worker);
  void apply(Worker& worker, std::shared_ptr<const proxy::RoutingTable> table);
  bool has_answers(const Worker& worker) const;
  void release(const Worker& worker);

  const std::uint64_t& now_ms_;
  Random& random_;
  std::vector<std::string> keys_;
  std::shared_ptr<const proxy::resp::CommandTable> commands_;
  Node* source_ = nullptr;
  Node* target_ = nullptr;

  bool is_running_ = false;
  std::vector<Client> clients_ = std::vector<Client>(kClients);
  std::vector<Worker> workers_ = std::vector<Worker>(kCount);
  std::deque<proxy::FenceAck> acks_;
  std::uint64_t next_command_ = 1;
  std::uint64_t flushes_ = 0;
  std::uint64_t lost_flushes_ = 0;
  proxy::mover::Database late_database_ = 0;
  std::uint64_t late_from_ms_ = 0;
  std::uint64_t longest_wait_ms_ = 0;
};

}  // namespace sim
