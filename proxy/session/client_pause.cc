#include "proxy/session/client_pause.h"

#include <algorithm>
#include <string>

#include "proxy/resp/arguments.h"
#include "proxy/session/fence_rules.h"

namespace proxy::session {

namespace {

using resp::CommandId;

constexpr std::uint64_t kModes = 4;
constexpr std::uint64_t kEndMax = UINT64_MAX / kModes;

// The next part of `text` up to `delimiter`, which is cut off with it.
std::string_view take_part(std::string_view& text, char delimiter) {
  const std::size_t end = std::min(text.find(delimiter), text.size());
  std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

std::unexpected<slots::Error> bad(std::string text) {
  return slots::fail(slots::Errc::InvalidArgument, std::move(text));
}

}  // namespace

PauseMode ClientPause::mode(std::uint64_t now_ms) const {
  const std::uint64_t word = word_.load(std::memory_order_relaxed);
  return now_ms < word / kModes ? static_cast<PauseMode>(word % kModes) : PauseMode::None;
}

void ClientPause::begin(PauseMode mode, std::uint64_t now_ms, std::uint64_t duration_ms) {
  const std::uint64_t wanted_end = now_ms + std::min(duration_ms, kEndMax - now_ms);
  std::uint64_t before = word_.load();
  std::uint64_t after = 0;
  do {
    const bool is_in_force = now_ms < before / kModes;
    if (!is_in_force) count_.fetch_add(1);
    const std::uint64_t end = is_in_force ? std::max(before / kModes, wanted_end) : wanted_end;
    const auto wanted_mode = static_cast<std::uint64_t>(mode);
    after = end * kModes + (is_in_force ? std::max(before % kModes, wanted_mode) : wanted_mode);
  } while (!word_.compare_exchange_weak(before, after));
}

void ClientPause::forget_if_over(std::uint64_t now_ms) {
  std::uint64_t word = word_.load();
  if (now_ms >= word / kModes) word_.compare_exchange_strong(word, 0);
}

slots::Result<PauseRequest> parse_pause(resp::Args args) {
  if (args.size() > 4) {
    return bad("ERR unknown subcommand or wrong number of arguments for '" + std::string(args[1]) +
               "'. Try CLIENT HELP.");
  }
  PauseRequest request;
  if (args.size() == 4) {
    if (!resp::is_word(args[3], "write") && !resp::is_word(args[3], "all"))
      return bad("ERR CLIENT PAUSE mode must be WRITE or ALL");
    if (resp::is_word(args[3], "write")) request.mode = PauseMode::Write;
  }
  const auto duration = resp::integer_of(args[2]);
  if (!duration) return bad("ERR timeout is not an integer or out of range");
  if (*duration < 0) return bad("ERR timeout is negative");
  request.duration_ms = static_cast<std::uint64_t>(*duration);
  return request;
}

MayWrite may_write(const resp::CommandSpec& spec, resp::Args args) {
  switch (spec.id) {
    case CommandId::Eval:
      return declares_no_writes(args[1]) ? MayWrite::No : MayWrite::Yes;
    case CommandId::Evalsha:
      return MayWrite::SaysScript;
    case CommandId::Fcall:
      return MayWrite::SaysFunction;
    case CommandId::Pfcount:
    case CommandId::Publish:
    case CommandId::Spublish:
      return MayWrite::Yes;
    default:
      return may_write_any_key(spec) ? MayWrite::Yes : MayWrite::No;
  }
}

bool declares_no_writes(std::string_view script) {
  std::string_view line = take_part(script, '\n');
  if (take_part(line, ' ') != "#!lua") return false;
  while (!line.empty()) {
    std::string_view option = take_part(line, ' ');
    if (!option.starts_with("flags=")) continue;
    option.remove_prefix(std::string_view("flags=").size());
    while (!option.empty()) {
      if (take_part(option, ',') == "no-writes") return true;
    }
  }
  return false;
}

}  // namespace proxy::session
