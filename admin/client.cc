#include "admin/client.h"

#include <fmt/format.h>
#include <hiredis/hiredis.h>

#include <cerrno>

namespace admin {

namespace {

using slots::Errc;
using slots::fail;
using slots::Result;
using Clock = std::chrono::steady_clock;

timeval to_timeval(AdminClient::Milliseconds duration) {
  timeval value{};
  value.tv_sec = duration.count() / 1000;
  value.tv_usec = (duration.count() % 1000) * 1000;
  return value;
}

struct ReplyFree {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using ReplyPointer = std::unique_ptr<redisReply, ReplyFree>;

std::unexpected<slots::Error> unreachable(const std::string& address, const std::string& why) {
  return fail(Errc::Unavailable,
              fmt::format("can't reach slotproxy at {}: {}. Is it running? Start it with slotproxy "
                          "--config FILE, or name its admin address with --admin",
                          address, why));
}

// hiredis's words, which are mostly the system's, in the manner of the other texts.
std::string reason_of(const redisContext& context) {
  std::string reason = context.errstr;
  if (!reason.empty() && reason[0] >= 'A' && reason[0] <= 'Z') {
    reason[0] = static_cast<char>(reason[0] + ('a' - 'A'));
  }
  return reason;
}

}  // namespace

void AdminClient::Closer::operator()(redisContext* context) const { redisFree(context); }

Result<AdminClient> AdminClient::open(const conf::Address& address, const std::string& password,
                                      Milliseconds timeout) {
  const timeval limit = to_timeval(timeout);
  redisContext* context = address.is_unix()
                              ? redisConnectUnixWithTimeout(address.path.c_str(), limit)
                              : redisConnectWithTimeout(address.host.c_str(), address.port, limit);
  if (context == nullptr) return fail(Errc::Unavailable, "out of memory");
  AdminClient client(context, address.text());
  if (context->err != 0) return unreachable(client.address_, reason_of(*context));
  if (!address.is_unix() && !password.empty()) {
    const Result<std::string> answer = client.call({"AUTH", password}, timeout);
    if (!answer) return std::unexpected(answer.error());
  }
  return client;
}

Result<std::string> AdminClient::call(const std::vector<std::string>& words, Milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  std::vector<const char*> arguments;
  std::vector<std::size_t> lengths;
  for (const std::string& word : words) {
    arguments.push_back(word.data());
    lengths.push_back(word.size());
  }
  redisContext& context = *context_;
  if (redisAppendCommandArgv(&context, static_cast<int>(words.size()), arguments.data(),
                             lengths.data()) != REDIS_OK) {
    return std::unexpected(failure());
  }
  void* answer = nullptr;
  int is_sent = 0;
  while (answer == nullptr) {
    // The socket's own timeout is for each read; what counts is the whole answer.
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now());
    if (left.count() <= 0 || redisSetTimeout(&context, to_timeval(left)) != REDIS_OK) {
      errno = EAGAIN;
      return std::unexpected(failure());
    }
    errno = 0;
    const int moved =
        is_sent == 0 ? redisBufferWrite(&context, &is_sent) : redisBufferRead(&context);
    if (moved != REDIS_OK) return std::unexpected(failure());
    if (is_sent != 0 && redisReaderGetReply(context.reader, &answer) != REDIS_OK) {
      return fail(Errc::Corrupt, fmt::format("what answers at {} does not speak the admin protocol "
                                             "of slotproxy; name its admin address with --admin",
                                             address_));
    }
  }
  const ReplyPointer reply(static_cast<redisReply*>(answer));
  std::string text(reply->str == nullptr ? "" : reply->str, static_cast<std::size_t>(reply->len));
  switch (reply->type) {
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
      return text;
    case REDIS_REPLY_ERROR:
      return fail(Errc::InvalidArgument, std::move(text));
    default:
      return fail(Errc::Corrupt, "the answer is of a kind that slotproxy never sends");
  }
}

slots::Error AdminClient::failure() const {
  if (errno == EAGAIN || errno == EWOULDBLOCK) {
    return {Errc::Timeout,
            fmt::format("slotproxy at {} did not answer in time; try again, or give it longer with "
                        "--timeout SECONDS",
                        address_)};
  }
  return {Errc::Unavailable,
          fmt::format("the connection to slotproxy at {} was lost: {}; see slotctl health",
                      address_, reason_of(*context_))};
}

}  // namespace admin
