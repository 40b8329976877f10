#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "proxy/resp/arguments.h"
#include "proxy/session/client_list.h"

namespace {

using proxy::resp::integer_of;
using proxy::session::client_line;
using proxy::session::ClientFacts;
using proxy::session::ClientFilter;
using proxy::session::lines_by_id;
using proxy::session::parse_kill_filter;
using proxy::session::parse_list_filter;

using Words = std::vector<std::string_view>;

ClientFacts client(std::uint64_t id, std::string address, std::string local_address) {
  ClientFacts facts;
  facts.id = id;
  facts.address = std::move(address);
  facts.local_address = std::move(local_address);
  return facts;
}

const ClientFacts kSeven = client(7, "127.0.0.1:51324", "127.0.0.1:6400");

Words with(std::string_view subcommand, const Words& options) {
  Words args{"CLIENT", subcommand};
  args.insert(args.end(), options.begin(), options.end());
  return args;
}

bool is_user(std::string_view name) { return name == "default" || name == "app"; }

ClientFilter kill(const Words& options) {
  auto filter = parse_kill_filter(with("KILL", options), is_user);
  REQUIRE(filter);
  return *filter;
}

ClientFilter list(const Words& options) {
  auto filter = parse_list_filter(with("LIST", options));
  REQUIRE(filter);
  return *filter;
}

// Empty: none.
std::string kill_error(const Words& options) {
  auto filter = parse_kill_filter(with("KILL", options), is_user);
  return filter ? "" : filter.error().message;
}

std::string list_error(const Words& options) {
  auto filter = parse_list_filter(with("LIST", options));
  return filter ? "" : filter.error().message;
}

}  // namespace

TEST_CASE("a client's line has Redis's fields in Redis's order, the library's behind them") {
  ClientFacts facts = kSeven;
  facts.descriptor = 12;
  facts.name = "worker-1";
  facts.library_name = "redis-py";
  facts.library_version = "4.3.4";
  facts.last_command = "client|list";
  facts.age_seconds = 90;
  facts.idle_seconds = 3;
  facts.input_bytes = 20;
  facts.unread_bytes = 500;
  facts.protocol = 3;
  CHECK(client_line(facts) ==
        "id=7 addr=127.0.0.1:51324 laddr=127.0.0.1:6400 fd=12 name=worker-1 age=90 idle=3 flags=N "
        "db=0 sub=0 psub=0 ssub=0 multi=-1 qbuf=20 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 "
        "obl=0 oll=0 omem=500 tot-mem=520 events=r cmd=client|list user=default redir=-1 resp=3 "
        "lib-name=redis-py lib-ver=4.3.4");
}

TEST_CASE("what a client did not say is an empty field") {
  std::string line = client_line(kSeven);
  CHECK(line.find(" name= age=") != std::string::npos);
  CHECK(line.ends_with(" resp=2 lib-name= lib-ver="));
}

TEST_CASE("a client at a Unix socket has the flag U") {
  ClientFacts facts = client(1, "/tmp/shop.sock:0", "/tmp/shop.sock:0");
  facts.is_unix = true;
  CHECK(client_line(facts).find(" flags=U ") != std::string::npos);
}

TEST_CASE("a client that waits for the end of a pause has the flag b, in a transaction xb") {
  ClientFacts facts = kSeven;
  facts.is_blocked = true;
  CHECK(client_line(facts).find(" flags=b ") != std::string::npos);
  facts.queued = 1;
  CHECK(client_line(facts).find(" flags=xb ") != std::string::npos);
}

TEST_CASE("lists of several workers become one, by id as a number, whole lines and no byte lost") {
  CHECK(lines_by_id({"id=10 name=a\nid=2 name=b\n", "", "id=9 name=c\n"}) ==
        "id=2 name=b\nid=9 name=c\nid=10 name=a\n");
  CHECK(lines_by_id({"id=18446744073709551615 x\n", "id=3 y\n"}) ==
        "id=3 y\nid=18446744073709551615 x\n");
  CHECK(lines_by_id({}).empty());
  CHECK(lines_by_id({"", ""}).empty());
}

TEST_CASE("CLIENT KILL with an address alone is the old form, which means the own connection too") {
  ClientFilter filter = kill({"127.0.0.1:51324"});
  CHECK(filter.old_form);
  CHECK_FALSE(filter.skip_me);
  CHECK(filter.matches(kSeven));
  CHECK_FALSE(filter.matches(client(8, "127.0.0.1:51325", "127.0.0.1:6400")));

  CHECK_MESSAGE(kill({"ID"}).old_form, "a word alone is an address, whatever it says");
}

TEST_CASE("CLIENT KILL spares the own connection unless SKIPME says no") {
  CHECK(kill({"ID", "7"}).skip_me);
  CHECK_FALSE(kill({"ID", "7"}).old_form);
  CHECK_FALSE(kill({"ID", "7", "SKIPME", "no"}).skip_me);
  CHECK(kill({"skipme", "NO", "SKIPME", "Yes"}).skip_me);
}

TEST_CASE("CLIENT KILL means clients for which all conditions hold") {
  struct Case {
    Words options;
    bool matches;
  };
  for (const Case& each : std::vector<Case>{
           {{"ID", "7"}, true},
           {{"ID", "8"}, false},
           {{"ADDR", "127.0.0.1:51324"}, true},
           {{"ADDR", "127.0.0.1:6400"}, false},
           {{"LADDR", "127.0.0.1:6400"}, true},
           {{"laddr", "127.0.0.1:51324"}, false},
           {{"USER", "default"}, true},
           {{"USER", "app"}, false},
           {{"TYPE", "normal"}, true},
           {{"TYPE", "master"}, false},
           {{"TYPE", "Replica"}, false},
           {{"TYPE", "slave"}, false},
           {{"TYPE", "pubsub"}, false},
           {{"SKIPME", "no"}, true},
           {{"ID", "7", "ADDR", "127.0.0.1:51324", "TYPE", "normal"}, true},
           {{"ID", "7", "ADDR", "127.0.0.1:1"}, false},
           {{"ID", "7", "TYPE", "pubsub"}, false},
       }) {
    std::string options;
    for (std::string_view word : each.options) options.append(word).append(" ");
    CAPTURE(options);
    CHECK(kill(each.options).matches(kSeven) == each.matches);
  }
}

TEST_CASE("of an option of CLIENT KILL that is given twice the last counts") {
  CHECK_FALSE(kill({"ID", "7", "ID", "8"}).matches(kSeven));
  CHECK(kill({"ID", "8", "ID", "7"}).matches(kSeven));
  CHECK(kill({"ADDR", "x", "ADDR", "127.0.0.1:51324"}).matches(kSeven));
  CHECK(kill({"TYPE", "master", "TYPE", "normal"}).matches(kSeven));
  CHECK_FALSE(kill({"TYPE", "normal", "TYPE", "master"}).matches(kSeven));
}

TEST_CASE("what CLIENT KILL does not take is refused in Redis's words") {
  for (std::string_view id : {"0", "-1", "x", "", "01", "+1", " 1", "9223372036854775808"}) {
    CAPTURE(id);
    CHECK(kill_error({"ID", id}) == "ERR client-id should be greater than 0");
  }
  CHECK(kill_error({"ID", "9223372036854775807"}).empty());
  CHECK(kill_error({"TYPE", "nosuch"}) == "ERR Unknown client type 'nosuch'");
  CHECK(kill_error({"USER", "nobody"}) == "ERR No such user 'nobody'");
  CHECK(kill_error({"USER", "Default"}) == "ERR No such user 'Default'");
  CHECK(kill_error({"SKIPME", "maybe"}) == "ERR syntax error");
  CHECK(kill_error({"NOSUCH", "x"}) == "ERR syntax error");
  CHECK(kill_error({"MAXAGE", "10"}) == "ERR syntax error");
}

TEST_CASE("the first mistake among CLIENT KILL's options is the one that is named") {
  CHECK(kill_error({"ID", "1", "ADDR"}) == "ERR syntax error");
  CHECK(kill_error({"TYPE", "nosuch", "ID"}) == "ERR Unknown client type 'nosuch'");
  CHECK(kill_error({"NOSUCH", "x", "TYPE", "nosuch"}) == "ERR syntax error");
}

TEST_CASE("CLIENT LIST means every client, those of a type, or those of some ids") {
  ClientFacts eight = client(8, "127.0.0.1:51325", "127.0.0.1:6400");
  CHECK(list({}).matches(kSeven));
  CHECK(list({"TYPE", "NORMAL"}).matches(kSeven));
  CHECK_FALSE(list({"TYPE", "pubsub"}).matches(kSeven));
  CHECK(list({"ID", "7"}).matches(kSeven));
  CHECK_FALSE(list({"ID", "7"}).matches(eight));
  CHECK(list({"id", "1", "8", "7"}).matches(eight));
  CHECK(list({"id", "1", "8", "7"}).matches(kSeven));
}

TEST_CASE("CLIENT LIST takes ids that no client has, and none that are no numbers") {
  CHECK_FALSE(list({"ID", "0"}).matches(kSeven));
  CHECK_FALSE(list({"ID", "-7"}).matches(kSeven));
  ClientFacts last = client(18446744073709551615U, "a:1", "b:1");
  CHECK_FALSE(list({"ID", "-1"}).matches(last));
  CHECK(list_error({"ID", "x"}) == "ERR Invalid client ID");
  CHECK(list_error({"ID", "7", "07"}) == "ERR Invalid client ID");
  CHECK(list_error({"ID", "9223372036854775808"}) == "ERR Invalid client ID");
}

TEST_CASE("what else CLIENT LIST does not take is refused in Redis's words") {
  CHECK(list_error({"TYPE", "nosuch"}) == "ERR Unknown client type 'nosuch'");
  CHECK(list_error({"TYPE"}) == "ERR syntax error");
  CHECK(list_error({"TYPE", "normal", "ID"}) == "ERR syntax error");
  CHECK(list_error({"ID"}) == "ERR syntax error");
  CHECK(list_error({"NOSUCH", "x"}) == "ERR syntax error");
}

TEST_CASE("a number among arguments is written in one way only") {
  CHECK(proxy::resp::integer_of("0") == 0);
  CHECK(proxy::resp::integer_of("-15") == -15);
  CHECK(proxy::resp::integer_of("9223372036854775807") == 9223372036854775807);
  CHECK(proxy::resp::integer_of("-9223372036854775808") == -9223372036854775807 - 1);
  for (std::string_view text : {"", "-", "+1", "01", "-0", " 1", "1 ", "1.0", "x", "1x",
                                "9223372036854775808", "-9223372036854775809"}) {
    CAPTURE(text);
    CHECK_FALSE(proxy::resp::integer_of(text));
  }
}
