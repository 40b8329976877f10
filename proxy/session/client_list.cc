#include "proxy/session/client_list.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <charconv>

namespace proxy::session {

namespace {

bool is_word(std::string_view arg, std::string_view word) {
  return arg.size() == word.size() && ::strncasecmp(arg.data(), word.data(), word.size()) == 0;
}

std::optional<std::uint64_t> positive(std::string_view text) {
  std::uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value == 0) return std::nullopt;
  return value;
}

std::unexpected<slots::Error> bad(std::string text) {
  return slots::fail(slots::Errc::InvalidArgument, std::move(text));
}

// TYPE normal means every client; the other types name none.
slots::Status apply_type(ClientFilter& filter, std::string_view type) {
  if (is_word(type, "normal")) return {};
  for (std::string_view known : {"master", "replica", "slave", "pubsub"}) {
    if (!is_word(type, known)) continue;
    filter.none = true;
    return {};
  }
  return bad(fmt::format("ERR Unknown client type '{}'", type));
}

}  // namespace

std::string client_line(const ClientFacts& facts) {
  return fmt::format(
      "id={} addr={} laddr={} fd={} name={} age={} idle={} flags=N db=0 sub=0 psub=0 ssub=0 "
      "multi=-1 qbuf={} qbuf-free=0 "
      "argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem={} tot-mem={} events=r cmd={} "
      "user=default redir=-1 resp={} "
      "lib-name={} lib-ver={}",
      facts.id, facts.address, facts.local_address, facts.descriptor, facts.name, facts.age_seconds,
      facts.idle_seconds, facts.input_bytes, facts.unread_bytes,
      facts.input_bytes + facts.unread_bytes, facts.last_command, facts.protocol,
      facts.library_name, facts.library_version);
}

bool ClientFilter::matches(const ClientFacts& facts) const {
  if (none) return false;
  if (!ids.empty() && std::find(ids.begin(), ids.end(), facts.id) == ids.end()) return false;
  if (address && *address != facts.address) return false;
  if (local_address && *local_address != facts.local_address) return false;
  return !user || *user == "default";
}

slots::Result<ClientFilter> parse_kill_filter(resp::Args args) {
  ClientFilter filter;
  if (args.size() == 3) {
    filter.address = std::string(args[2]);
    filter.skip_me = false;
    filter.old_form = true;
    return filter;
  }
  if (args.size() % 2 != 0) return bad("ERR syntax error");
  for (std::size_t i = 2; i + 1 < args.size(); i += 2) {
    std::string_view option = args[i];
    std::string_view value = args[i + 1];
    if (is_word(option, "id")) {
      auto id = positive(value);
      if (!id) return bad("ERR client-id should be greater than 0");
      filter.ids.push_back(*id);
    } else if (is_word(option, "type")) {
      if (auto applied = apply_type(filter, value); !applied)
        return std::unexpected(applied.error());
    } else if (is_word(option, "addr")) {
      filter.address = std::string(value);
    } else if (is_word(option, "laddr")) {
      filter.local_address = std::string(value);
    } else if (is_word(option, "user")) {
      if (value != "default") return bad(fmt::format("ERR No such user '{}'", value));
      filter.user = std::string(value);
    } else if (is_word(option, "skipme") && (is_word(value, "yes") || is_word(value, "no"))) {
      filter.skip_me = is_word(value, "yes");
    } else {
      return bad("ERR syntax error");
    }
  }
  return filter;
}

slots::Result<ClientFilter> parse_list_filter(resp::Args args) {
  ClientFilter filter;
  if (args.size() == 2) return filter;
  if (args.size() == 4 && is_word(args[2], "type")) {
    if (auto applied = apply_type(filter, args[3]); !applied)
      return std::unexpected(applied.error());
    return filter;
  }
  if (args.size() < 4 || !is_word(args[2], "id")) return bad("ERR syntax error");
  for (std::size_t i = 3; i < args.size(); ++i) {
    auto id = positive(args[i]);
    if (!id) return bad("ERR Invalid client ID");
    filter.ids.push_back(*id);
  }
  return filter;
}

}  // namespace proxy::session
