#include "proxy/pubsub/feed_connection.h"

#include <utility>

namespace proxy::pubsub {

namespace {

constexpr std::size_t kBegunKept = 64 * 1024;  // Of begun_'s memory, between two values.

}  // namespace

FeedConnection::FeedConnection(uv_loop_t* loop, FeedOwner& owner, std::span<char> buffer)
    : loop_(loop), owner_(owner), buffer_(buffer), connector_(loop), connect_timer_(loop) {}

void FeedConnection::connect(const conf::Address& address, conf::Milliseconds timeout) {
  connect_timer_.start(timeout, [this] { lose("no connection within timeouts.connect"); });
  connector_.connect(address, timeout, [this](slots::Result<int> descriptor) {
    if (!descriptor) return lose(descriptor.error().message);
    connect_timer_.stop();
    open(loop_, *descriptor);
    watch_now();
    owner_.on_open();
  });
}

void FeedConnection::send(std::string_view bytes) {
  if (is_over_ || !is_open()) return;
  const bool was_waiting = !out_.empty();
  out_.append(bytes);
  if (!was_waiting) write();
}

// A connection that broke shows it when it is read from.
void FeedConnection::write() {
  net::IoResult result = write_some(out_.data(), out_.size());
  out_.erase(0, result.count);
  if (out_.empty()) out_.shrink_to_fit();
  watch_now();
}

void FeedConnection::on_ready(bool readable, bool writable, bool broken) {
  if (broken) return lose("connection lost");
  if (writable && !out_.empty()) write();
  if (readable) read();
}

void FeedConnection::read() {
  if (!owner_.may_read()) {
    is_paused_ = true;
    return watch_now();
  }
  net::IoResult result = read_some(buffer_.data(), buffer_.size());
  if (result.status == net::IoStatus::WouldBlock) return;
  if (result.status == net::IoStatus::Closed) return lose("connection lost");
  const char* p = buffer_.data();
  const char* end = p + result.count;
  while (p < end) {
    const char* value_end = parser_.next(p, end);
    if (parser_.failed()) return lose("protocol error on the connection");
    if (value_end == nullptr) {
      begun_.append(p, end);
      if (begun_.size() > kValueMax) return lose("sent a value that is too large");
      break;
    }
    if (begun_.empty()) {
      owner_.on_value({p, value_end});
    } else {
      begun_.append(p, value_end);
      owner_.on_value(begun_);
      begun_.clear();
      if (begun_.capacity() > kBegunKept) begun_.shrink_to_fit();
    }
    if (is_over_) return;
    p = value_end;
  }
  owner_.on_read_end();
}

bool FeedConnection::resume_reading() {
  if (!is_paused_ || is_over_ || !is_open()) return false;
  is_paused_ = false;
  watch_now();
  return true;
}

void FeedConnection::lose(const std::string& why) {
  if (std::exchange(is_over_, true)) return;
  connect_timer_.stop();
  connector_.cancel();
  owner_.on_lost(why);
}

void FeedConnection::end(std::unique_ptr<FeedConnection> self,
                         const std::function<void(std::unique_ptr<net::Socket>)>& bury) {
  FeedConnection& ending = *self;
  ending.is_over_ = true;
  ending.connect_timer_.stop();
  ending.connector_.cancel();
  if (ending.is_open()) {
    ending.close(std::move(self));
  } else {
    bury(std::move(self));
  }
}

}  // namespace proxy::pubsub
