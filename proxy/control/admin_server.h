// AdminServer: the admin port. Reads requests, lets AdminCommands answer them, writes the answers.
//
// Thread:  the control loop, in a process that ignores SIGPIPE. Destroying it ends every connection
//          at once; the loop has to be run on afterwards until it is empty.
// Owns:    its listening socket (and the file of a Unix one) and its connections.
// Rights:  who can open the Unix socket (mode 0600) may do everything. Over TCP a connection has to
//          AUTH first, for all but PING, HEALTH and QUIT; its password says who it is.
// Limits:  kClientsMax connections; when all places are taken, the oldest one that has not logged
//          in makes room for a new one, and else the new one is turned away. Each holds at most one
//          request of admin::kRequestBytesMax bytes and one answer, since a connection is not read
//          while its answer is under way: one that stalls costs no more than that.
// Errors:  those of AdminSocket; InvalidArgument for TCP without a password.
#pragma once

#include <uv.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "conf/config.h"
#include "proxy/control/admin_commands.h"
#include "proxy/control/admin_port.h"
#include "proxy/control/admin_socket.h"
#include "slots/result.h"

namespace proxy::control {

class AdminServer {
 public:
  static constexpr std::size_t kClientsMax = 64;

  [[nodiscard]] static slots::Result<std::unique_ptr<AdminServer>> open(
      uv_loop_t* loop, const conf::Address& address, std::string password, AdminPort& port,
      std::vector<conf::AdminUser> users = {});
  ~AdminServer();
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;

  // For connections that log in from now on. None at all is ignored over TCP.
  void set_passwords(std::string password, std::vector<conf::AdminUser> users);

  // With the port that was bound when 0 was asked for.
  [[nodiscard]] const conf::Address& address() const { return socket_.address(); }
  [[nodiscard]] std::size_t clients() const { return clients_.size(); }

 private:
  using ClientId = std::uint64_t;
  struct Client;
  struct Listener;
  struct PendingWrite;

  AdminServer(uv_loop_t* loop, AdminSocket socket, AdminPort& port);
  slots::Status listen();

  void on_connection();
  bool make_room();
  void on_read(Client& client, const char* bytes, std::size_t count);
  void process(Client& client);
  bool next_request(Client& client, std::vector<std::string>& words);
  void run(Client& client, const std::vector<std::string>& words);
  void log_in(Client& client, const std::vector<std::string>& words);
  void answer(Client& client, const AdminReply& reply);
  void refuse(Client& client, std::string text);
  void close(Client& client);

  uv_loop_t* loop_;
  AdminSocket socket_;
  std::string password_;
  std::vector<conf::AdminUser> users_;
  AdminCommands commands_;
  Listener* listener_ = nullptr;         // Frees itself once libuv has closed it.
  std::map<ClientId, Client*> clients_;  // Oldest first; each frees itself likewise.
  ClientId next_id_ = 1;
  std::array<char, 4096> read_buffer_{};                       // Used within one callback only.
  std::shared_ptr<bool> life_ = std::make_shared<bool>(true);  // False once answers are nobody's.
};

}  // namespace proxy::control
