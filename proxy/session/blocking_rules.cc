#include "proxy/session/blocking_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "proxy/resp/arguments.h"
#include "proxy/resp/command_table.h"
#include "proxy/resp/key_finder.h"
#include "proxy/resp/reply_writer.h"

namespace proxy::session {

namespace {

using resp::CommandId;

enum class TimeUnit : std::uint8_t { Seconds, Milliseconds };

struct TimeArgument {
  std::size_t place = 0;  // 0: there is none.
  TimeUnit unit = TimeUnit::Seconds;
};

TimeArgument time_argument(const resp::CommandSpec& spec, resp::Args args) {
  switch (spec.id) {
    case CommandId::Blmpop:
    case CommandId::Bzmpop:
      return {1, TimeUnit::Seconds};
    case CommandId::Blmove:
    case CommandId::Blpop:
    case CommandId::Brpop:
    case CommandId::Brpoplpush:
    case CommandId::Bzpopmax:
    case CommandId::Bzpopmin:
      return {args.size() - 1, TimeUnit::Seconds};
    case CommandId::Wait:
      return {2, TimeUnit::Milliseconds};
    case CommandId::Xread:
    case CommandId::Xreadgroup:
      if (const std::size_t block = resp::block_option(args); block > 0)
        return {block + 1, TimeUnit::Milliseconds};
      return {};
    default:
      return {};
  }
}

}  // namespace

std::optional<std::uint64_t> blocking_time(const resp::CommandSpec& spec, resp::Args args) {
  const TimeArgument time = time_argument(spec, args);
  if (time.place == 0 || time.place >= args.size()) return std::nullopt;
  if (time.unit == TimeUnit::Milliseconds) {
    const auto value = resp::integer_of(args[time.place]);
    return value && *value >= 0 ? std::optional<std::uint64_t>(*value) : std::nullopt;
  }
  const std::string text(args[time.place]);
  char* end = nullptr;
  const double milliseconds = std::ceil(std::strtod(text.c_str(), &end) * 1000);
  constexpr double kMost = 9e18;
  if (text.empty() || *end != '\0' || !(milliseconds >= 0 && milliseconds < kMost))
    return std::nullopt;
  return static_cast<std::uint64_t>(milliseconds);
}

std::vector<IdOfNow> ids_of_now(const resp::CommandSpec& spec, resp::Args args) {
  std::vector<IdOfNow> found;
  std::vector<std::uint32_t> streams;
  if (spec.id != CommandId::Xread || !resp::find_keys(spec, args, streams)) return found;
  for (const std::uint32_t stream : streams) {
    const std::size_t id = stream + streams.size();
    if (args[id] == "$") found.push_back({stream, id});
  }
  return found;
}

std::optional<std::string> last_id_in(std::string_view xinfo_reply) {
  constexpr std::string_view kField = "\r\nlast-generated-id\r\n$";
  std::size_t at = xinfo_reply.find(kField);
  if (at == std::string_view::npos) {
    if (xinfo_reply.starts_with("-ERR no such key")) return "0-0";
    return std::nullopt;
  }
  at = xinfo_reply.find("\r\n", at + kField.size());
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view id = xinfo_reply.substr(at + 2);
  return std::string(id.substr(0, id.find('\r')));
}

std::string with_ids(resp::Args args, const std::vector<IdOfNow>& ids_of_now,
                     const std::vector<std::string>& ids) {
  std::string request;
  resp::append_array_header(request, args.size());
  for (std::size_t i = 0; i < args.size(); ++i) {
    const auto place = std::ranges::find(ids_of_now, i, &IdOfNow::id);
    resp::append_bulk(request, place == ids_of_now.end()
                                   ? args[i]
                                   : ids[static_cast<std::size_t>(place - ids_of_now.begin())]);
  }
  return request;
}

std::string with_time(const resp::CommandSpec& spec, resp::Args args, std::uint64_t time_ms) {
  const TimeArgument time = time_argument(spec, args);
  std::string request;
  resp::append_array_header(request, args.size());
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (i != time.place) {
      resp::append_bulk(request, args[i]);
    } else if (time.unit == TimeUnit::Milliseconds) {
      resp::append_bulk(request, fmt::to_string(time_ms));
    } else {
      resp::append_bulk(request, fmt::format("{}.{:03}", time_ms / 1000, time_ms % 1000));
    }
  }
  return request;
}

}  // namespace proxy::session
