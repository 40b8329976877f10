#include "proxy/session/client_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ranges>
#include <utility>

#include "proxy/resp/arguments.h"

namespace proxy::session {

namespace {

std::unexpected<slots::Error> bad(std::string text) {
  return slots::fail(slots::Errc::InvalidArgument, std::move(text));
}

slots::Status apply_type(ClientFilter& filter, std::string_view type) {
  for (std::string_view known : {"normal", "master", "replica", "slave", "pubsub"}) {
    if (!resp::is_word(type, known)) continue;
    filter.none = known != "normal" && known != "pubsub";
    filter.is_subscriber = known == "pubsub";
    return {};
  }
  return bad(fmt::format("ERR Unknown client type '{}'", type));
}

slots::Status apply_kill_option(ClientFilter& filter, std::string_view option,
                                std::string_view value,
                                const std::function<bool(std::string_view)>& is_user) {
  if (resp::is_word(option, "id")) {
    auto id = resp::integer_of(value);
    if (!id || *id < 1) return bad("ERR client-id should be greater than 0");
    filter.ids = {*id};
  } else if (resp::is_word(option, "type")) {
    return apply_type(filter, value);
  } else if (resp::is_word(option, "addr")) {
    filter.address = std::string(value);
  } else if (resp::is_word(option, "laddr")) {
    filter.local_address = std::string(value);
  } else if (resp::is_word(option, "user")) {
    if (!is_user(value)) return bad(fmt::format("ERR No such user '{}'", value));
    filter.user = std::string(value);
  } else if (resp::is_word(option, "skipme") &&
             (resp::is_word(value, "yes") || resp::is_word(value, "no"))) {
    filter.skip_me = resp::is_word(value, "yes");
  } else {
    return bad("ERR syntax error");
  }
  return {};
}

std::uint64_t id_of(std::string_view line) {
  std::uint64_t id = 0;
  line.remove_prefix(std::min(line.size(), std::string_view("id=").size()));
  std::from_chars(line.data(), line.data() + line.size(), id);
  return id;
}

// As Redis's: O for a monitor, P for a subscriber, x in a transaction, b blocked, t with CLIENT
// TRACKING, R whose redirection is broken, B with BCAST, U for a Unix socket, N for none of these.
std::string flags_of(const ClientFacts& facts) {
  std::string flags;
  if (facts.is_monitor) flags += 'O';
  if (is_subscriber(facts)) flags += 'P';
  if (facts.queued >= 0) flags += 'x';
  if (facts.is_blocked) flags += 'b';
  if (facts.redirect >= 0) flags += 't';
  if (facts.is_redirect_broken) flags += 'R';
  if (facts.is_broadcast) flags += 'B';
  if (facts.is_unix) flags += 'U';
  return flags.empty() ? "N" : flags;
}

}  // namespace

std::string client_line(const ClientFacts& facts) {
  return fmt::format(
      "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} "
      "multi={} qbuf={} qbuf-free=0 "
      "argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem={} tot-mem={} events=r cmd={} "
      "user={} redir={} resp={} "
      "lib-name={} lib-ver={}",
      facts.id, facts.address, facts.local_address, facts.descriptor, facts.name, facts.age_seconds,
      facts.idle_seconds, flags_of(facts), facts.database, facts.channels, facts.patterns,
      facts.sharded_channels, facts.queued, facts.input_bytes, facts.unread_bytes,
      facts.input_bytes + facts.unread_bytes, facts.last_command, facts.user, facts.redirect,
      facts.protocol, facts.library_name, facts.library_version);
}

std::string lines_by_id(const std::vector<std::string>& lists) {
  std::vector<std::pair<std::uint64_t, std::string_view>> lines;
  std::size_t bytes = 0;
  for (std::string_view rest : lists) {
    bytes += rest.size();
    while (!rest.empty()) {
      std::string_view line = rest.substr(0, std::min(rest.find('\n'), rest.size() - 1) + 1);
      lines.emplace_back(id_of(line), line);
      rest.remove_prefix(line.size());
    }
  }
  std::ranges::sort(lines);
  std::string all;
  all.reserve(bytes);
  for (std::string_view line : lines | std::views::values) all += line;
  return all;
}

bool ClientFilter::matches(const ClientFacts& facts) const {
  if (none ||
      is_subscriber.value_or(session::is_subscriber(facts)) != session::is_subscriber(facts))
    return false;
  auto is_this = [&](std::int64_t id) { return std::cmp_equal(id, facts.id); };
  if (!ids.empty() && std::ranges::none_of(ids, is_this)) return false;
  if (address && *address != facts.address) return false;
  if (user && *user != facts.user) return false;
  return !local_address || *local_address == facts.local_address;
}

slots::Result<ClientFilter> parse_kill_filter(
    resp::Args args, const std::function<bool(std::string_view)>& is_user) {
  ClientFilter filter;
  if (args.size() == 3) {
    filter.address = std::string(args[2]);
    filter.skip_me = false;
    filter.old_form = true;
    return filter;
  }
  for (std::size_t i = 2; i < args.size(); i += 2) {
    if (i + 1 == args.size()) return bad("ERR syntax error");
    if (auto applied = apply_kill_option(filter, args[i], args[i + 1], is_user); !applied)
      return std::unexpected(applied.error());
  }
  return filter;
}

slots::Result<ClientFilter> parse_list_filter(resp::Args args) {
  ClientFilter filter;
  if (args.size() == 2) return filter;
  if (args.size() == 4 && resp::is_word(args[2], "type")) {
    if (auto applied = apply_type(filter, args[3]); !applied)
      return std::unexpected(applied.error());
    return filter;
  }
  if (args.size() < 4 || !resp::is_word(args[2], "id")) return bad("ERR syntax error");
  for (std::size_t i = 3; i < args.size(); ++i) {
    auto id = resp::integer_of(args[i]);
    if (!id) return bad("ERR Invalid client ID");
    filter.ids.push_back(*id);
  }
  return filter;
}

}  // namespace proxy::session
