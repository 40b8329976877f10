#include "proxy/net/socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "slots/assert.h"

namespace proxy::net {

namespace {

IoStatus status_of_error() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? IoStatus::WouldBlock
                                                                   : IoStatus::Closed;
}

// recv() and send() of the C library are cancellation points: with several threads each call comes
// with two atomic operations, which cost more than the rest of its way into the kernel. Nobody
// cancels threads here.
ssize_t receive(int descriptor, char* bytes, std::size_t capacity) {
  return ::syscall(SYS_recvfrom, descriptor, bytes, capacity, 0, nullptr, nullptr);
}

ssize_t send(int descriptor, const char* bytes, std::size_t count) {
  return ::syscall(SYS_sendto, descriptor, bytes, count, MSG_NOSIGNAL, nullptr, 0);
}

}  // namespace

void Socket::open(uv_loop_t* loop, int descriptor) {
  SP_ASSERT(descriptor_ < 0);
  int result = uv_poll_init(loop, &poll_, descriptor);
  SP_ASSERT(result == 0);
  poll_.data = this;
  descriptor_ = descriptor;
}

void Socket::close(std::unique_ptr<Socket> self) { ::close(release(std::move(self))); }

int Socket::release(std::unique_ptr<Socket> self) {
  SP_ASSERT(self.get() == this && is_open());
  uv_close(reinterpret_cast<uv_handle_t*>(&poll_),
           on_closed);  // Stops polling before the descriptor goes.
  poll_.data = self.release();
  return std::exchange(descriptor_, -1);
}

void Socket::on_closed(uv_handle_t* handle) { delete static_cast<Socket*>(handle->data); }

void Socket::watch(bool readable, bool writable, bool hang_up) {
  int events =
      (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0) | (hang_up ? UV_DISCONNECT : 0);
  if (events == events_) return;
  events_ = events;
  if (events == 0) {
    uv_poll_stop(&poll_);
  } else {
    uv_poll_start(&poll_, events, on_poll);
  }
}

void Socket::on_poll(uv_poll_t* handle, int status, int events) {
  auto* self = static_cast<Socket*>(handle->data);
  if (status < 0) [[unlikely]] {
    // libuv has stopped the handle: the next watch() must start it anew.
    self->events_ = 0;
    self->on_ready(false, false, true);
    return;
  }
  if ((events & UV_DISCONNECT) != 0) [[unlikely]]
    return self->on_hung_up();
  self->on_ready((events & UV_READABLE) != 0, (events & UV_WRITABLE) != 0, false);
}

bool Socket::has_hung_up() const {
  pollfd poll{descriptor_, POLLRDHUP, 0};
  return ::poll(&poll, 1, 0) > 0;
}

IoResult Socket::read_some(char* bytes, std::size_t capacity) {
  ssize_t count = receive(descriptor_, bytes, capacity);
  if (count > 0) [[likely]]
    return {IoStatus::Ok, static_cast<std::size_t>(count)};
  if (count == 0) return {IoStatus::Closed, 0};
  return {status_of_error(), 0};
}

IoResult Socket::write_some(const char* bytes, std::size_t count) {
  ssize_t written = send(descriptor_, bytes, count);
  if (written < 0) return {status_of_error(), 0};
  return {static_cast<std::size_t>(written) == count ? IoStatus::Ok : IoStatus::WouldBlock,
          static_cast<std::size_t>(written)};
}

IoResult Socket::write_chain(BlockPool& pool, ByteChain& chain) {
  if (std::string_view bytes = chain.only_block(); !bytes.empty()) [[likely]] {
    ssize_t written = send(descriptor_, bytes.data(), bytes.size());
    if (static_cast<std::size_t>(written) == bytes.size()) [[likely]] {
      chain.release_only_block(pool);
      return {IoStatus::Ok, static_cast<std::size_t>(written)};
    }
    if (written < 0) return {status_of_error(), 0};
    chain.consume(pool, static_cast<std::size_t>(written));
    return {IoStatus::WouldBlock, static_cast<std::size_t>(written)};
  }
  return write_blocks(pool, chain);
}

IoResult Socket::write_blocks(BlockPool& pool, ByteChain& chain) {
  constexpr int kVectorsMax = 64;
  iovec vectors[kVectorsMax];
  std::size_t total = 0;
  while (!chain.empty()) {
    int count = chain.gather(vectors, kVectorsMax);
    std::size_t offered = 0;
    for (int i = 0; i < count; ++i) offered += vectors[i].iov_len;
    msghdr message{};
    message.msg_iov = vectors;
    message.msg_iovlen = static_cast<std::size_t>(count);
    ssize_t written = ::sendmsg(descriptor_, &message, MSG_NOSIGNAL);
    if (written < 0) return {status_of_error(), total};
    chain.consume(pool, static_cast<std::size_t>(written));
    total += static_cast<std::size_t>(written);
    if (static_cast<std::size_t>(written) < offered) return {IoStatus::WouldBlock, total};
  }
  return {IoStatus::Ok, total};
}

}  // namespace proxy::net
