#include "proxy/control/node_client.h"

#include <fmt/format.h>
#include <hiredis/read.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include "slots/assert.h"

namespace proxy::control {

namespace {

using conf::Milliseconds;
using slots::Errc;
using slots::Error;

// How long an overdue call may still find its reply: the loop itself may have stood still (a
// stopped process, a suspended machine), and its timers run before its sockets are looked at.
constexpr Milliseconds kLastChance{5};

Error unavailable(std::string message) { return {Errc::Unavailable, std::move(message)}; }

std::string words_of(int status) {
  return status == UV_EOF ? "the node closed the connection" : uv_strerror(status);
}

// hiredis's reader builds Reply values in place: each task's object lies in its parent's elements,
// which do not grow while one of them is being read.
Reply* place_of(const redisReadTask* task) {
  if (task->parent == nullptr) return new Reply;
  return &static_cast<Reply*>(task->parent->obj)->elements.emplace_back();
}

void* create_string(const redisReadTask* task, char* text, std::size_t length) {
  Reply* reply = place_of(task);
  reply->type = task->type == REDIS_REPLY_ERROR    ? Reply::Type::Error
                : task->type == REDIS_REPLY_STATUS ? Reply::Type::Status
                                                   : Reply::Type::String;
  reply->text.assign(text, length);
  return reply;
}

void* create_array(const redisReadTask* task, int /*elements*/) {
  Reply* reply = place_of(task);
  reply->type = Reply::Type::Array;  // Grows as elements arrive: the announced length is only the
                                     // peer's word.
  return reply;
}

void* create_integer(const redisReadTask* task, long long value) {
  Reply* reply = place_of(task);
  reply->type = Reply::Type::Integer;
  reply->integer = value;
  return reply;
}

void* create_nil(const redisReadTask* task) { return place_of(task); }

void free_reply(void* reply) { delete static_cast<Reply*>(reply); }

redisReplyObjectFunctions reply_functions = {create_string, create_array, create_integer,
                                             create_nil, free_reply};

struct Write {
  uv_write_t request{};
  std::string bytes;
};

}  // namespace

// The socket's own memory: libuv may touch it until its close callback, long after the NodeClient
// has let go of it.
struct NodeClient::Socket {
  union {
    uv_tcp_t tcp;
    uv_pipe_t pipe;
  };
  uv_connect_t connect_request{};
  NodeClient* owner;  // Null once the NodeClient has let go.
  redisReader* reader = redisReaderCreateWithFunctions(&reply_functions);
  std::size_t unfinished_bytes = 0;  // Received since the last complete reply.
  std::array<char, 16384> read_buffer;

  explicit Socket(NodeClient* client) : tcp{}, owner(client) {}
  ~Socket() { redisReaderFree(reader); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  uv_stream_t* stream() { return reinterpret_cast<uv_stream_t*>(&tcp); }

  int connect(uv_loop_t* loop, const net::SocketAddress& address) {
    if (address.family() == AF_UNIX) {
      SP_ASSERT(uv_pipe_init(loop, &pipe, 0) == 0);
      pipe.data = this;
      uv_pipe_connect(&connect_request, &pipe, address.path().c_str(), on_connect);
      return 0;
    }
    SP_ASSERT(uv_tcp_init(loop, &tcp) == 0);
    tcp.data = this;
    uv_tcp_nodelay(&tcp, 1);
    return uv_tcp_connect(&connect_request, &tcp, address.get(), on_connect);
  }

  void let_go() {
    owner = nullptr;
    uv_close(reinterpret_cast<uv_handle_t*>(&tcp),
             [](uv_handle_t* handle) { delete static_cast<Socket*>(handle->data); });
  }

  static void on_connect(uv_connect_t* request, int status) {
    auto* self = static_cast<Socket*>(request->handle->data);
    if (self->owner != nullptr) self->owner->on_connect_result(status);
  }

  int start_reading() {
    return uv_read_start(
        stream(),
        [](uv_handle_t* handle, std::size_t, uv_buf_t* buffer) {
          auto* self = static_cast<Socket*>(handle->data);
          *buffer = uv_buf_init(self->read_buffer.data(),
                                static_cast<unsigned>(self->read_buffer.size()));
        },
        [](uv_stream_t* handle, ssize_t count, const uv_buf_t* buffer) {
          auto* self = static_cast<Socket*>(handle->data);
          if (self->owner == nullptr || count == 0) return;
          if (count < 0) return self->owner->lose(unavailable(words_of(static_cast<int>(count))));
          self->on_bytes(buffer->base, static_cast<std::size_t>(count));
        });
  }

  void on_bytes(const char* bytes, std::size_t count) {
    unfinished_bytes += count;
    if (unfinished_bytes > kReplyBytesMax) {
      return owner->lose(
          unavailable(fmt::format("the node sent a reply of more than {} bytes", kReplyBytesMax)));
    }
    redisReaderFeed(reader, bytes, count);
    while (owner != nullptr) {
      void* object = nullptr;
      if (redisReaderGetReply(reader, &object) != REDIS_OK) {
        return owner->lose(
            unavailable(fmt::format("the node does not speak RESP2: {}", reader->errstr)));
      }
      if (object == nullptr) return;
      const std::unique_ptr<Reply> reply(static_cast<Reply*>(object));
      unfinished_bytes = reader->len - reader->pos;
      owner->deliver(std::move(*reply));
    }
  }

  void write(std::string bytes) {
    auto* write = new Write;
    write->bytes = std::move(bytes);
    write->request.data = write;
    const uv_buf_t buffer =
        uv_buf_init(write->bytes.data(), static_cast<unsigned>(write->bytes.size()));
    // A failed write needs no care of its own: the connection is broken then, and reading says so.
    const int status =
        uv_write(&write->request, stream(), &buffer, 1,
                 [](uv_write_t* request, int) { delete static_cast<Write*>(request->data); });
    if (status != 0) delete write;
  }
};

NodeClient::NodeClient(uv_loop_t* loop)
    : loop_(loop), resolver_(loop), connect_timer_(loop), call_timer_(loop), refusal_timer_(loop) {}

NodeClient::~NodeClient() { close(); }

void NodeClient::close() {
  *life_ = false;
  life_ = std::make_shared<bool>(true);
  resolver_.cancel();
  connect_timer_.stop();
  refusal_timer_.stop();
  drop_socket();
  // Moved out first: a completion's captures may own this very object.
  const auto connect_done = std::exchange(connect_done_, nullptr);
  const auto pending = std::exchange(pending_, {});
  const auto refusals = std::exchange(refusals_, {});
}

void NodeClient::drop_socket() {
  call_timer_.stop();
  connected_ = false;
  last_chance_ = false;
  if (socket_ != nullptr) std::exchange(socket_, nullptr)->let_go();
}

void NodeClient::connect(const conf::Address& address, Milliseconds timeout, ConnectDone done) {
  close();
  connect_done_ = std::move(done);
  connect_error_ = {Errc::Timeout, fmt::format("no connection within {} ms", timeout.count())};
  connect_deadline_ms_ = uv_now(loop_) + static_cast<std::uint64_t>(timeout.count());
  connect_timer_.start(timeout,
                       [this, error = connect_error_] { end_connect(std::unexpected(error)); });
  resolver_.resolve(address, [this](slots::Result<std::vector<net::SocketAddress>> addresses) {
    if (!addresses) return end_connect(std::unexpected(std::move(addresses.error())));
    addresses_ = std::move(*addresses);
    next_address_ = 0;
    try_next_address();
  });
}

void NodeClient::try_next_address() {
  drop_socket();
  const std::size_t left = addresses_.size() - next_address_;
  if (left == 0) return end_connect(std::unexpected(connect_error_));
  const net::SocketAddress& address = addresses_[next_address_++];
  socket_ = new Socket(this);
  const int status = socket_->connect(loop_, address);
  if (status != 0) {
    connect_error_ = unavailable(words_of(status));
    return try_next_address();
  }
  if (left == 1) return;  // The timer of the whole attempt is this one's as well.
  // An address that swallows packets must not use up the time of those behind it.
  const std::uint64_t now = uv_now(loop_);
  const std::uint64_t time_left = connect_deadline_ms_ > now ? connect_deadline_ms_ - now : 0;
  connect_timer_.start(Milliseconds(time_left / left), [this] {
    const std::uint64_t then = uv_now(loop_);
    const Milliseconds rest(connect_deadline_ms_ > then ? connect_deadline_ms_ - then : 0);
    connect_timer_.start(rest,
                         [this, error = connect_error_] { end_connect(std::unexpected(error)); });
    try_next_address();
  });
}

void NodeClient::on_connect_result(int status) {
  if (status == 0) status = socket_->start_reading();
  if (status == 0) {
    connected_ = true;
    return end_connect({});
  }
  connect_error_ = unavailable(words_of(status));
  try_next_address();
}

void NodeClient::end_connect(slots::Status status) {
  connect_timer_.stop();
  resolver_.cancel();
  if (!status) drop_socket();
  std::exchange(connect_done_, nullptr)(std::move(status));
}

void NodeClient::call(const Command& command, Milliseconds timeout, CallDone done) {
  SP_ASSERT(!command.empty());
  if (!is_open()) {
    refusals_.push_back({std::move(done), unavailable("not connected")});
    refusal_timer_.start(Milliseconds{0}, [this] { tell_refusals(); });
    return;
  }
  PendingCall call{std::move(done), command.front(), timeout, 0};
  if (timeout.count() > 0) {
    uv_update_time(loop_);
    call.deadline_ms = uv_now(loop_) + static_cast<std::uint64_t>(timeout.count());
  }
  pending_.push_back(std::move(call));
  socket_->write(encode_request(command));
  if (timeout.count() > 0 && !last_chance_) arm_call_timer();
}

void NodeClient::tell_refusals() {
  const auto life = life_;
  for (Refusal& refusal : std::exchange(refusals_, {})) {
    if (!*life) return;
    refusal.done(std::unexpected(std::move(refusal.error)));
  }
}

void NodeClient::deliver(Reply reply) {
  if (pending_.empty()) {
    // A server that has no room for clients says so unasked and hangs up.
    return lose(
        unavailable(reply.is_error() ? reply.text : "the node sent a reply that nobody asked for"));
  }
  PendingCall call = std::move(pending_.front());
  pending_.pop_front();
  last_chance_ = false;
  arm_call_timer();
  call.done(std::move(reply));
}

void NodeClient::lose(Error error) {
  drop_socket();
  const auto life = life_;
  const Lost lost = lost_;
  for (PendingCall& call : std::exchange(pending_, {})) {
    call.done(std::unexpected(error));
    if (!*life) return;
  }
  if (lost) lost(std::move(error));
}

void NodeClient::arm_call_timer() {
  std::uint64_t earliest = 0;
  for (const PendingCall& call : pending_) {
    if (call.deadline_ms != 0 && (earliest == 0 || call.deadline_ms < earliest))
      earliest = call.deadline_ms;
  }
  if (earliest == 0) return call_timer_.stop();
  const std::uint64_t now = uv_now(loop_);
  call_timer_.start(Milliseconds(earliest > now ? earliest - now : 0), [this] { on_call_timer(); });
}

void NodeClient::on_call_timer() {
  const std::uint64_t now = uv_now(loop_);
  const auto overdue = std::ranges::find_if(pending_, [now](const PendingCall& call) {
    return call.deadline_ms != 0 && call.deadline_ms <= now;
  });
  if (overdue == pending_.end()) {
    last_chance_ = false;
    return arm_call_timer();
  }
  if (!last_chance_) {
    last_chance_ = true;
    return call_timer_.start(kLastChance, [this] { on_call_timer(); });
  }
  lose({Errc::Timeout,
        fmt::format("no answer to {} within {} ms", overdue->name, overdue->timeout.count())});
}

void NodeClient::log_in(const std::string& username, const std::string& password,
                        const std::string& client_name, Milliseconds timeout, ConnectDone done) {
  std::vector<Command> commands;
  if (!username.empty() || !password.empty()) {
    commands.push_back(username.empty() ? Command{"AUTH", password}
                                        : Command{"AUTH", username, password});
  }
  if (!client_name.empty()) commands.push_back({"CLIENT", "SETNAME", client_name});
  if (commands.empty()) commands.push_back({"PING"});  // Also asks whether a password is wanted.

  // Sent together; the last reply ends it, and so does the first refusal (close() then drops the
  // rest).
  const auto shared_done = std::make_shared<ConnectDone>(std::move(done));
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const bool is_last = i + 1 == commands.size();
    call(commands[i], timeout, [this, shared_done, is_last](slots::Result<Reply> reply) {
      if (*shared_done == nullptr) return;
      if (!reply)
        return std::exchange(*shared_done, nullptr)(std::unexpected(std::move(reply.error())));
      if (reply->is_error()) {
        close();
        return std::exchange(*shared_done,
                             nullptr)(slots::fail(Errc::InvalidArgument, reply->text));
      }
      if (is_last) std::exchange(*shared_done, nullptr)({});
    });
  }
}

}  // namespace proxy::control
