// NodeClient: one RESP2 connection of the control thread to one node; requests in, replies out, in
// order.
//
// Thread:  the loop's own. Nothing here blocks it: names resolve in libuv's pool, every wait has a
//          timer.
// Owns:    its socket. close() and the destructor drop everything under way: no completion is
//          called after them. Any completion may call back into the NodeClient and may destroy it.
// Limits:  a reply of more than kReplyBytesMax ends the connection.
// Errors:  Timeout when the node did not answer in time (the connection is closed with it, since a
//          late reply must never be taken for the next one); Unavailable when it could not be
//          reached or was lost. A command that was sent and got an error may or may not have run.
//          An error reply of the node is a Reply, not an Error.
// Why:     hiredis's asynchronous context stops the process (an assertion) when a peer sends a
//          reply that nobody asked for, and has no timeouts; so only its reply reader is used, and
//          the socket is libuv's.
#pragma once

#include <uv.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "conf/config.h"
#include "proxy/control/node_reply.h"
#include "proxy/net/loop_timer.h"
#include "proxy/net/resolver.h"
#include "slots/result.h"

namespace proxy::control {

class NodeClient {
 public:
  static constexpr std::size_t kReplyBytesMax = 256U << 20;

  using ConnectDone = std::function<void(slots::Status)>;
  using CallDone = std::function<void(slots::Result<Reply>)>;
  using Lost = std::function<void(slots::Error)>;

  explicit NodeClient(uv_loop_t* loop);
  ~NodeClient();
  NodeClient(const NodeClient&) = delete;
  NodeClient& operator=(const NodeClient&) = delete;

  // Resolves the address and tries each result in turn, all within `timeout`. Closes what was open
  // before.
  void connect(const conf::Address& address, conf::Milliseconds timeout, ConnectDone done);

  // Sends a request; requests may be pipelined. A timeout of 0 is none. `done` is called exactly
  // once unless the NodeClient is closed before, and never from inside this call.
  void call(const Command& command, conf::Milliseconds timeout, CallDone done);

  // AUTH (with a password) and CLIENT SETNAME (with a name); for users other than the verification,
  // which asks itself. Errors: also InvalidArgument with the node's words when it refuses; the
  // connection is closed then.
  void log_in(const std::string& username, const std::string& password,
              const std::string& client_name, conf::Milliseconds timeout, ConnectDone done);

  // Called when an open connection ends other than by close(), after the pending calls have got
  // their errors.
  void on_lost(Lost lost) { lost_ = std::move(lost); }

  void close();
  [[nodiscard]] bool is_open() const { return socket_ != nullptr && connected_; }
  [[nodiscard]] std::size_t pending_calls() const { return pending_.size(); }

 private:
  struct Socket;
  struct PendingCall {
    CallDone done;
    std::string name;
    conf::Milliseconds timeout{0};
    std::uint64_t deadline_ms = 0;  // On the loop's clock; 0: none.
  };
  struct Refusal {
    CallDone done;
    slots::Error error;
  };

  void try_next_address();
  void on_connect_result(int status);
  void end_connect(slots::Status status);
  void deliver(Reply reply);
  void lose(slots::Error error);
  void drop_socket();
  void arm_call_timer();
  void on_call_timer();
  void tell_refusals();

  uv_loop_t* loop_;
  net::Resolver resolver_;
  net::LoopTimer connect_timer_;
  net::LoopTimer call_timer_;
  net::LoopTimer refusal_timer_;
  Socket* socket_ = nullptr;  // Frees itself once libuv has closed it.
  bool connected_ = false;
  bool last_chance_ =
      false;  // A call is overdue; what lies unread in the socket is looked at before it fails.
  std::vector<net::SocketAddress> addresses_;
  std::size_t next_address_ = 0;
  std::uint64_t connect_deadline_ms_ = 0;
  slots::Error connect_error_;
  ConnectDone connect_done_;
  std::deque<PendingCall> pending_;  // Oldest first.
  std::vector<Refusal> refusals_;    // Calls that failed at once, to be told on the next turn.
  Lost lost_;
  std::shared_ptr<bool> life_ =
      std::make_shared<bool>(true);  // False once closed: ends a round of completions.
};

}  // namespace proxy::control
