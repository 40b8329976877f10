#include "proxy/mover/node_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "proxy/mover/dial.h"
#include "proxy/mover/info_field.h"
#include "proxy/mover/replies.h"
#include "proxy/resp/reply_cursor.h"
#include "proxy/resp/reply_writer.h"
#include "proxy/resp/reserved_key.h"
#include "slots/assert.h"

namespace proxy::mover {

namespace {

using slots::Errc;
using slots::fail;
using slots::Status;

constexpr std::size_t kReadBytesMin = 16U << 10;   // Room to offer to a read.
constexpr std::size_t kInputBytesKept = 1U << 20;  // A larger buffer goes back once it is empty.
constexpr std::size_t kOutputBytesKept = 1U << 20;

bool is_role_master(std::string_view reply) {
  resp::ReplyCursor role(reply);
  const auto header = role.read_header();
  return header && header->count > 0 && role.read_bulk() == "master";
}

int major_of(std::string_view version) {
  int major = 0;
  std::from_chars(version.data(), version.data() + version.size(), major);
  return major;
}

}  // namespace

std::string_view error_text(std::string_view reply) {
  return reply.substr(1, reply.find('\r') - 1);
}

NodeLink::NodeLink(LinkOptions options, LostClients& lost_clients)
    : options_(std::move(options)), lost_clients_(lost_clients) {}

// --- opening and closing

Status NodeLink::open(const NodeAccess& access) {
  close();
  node_ = access.name;
  greeting_deadline_ = Clock::now() + options_.connect_timeout;
  auto dialled = dial(access.address, greeting_deadline_, options_.interrupt);
  if (!dialled) return std::unexpected(std::move(dialled).error());
  socket_ = *dialled;
  Status status = greet(access);
  greeting_deadline_ = Clock::time_point::max();
  if (!status) close();
  return status;
}

void NodeLink::close() {
  if (socket_ < 0) return;
  // A command that was not answered may still run; one that was is over.
  if (replies_wanted_ > 0 && client_id_ != 0) {
    lost_clients_.add(node_, {.run_id = traits_.run_id, .id = client_id_});
  }
  ::close(std::exchange(socket_, -1));
  client_id_ = 0;
  database_ = 0;
  selects_.clear();
  traits_ = {};
  output_.clear();
  written_ = replies_wanted_ = 0;
  input_.reset();
  capacity_ = filled_ = parsed_ = begin_ = 0;
  parser_ = {};
  places_.clear();
  replies_.clear();
}

std::unexpected<slots::Error> NodeLink::lose(Errc code, const std::string& why) {
  close();
  return fail(code, fmt::format("node {}: {}", node_, why));
}

// Nothing is written to a server before it has been found to be the right one.
Status NodeLink::greet(const NodeAccess& access) {
  const bool has_login = !access.username.empty() || !access.password.empty();
  if (has_login && access.username.empty()) add({"AUTH", access.password});
  if (has_login && !access.username.empty()) add({"AUTH", access.username, access.password});
  add({"HELLO", "3"});
  add({"CLIENT", "SETNAME", options_.name_prefix + options_.incarnation});
  add({"GET", resp::kIdentityKey});
  add({"ROLE"});
  add({"INFO", "memory"});
  add({"INFO", "server"});
  add({"INFO", "keyspace"});
  add({"CLIENT", "ID"});
  add({"CLIENT", "LIST"});
  auto replies = exchange();
  if (!replies) return std::unexpected(std::move(replies).error());
  for (const std::string_view reply : *replies) {
    if (is_error(reply)) {
      return fail(Errc::Unavailable, fmt::format("node {} says: {}", node_, error_text(reply)));
    }
  }
  if (auto status = take_greeting(access, replies->last(8)); !status) return status;
  if (auto status = end_others(std::string(bulk_of(replies->back()))); !status) return status;
  return start_feed();
}

Status NodeLink::take_greeting(const NodeAccess& access, Replies replies) {
  const std::string_view identity = bulk_of(replies[1]);
  if (identity != access.identity) {
    return fail(Errc::Unavailable,
                fmt::format("node {}: its identity is \"{}\", and should be \"{}\"", node_,
                            identity, access.identity));
  }
  if (!is_role_master(replies[2])) {
    return fail(Errc::Unavailable, fmt::format("node {} is not a primary", node_));
  }
  const std::string_view memory = bulk_of(replies[3]);
  const std::string_view server = bulk_of(replies[4]);
  traits_.run_id = info_field(server, "run_id");
  traits_.knows_expire_time = major_of(info_field(server, "redis_version")) >= 7;
  traits_.may_evict_any_key = info_field(memory, "maxmemory") != "0" &&
                              info_field(memory, "maxmemory_policy").starts_with("allkeys-");
  traits_.databases = databases_in(bulk_of(replies[5]));
  const auto id = resp::ReplyCursor(replies[6]).read_integer();
  if (!id || *id <= 0 || traits_.run_id.empty()) {
    return fail(Errc::Unavailable,
                fmt::format("node {} does not answer as a redis-server does", node_));
  }
  client_id_ = static_cast<std::uint64_t>(*id);
  return {};
}

// Ends what earlier links of this process left at the server, and what earlier processes did.
Status NodeLink::end_others(std::string_view client_list) {
  std::vector<std::string> ids;
  std::vector<LostClient> lost = lost_clients_.of(node_);
  for (const LostClient& client : lost) {
    if (client.run_id == traits_.run_id) ids.push_back(fmt::format("{}", client.id));
  }
  while (!client_list.empty()) {
    const std::string_view line = client_list.substr(0, client_list.find('\n'));
    client_list.remove_prefix(std::min(line.size() + 1, client_list.size()));
    const std::size_t at = line.find(" name=");
    if (!line.starts_with("id=") || at == std::string_view::npos) continue;
    std::string_view name = line.substr(at + 6);
    name = name.substr(0, name.find(' '));
    if (!name.starts_with(options_.name_prefix)) continue;
    if (name.substr(options_.name_prefix.size()) == options_.incarnation) continue;
    ids.emplace_back(line.substr(3, line.find(' ') - 3));
  }
  for (const std::string& id : ids) add({"CLIENT", "KILL", "ID", id});
  auto replies = exchange();
  if (!replies) return std::unexpected(std::move(replies).error());
  for (const std::string_view reply : *replies) {
    // ":0" is an answer as good as ":1": it is not there any more.
    if (!reply.starts_with(':')) {
      return fail(Errc::Unavailable,
                  fmt::format("node {}: CLIENT KILL says: {}", node_, error_text(reply)));
    }
  }
  for (const LostClient& client : lost) lost_clients_.remove(node_, client);
  return {};
}

Status NodeLink::start_feed() {
  add({"CLIENT", "TRACKING", "ON", "BCAST", "NOLOOP"});
  // From 7.0 on, and where the user may: it keeps the server from dropping this connection first
  // when clients use too much memory (maxmemory-clients).
  add({"CLIENT", "NO-EVICT", "ON"});
  auto replies = exchange();
  if (!replies) return std::unexpected(std::move(replies).error());
  const std::string_view tracking = replies->front();
  if (tracking == "+OK\r\n") return {};
  return fail(Errc::Unavailable,
              fmt::format("node {}: CLIENT TRACKING says: {}", node_, error_text(tracking)));
}

// --- exchanging

void NodeLink::select(Database database) {
  if (database == database_) return;
  database_ = database;
  selects_.push_back(replies_wanted_);
  add({"SELECT", fmt::format("{}", database)});
}

void NodeLink::add(std::initializer_list<std::string_view> command) {
  add(std::span(command.begin(), command.size()));
}

void NodeLink::add(std::span<const std::string_view> command) {
  resp::append_array_header(output_, command.size());
  for (const std::string_view argument : command) resp::append_bulk(output_, argument);
  ++replies_wanted_;
}

slots::Status NodeLink::send() {
  if (!is_open()) return fail(Errc::Unavailable, "not connected");
  return write_some();
}

slots::Result<NodeLink::Replies> NodeLink::exchange() {
  if (!is_open()) return fail(Errc::Unavailable, "not connected");
  forget_replies();
  if (auto status = write_some(); !status) return std::unexpected(std::move(status).error());
  const auto answered = [this, since = bytes_ - pushed_bytes_] {
    return static_cast<std::int64_t>(bytes_ - pushed_bytes_ - since);
  };
  std::int64_t seen = 0;
  Clock::time_point silent_at = Clock::now() + options_.silence;
  while (replies_wanted_ > 0) {
    bool timed_out = false;
    const short events = static_cast<short>(POLLIN | (output_.empty() ? 0 : POLLOUT));
    Status status = await(events, std::min(silent_at, greeting_deadline_), timed_out);
    if (status && !timed_out) status = write_some();
    if (status && !timed_out) status = read_some();
    if (!status) return std::unexpected(std::move(status).error());
    if (timed_out) return lose(Errc::Timeout, "does not answer");
    if (answered() > seen) silent_at = Clock::now() + options_.silence;
    seen = std::max(seen, answered());
  }
  for (const auto& [begin, size] : places_) replies_.emplace_back(input_.get() + begin, size);
  for (std::size_t done = 0; done < selects_.size(); ++done) {
    const auto selected = replies_.begin() + static_cast<std::ptrdiff_t>(selects_[done] - done);
    if (is_error(*selected)) {
      return lose(Errc::Unavailable, fmt::format("SELECT says: {}", error_text(*selected)));
    }
    replies_.erase(selected);
  }
  selects_.clear();
  return Replies(replies_);
}

Status NodeLink::read_feed() {
  if (!is_open()) return {};
  forget_replies();
  return read_some();
}

void NodeLink::set_alarm(Clock::time_point at, std::function<void()> ring) {
  alarm_at_ = at;
  alarm_ = std::move(ring);
}

// Returns when the socket is ready, or at the deadline.
Status NodeLink::await(short events, Clock::time_point deadline, bool& timed_out) {
  for (;;) {
    const auto until = alarm_ != nullptr ? std::min(deadline, alarm_at_) : deadline;
    std::array<pollfd, 2> polled = {pollfd{socket_, events, 0},
                                    pollfd{options_.interrupt, POLLIN, 0}};
    const int ready = ::poll(polled.data(), polled.size(), milliseconds_until(until));
    if (ready < 0 && errno != EINTR) return lose(Errc::Unavailable, std::strerror(errno));
    if (ready > 0 && polled[1].revents != 0) return lose(Errc::Unavailable, "interrupted");
    const auto now = Clock::now();
    if (alarm_ != nullptr && now >= alarm_at_) std::exchange(alarm_, nullptr)();
    if (ready > 0) return {};
    if (now < deadline) continue;
    timed_out = true;
    return {};
  }
}

Status NodeLink::write_some() {
  while (written_ < output_.size()) {
    const ssize_t count = ::send(socket_, output_.data() + written_, output_.size() - written_,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    if (count < 0) return lose(Errc::Unavailable, std::strerror(errno));
    written_ += static_cast<std::size_t>(count);
    bytes_ += static_cast<std::uint64_t>(count);
  }
  written_ = 0;
  output_.clear();
  if (output_.capacity() > kOutputBytesKept) output_ = {};
  return {};
}

// Reads until the socket is empty or all that is awaited is there.
Status NodeLink::read_some() {
  for (;;) {
    reserve_input();
    const std::size_t room = capacity_ - filled_;
    const ssize_t count = ::recv(socket_, input_.get() + filled_, room, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    if (count < 0) return lose(Errc::Unavailable, std::strerror(errno));
    if (count == 0) return lose(Errc::Unavailable, "has closed the connection");
    filled_ += static_cast<std::size_t>(count);
    bytes_ += static_cast<std::uint64_t>(count);
    if (auto status = parse(); !status) return status;
    if (static_cast<std::size_t>(count) < room) return {};
  }
}

Status NodeLink::parse() {
  const char* input = input_.get();
  while (parsed_ < filled_) {
    const char* end = parser_.next(input + parsed_, input + filled_);
    if (parser_.failed()) return lose(Errc::Unavailable, "sends bytes that are no RESP");
    if (end == nullptr) {
      parsed_ = filled_;
      return {};
    }
    parsed_ = static_cast<std::size_t>(end - input);
    const std::size_t begin = std::exchange(begin_, parsed_);
    const std::string_view reply(input + begin, parsed_ - begin);
    if (parser_.type() == '>') {
      take_push(reply);
      pushed_bytes_ += reply.size();
    } else if (replies_wanted_ == 0) {
      return lose(Errc::Unavailable, "sends a reply that nobody asked for");
    } else {
      --replies_wanted_;
      places_.emplace_back(begin, reply.size());
    }
  }
  return {};
}

// ">2 invalidate [names]", or a null for every name.
void NodeLink::take_push(std::string_view push) {
  resp::ReplyCursor cursor(push);
  if (const auto header = cursor.read_header(); !header || header->count != 2) return;
  if (cursor.read_bulk() != "invalidate") return;
  const auto names = cursor.read_header();
  if (!names || names->count < 0) {
    notices_.all = true;
    return;
  }
  for (std::int64_t i = 0; i < names->count; ++i) {
    if (const auto name = cursor.read_bulk()) notices_.keys.emplace_back(*name);
  }
}

// Only what belongs to an unfinished reply (or push) stays.
void NodeLink::forget_replies() {
  places_.clear();
  replies_.clear();
  if (begin_ > 0) std::memmove(input_.get(), input_.get() + begin_, filled_ - begin_);
  filled_ -= begin_;
  parsed_ -= begin_;
  begin_ = 0;
  if (filled_ == 0 && capacity_ > kInputBytesKept) {
    input_.reset();
    capacity_ = 0;
  }
}

void NodeLink::reserve_input() {
  if (capacity_ - filled_ >= kReadBytesMin) return;
  const std::size_t larger = std::max(capacity_ * 2, 4 * kReadBytesMin);
  auto input = std::make_unique_for_overwrite<char[]>(larger);
  if (filled_ > 0) std::memcpy(input.get(), input_.get(), filled_);
  input_ = std::move(input);
  capacity_ = larger;
}

}  // namespace proxy::mover
