#include "proxy/control/admin_server.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sys/socket.h>

#include <optional>
#include <string_view>
#include <utility>

#include "admin/api.h"
#include "proxy/resp/reply_writer.h"
#include "proxy/resp/request_parser.h"
#include "slots/assert.h"

namespace proxy::control {

namespace {

using slots::Errc;
using slots::fail;
using slots::Status;

constexpr std::string_view kNoAuth =
    "NOAUTH log in first: AUTH with listen.admin_password (slotctl: $SLOTPROXY_ADMIN_PASSWORD or "
    "--admin-password-file)";
constexpr std::string_view kWrongPass =
    "WRONGPASS this is not an admin password; they stand in listen.admin_password and "
    "listen.admin_users of the configuration";
constexpr std::string_view kNoRoom =
    "-ERR all places for admin connections are taken; close one and try again\r\n";

// Digests have one length, so that comparing them tells nothing of the password's.
bool is_same_secret(std::string_view left, std::string_view right) {
  std::array<unsigned char, 32> digests[2];
  unsigned length = 0;
  const bool hashed = EVP_Digest(left.data(), left.size(), digests[0].data(), &length, EVP_sha256(),
                                 nullptr) == 1 &&
                      EVP_Digest(right.data(), right.size(), digests[1].data(), &length,
                                 EVP_sha256(), nullptr) == 1;
  return hashed && CRYPTO_memcmp(digests[0].data(), digests[1].data(), digests[0].size()) == 0;
}

std::string encode(const AdminReply& reply) {
  std::string bytes;
  resp::ReplyWriter writer(bytes, /*resp3=*/false);
  switch (reply.kind) {
    case AdminReply::Kind::Simple:
      writer.simple(reply.text);
      break;
    case AdminReply::Kind::Body:
      writer.bulk(reply.text);
      break;
    case AdminReply::Kind::Error:
      writer.error(reply.text);
      break;
  }
  return bytes;
}

AdminPeer peer_of(int descriptor, bool is_unix) {
  AdminPeer peer{.is_unix = is_unix};
  if (is_unix) {
    ucred credentials{};
    socklen_t length = sizeof(credentials);
    if (::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0) {
      peer.pid = credentials.pid;
      peer.uid = credentials.uid;
      peer.gid = credentials.gid;
    }
    return peer;
  }
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&storage), &length) == 0) {
    peer.address = net::SocketAddress{storage, length}.text();
  }
  return peer;
}

bool needs_login(std::string_view verb) {
  return verb != "PING" && verb != "HEALTH" && verb != "QUIT" && verb != "AUTH";
}

// A stream that is a Unix socket's or a TCP one.
union StreamHandle {
  uv_stream_t stream;
  uv_pipe_t pipe;
  uv_tcp_t tcp;

  int init(uv_loop_t* loop, bool is_unix) {
    return is_unix ? uv_pipe_init(loop, &pipe, 0) : uv_tcp_init(loop, &tcp);
  }
  [[nodiscard]] uv_handle_t* handle() { return reinterpret_cast<uv_handle_t*>(&stream); }
  [[nodiscard]] int descriptor() {
    uv_os_fd_t descriptor = -1;
    uv_fileno(handle(), &descriptor);
    return descriptor;
  }
};

}  // namespace

struct AdminServer::Listener {
  StreamHandle socket{};
};

struct AdminServer::Client {
  StreamHandle socket{};
  AdminServer* server = nullptr;  // Null once closed: late callbacks of libuv are nobody's.
  ClientId id = 0;
  AdminPeer peer;
  bool is_logged_in = false;
  bool is_answering = false;  // Between a request and its written answer; not read meanwhile.
  bool ends_after_answer = false;
  std::string input;  // Never reallocated while `frame` has views of it.
  resp::FrameState frame;
};

struct AdminServer::PendingWrite {
  uv_write_t request{};
  std::string bytes;
  Client* client = nullptr;
};

slots::Result<std::unique_ptr<AdminServer>> AdminServer::open(uv_loop_t* loop,
                                                              const conf::Address& address,
                                                              std::string password, AdminPort& port,
                                                              std::vector<conf::AdminUser> users) {
  if (!address.is_unix() && password.empty() && users.empty()) {
    return fail(Errc::InvalidArgument, "admin address " + address.text() +
                                           " is TCP and needs a password; set "
                                           "listen.admin_password, or a Unix socket path as "
                                           "listen.admin");
  }
  auto socket = AdminSocket::open(address);
  if (!socket) return std::unexpected(std::move(socket.error()));
  std::unique_ptr<AdminServer> server(new AdminServer(loop, std::move(*socket), port));
  server->set_passwords(std::move(password), std::move(users));
  if (Status listening = server->listen(); !listening) {
    return std::unexpected(std::move(listening.error()));
  }
  return server;
}

AdminServer::AdminServer(uv_loop_t* loop, AdminSocket socket, AdminPort& port)
    : loop_(loop), socket_(std::move(socket)), commands_(port) {}

Status AdminServer::listen() {
  const bool is_unix = socket_.address().is_unix();
  listener_ = new Listener;
  StreamHandle& handle = listener_->socket;
  handle.init(loop_, is_unix);
  handle.stream.data = this;
  int code = is_unix ? uv_pipe_open(&handle.pipe, socket_.descriptor())
                     : uv_tcp_open(&handle.tcp, socket_.descriptor());
  if (code == 0) {
    (void)socket_.release();
    code = uv_listen(&handle.stream, static_cast<int>(kClientsMax),
                     [](uv_stream_t* stream, int status) {
                       if (status == 0) static_cast<AdminServer*>(stream->data)->on_connection();
                     });
  }
  if (code == 0) return {};
  return fail(Errc::Io, "listening on " + address().text() + ": " + uv_strerror(code));
}

AdminServer::~AdminServer() {
  *life_ = false;
  while (!clients_.empty()) close(*clients_.begin()->second);
  if (listener_ == nullptr) return;
  uv_close(listener_->socket.handle(), [](uv_handle_t* handle) {
    delete reinterpret_cast<Listener*>(handle);  // The handle is its first member.
  });
}

void AdminServer::set_passwords(std::string password, std::vector<conf::AdminUser> users) {
  if (password.empty() && users.empty() && !address().is_unix()) return;
  password_ = std::move(password);
  users_ = std::move(users);
}

void AdminServer::on_connection() {
  const bool is_unix = address().is_unix();
  auto* client = new Client;
  client->socket.init(loop_, is_unix);
  client->socket.stream.data = client;
  client->server = this;
  client->id = next_id_++;
  if (uv_accept(&listener_->socket.stream, &client->socket.stream) != 0) {
    clients_.emplace(client->id, client);
    return close(*client);
  }
  const bool has_room = make_room();
  clients_.emplace(client->id, client);
  if (!has_room) {
    uv_buf_t text = uv_buf_init(const_cast<char*>(kNoRoom.data()), kNoRoom.size());
    (void)uv_try_write(&client->socket.stream, &text, 1);
    return close(*client);
  }
  client->peer = peer_of(client->socket.descriptor(), is_unix);
  client->is_logged_in = is_unix;
  process(*client);
}

bool AdminServer::make_room() {
  if (clients_.size() < kClientsMax) return true;
  for (const auto& [id, client] : clients_) {
    if (client->is_logged_in) continue;
    close(*client);
    return true;
  }
  return false;
}

void AdminServer::on_read(Client& client, const char* bytes, std::size_t count) {
  // Enough for a whole request and what came with its end, so that views of it stay good.
  client.input.reserve(admin::kRequestBytesMax + read_buffer_.size());
  client.input.append(bytes, count);
  process(client);
}

// Answers what lies in the input, then reads on.
void AdminServer::process(Client& client) {
  uv_read_stop(&client.socket.stream);
  std::vector<std::string> words;
  if (next_request(client, words)) return run(client, words);
  if (client.server == nullptr || client.is_answering) return;
  if (client.input.empty()) std::string().swap(client.input);
  uv_read_start(
      &client.socket.stream,
      [](uv_handle_t* handle, std::size_t, uv_buf_t* buffer) {
        AdminServer* server = static_cast<Client*>(handle->data)->server;
        *buffer = uv_buf_init(server->read_buffer_.data(),
                              static_cast<unsigned>(server->read_buffer_.size()));
      },
      [](uv_stream_t* stream, ssize_t count, const uv_buf_t* buffer) {
        auto* reader = static_cast<Client*>(stream->data);
        if (reader->server == nullptr || count == 0) return;
        if (count < 0) return reader->server->close(*reader);
        reader->server->on_read(*reader, buffer->base, static_cast<std::size_t>(count));
      });
}

// Takes the next request off the input; false when there is none yet, or when the connection was
// refused for what it sent.
bool AdminServer::next_request(Client& client, std::vector<std::string>& words) {
  std::string& input = client.input;
  while (words.empty()) {
    if (input.empty()) return false;
    std::size_t consumed = 0;
    std::string mistake;
    resp::FrameOutcome outcome{};
    if (input.front() == '*') {
      outcome = resp::parse_request(client.frame, input.data(), input.size(), {});
      consumed = client.frame.position;
      mistake = client.frame.error;
      if (outcome == resp::FrameOutcome::Complete) {
        words.assign(client.frame.args.begin(), client.frame.args.end());
        client.frame.clear();
      }
    } else {
      outcome = resp::parse_inline(input.data(), input.size(), words, consumed, mistake);
    }
    if (outcome == resp::FrameOutcome::Invalid) {
      refuse(client, "ERR " + mistake + "; send RESP or a line of words");
      return false;
    }
    const bool is_complete = outcome == resp::FrameOutcome::Complete;
    if ((is_complete ? consumed : input.size() + 1) > admin::kRequestBytesMax) {
      refuse(client, "ERR the request is larger than 64 KB; ask about less at once");
      return false;
    }
    if (!is_complete) return false;
    input.erase(0, consumed);
  }
  return true;
}

void AdminServer::run(Client& client, const std::vector<std::string>& words) {
  client.is_answering = true;
  const std::string verb = verb_of(words.front());
  if (verb == "QUIT") {
    client.ends_after_answer = true;
    return answer(client, AdminReply::simple("OK"));
  }
  if (verb == "AUTH") return log_in(client, words);
  if (!client.is_logged_in && needs_login(verb)) {
    return answer(client, AdminReply::error(std::string(kNoAuth)));
  }
  commands_.run(words, client.peer, [this, life = life_, id = client.id](const AdminReply& reply) {
    if (!*life) return;
    const auto found = clients_.find(id);
    if (found != clients_.end()) answer(*found->second, reply);
  });
}

void AdminServer::log_in(Client& client, const std::vector<std::string>& words) {
  // "AUTH default PASSWORD" is what redis-cli sends with a user.
  if (words.size() != 2 && words.size() != 3) {
    return answer(client, AdminReply::error("ERR AUTH takes the admin password: AUTH PASSWORD"));
  }
  const std::string name = words.size() == 3 && words[1] != "default" ? words[1] : "";
  if (password_.empty() && users_.empty()) {
    return answer(client, AdminReply::error("ERR no admin password is set and none is needed "
                                            "here; go on without AUTH"));
  }
  std::optional<std::string> user;
  if (name.empty() && !password_.empty() && is_same_secret(words.back(), password_)) user = "";
  for (const conf::AdminUser& known : users_) {
    const bool is_meant = name.empty() || name == known.name;
    if (is_meant && is_same_secret(words.back(), known.password)) user = known.name;
  }
  if (!user) return answer(client, AdminReply::error(std::string(kWrongPass)));
  client.is_logged_in = true;
  client.peer.user = *std::move(user);
  answer(client, AdminReply::simple("OK"));
}

void AdminServer::answer(Client& client, const AdminReply& reply) {
  auto* write = new PendingWrite;
  write->bytes = encode(reply);
  write->client = &client;
  write->request.data = write;
  const uv_buf_t bytes =
      uv_buf_init(write->bytes.data(), static_cast<unsigned>(write->bytes.size()));
  const int code = uv_write(
      &write->request, &client.socket.stream, &bytes, 1, [](uv_write_t* request, int status) {
        const std::unique_ptr<PendingWrite> written(static_cast<PendingWrite*>(request->data));
        Client& reader = *written->client;  // Outlives its writes, closed or not.
        if (reader.server == nullptr) return;
        if (status != 0 || reader.ends_after_answer) return reader.server->close(reader);
        reader.is_answering = false;
        reader.server->process(reader);
      });
  if (code == 0) return;
  delete write;
  close(client);
}

void AdminServer::refuse(Client& client, std::string text) {
  client.is_answering = true;
  client.ends_after_answer = true;
  answer(client, AdminReply::error(std::move(text)));
}

void AdminServer::close(Client& client) {
  clients_.erase(client.id);
  client.server = nullptr;
  uv_close(client.socket.handle(),
           [](uv_handle_t* handle) { delete static_cast<Client*>(handle->data); });
}

}  // namespace proxy::control
