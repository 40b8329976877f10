// FeedConnection: bytes to and from a node on the Hub's loop; whole RESP values in, requests out.
// What they mean is its owner's business.
//
// Thread:  the Hub's.
// Limits:  a value of kValueMax bytes; requests that the node does not take wait in memory, which
//          its subscriptions bound.
// Errors:  on_lost(), once, for whatever ends it but end(). Nothing is called after either.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "conf/config.h"
#include "proxy/net/connector.h"
#include "proxy/net/loop_timer.h"
#include "proxy/net/socket.h"
#include "proxy/resp/reply_parser.h"

namespace proxy::pubsub {

class FeedOwner {
 public:
  virtual void on_open() = 0;
  // Valid during the call only. end() of the connection is allowed within.
  virtual void on_value(std::string_view value) = 0;
  // All that one read has brought was handed over.
  virtual void on_read_end() = 0;
  virtual void on_lost(const std::string& why) = 0;
  // False: what the node has to say waits until resume_reading().
  [[nodiscard]] virtual bool may_read() const = 0;

 protected:
  ~FeedOwner() = default;
};

class FeedConnection final : public net::Socket {
 public:
  static constexpr std::size_t kValueMax = std::size_t{1} << 30;

  // `buffer`: where reads land, shared by all connections of the loop.
  FeedConnection(uv_loop_t* loop, FeedOwner& owner, std::span<char> buffer);

  void connect(const conf::Address& address, conf::Milliseconds timeout);
  void send(std::string_view bytes);
  // False: it was read from all the while.
  bool resume_reading();
  // Closes it. `bury` keeps one that libuv does not know until nobody stands in it any more.
  static void end(std::unique_ptr<FeedConnection> self,
                  const std::function<void(std::unique_ptr<net::Socket>)>& bury);

 private:
  void on_ready(bool readable, bool writable, bool broken) override;
  void read();
  void write();
  void lose(const std::string& why);
  void watch_now() { watch(!is_paused_, !out_.empty()); }

  uv_loop_t* loop_;
  FeedOwner& owner_;
  std::span<char> buffer_;
  resp::ReplyParser parser_;
  std::string begun_;  // The beginning of a value that is not whole.
  std::string out_;    // Not taken by the kernel.
  bool is_paused_ = false;
  bool is_over_ = false;
  net::Connector connector_;
  net::LoopTimer connect_timer_;
};

}  // namespace proxy::pubsub
