// Socket: a connected descriptor on a worker's loop, watched by a uv_poll_t.
//
// uv_poll_t rather than uv_tcp_t: reads go into the worker's one read buffer and writes leave
// gathered from a chain, so libuv's stream queues would only add work (about 1,000 instructions per
// request) and memory (90 bytes a connection).
//
// Thread:     one loop's.
// Lifetime:   open() once; close() stops everything at once and gives the object to `Retired`,
// which destroys it when
//             libuv has let go of the handle. Nothing is called on a closed socket.
#pragma once

#include <sys/uio.h>
#include <uv.h>

#include <cstddef>
#include <memory>

#include "proxy/net/byte_chain.h"

namespace proxy::net {

enum class IoStatus {
  Ok,
  WouldBlock,
  Closed
};  // Closed: end of file or an error; the connection is over.

struct IoResult {
  IoStatus status = IoStatus::Ok;
  std::size_t count = 0;
};

class Socket {
 public:
  Socket() = default;
  virtual ~Socket() = default;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  [[nodiscard]] int descriptor() const { return descriptor_; }

 protected:
  // Takes the (non-blocking) descriptor over.
  void open(uv_loop_t* loop, int descriptor);
  // Ends the connection; `self` must own this object, which is destroyed after libuv's close
  // callback.
  void close(std::unique_ptr<Socket> self);

  // As close(), but the descriptor stays open, and is the caller's from now on.
  [[nodiscard]] int release(std::unique_ptr<Socket> self);

  // `hang_up`: on_hung_up() tells, even while nothing is read, that the peer has closed its side.
  void watch(bool readable, bool writable, bool hang_up = false);
  [[nodiscard]] bool is_reading() const { return (events_ & UV_READABLE) != 0; }

  IoResult read_some(char* bytes, std::size_t capacity);
  IoResult write_some(const char* bytes, std::size_t count);
  // Writes as much of the chain as the kernel takes now and consumes it. WouldBlock: something is
  // left.
  IoResult write_chain(BlockPool& pool, ByteChain& chain);

  // Whether the peer has closed its side or the connection is broken, even if bytes that were sent
  // before are still to be read. A system call.
  [[nodiscard]] bool has_hung_up() const;

  // The descriptor is ready; exactly one call per loop turn. `broken`: poll reported an error on
  // it.
  virtual void on_ready(bool readable, bool writable, bool broken) = 0;
  // The same for watch()'s hang_up, instead; it comes again as long as that is watched.
  virtual void on_hung_up() {}

 private:
  IoResult write_blocks(BlockPool& pool, ByteChain& chain);
  static void on_poll(uv_poll_t* handle, int status, int events);
  static void on_closed(uv_handle_t* handle);

  uv_poll_t poll_{};
  int descriptor_ = -1;
  int events_ = 0;
};

}  // namespace proxy::net
