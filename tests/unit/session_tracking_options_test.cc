#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "proxy/session/tracking_options.h"

using namespace proxy::session;

namespace {

TrackingWords words(std::vector<std::string_view> given) { return read_tracking_words(given); }

std::string refusal(std::vector<std::string_view> given, const TrackingOptions* now = nullptr,
                    const Prefixes& prefixes = {}) {
  const auto checked = check_tracking(words(std::move(given)), now, prefixes);
  return checked ? "" : checked.error().message;
}

}  // namespace

TEST_CASE("the words of CLIENT TRACKING are read one by one, in any case") {
  const TrackingWords all =
      words({"redirect", "12", "BCAST", "prefix", "a", "PREFIX", "b", "NoLoop"});
  CHECK(all.error.empty());
  CHECK(all.options.redirect == 12);
  CHECK(all.options.is_broadcast);
  CHECK(all.options.no_loop);
  CHECK(!all.options.opt_in);
  CHECK(all.prefixes == std::vector<std::string>{"a", "b"});
  CHECK(words({"optin"}).options.opt_in);
  CHECK(words({"optout"}).options.opt_out);
}

TEST_CASE("the first wrong word of CLIENT TRACKING is what is wrong with it") {
  CHECK(words({"nosuch"}).error == "ERR syntax error");
  CHECK(words({"redirect"}).error == "ERR syntax error");
  CHECK(words({"bcast", "prefix"}).error == "ERR syntax error");
  CHECK(words({"redirect", "x"}).error == "ERR value is not an integer or out of range");
  CHECK(words({"redirect", "0"}).error == kNoRedirectTarget);
  CHECK(words({"redirect", "-1"}).error == kNoRedirectTarget);
  const TrackingWords twice = words({"redirect", "4", "redirect", "5"});
  CHECK(twice.error == "ERR A client can only redirect to a single other client");
  CHECK(twice.options.redirect == 4);
}

TEST_CASE("options of CLIENT TRACKING that do not go together are refused") {
  CHECK(refusal({"prefix", "a"}) == "ERR PREFIX option requires BCAST mode to be enabled");
  CHECK(refusal({"bcast", "optin"}) == "ERR OPTIN and OPTOUT are not compatible with BCAST");
  CHECK(refusal({"optin", "optout"}).find("both OPTIN mode and OPTOUT mode") != std::string::npos);
  TrackingOptions broadcast;
  broadcast.is_broadcast = true;
  CHECK(refusal({}, &broadcast).find("You can't switch BCAST mode") != std::string::npos);
  CHECK(refusal({"bcast"}, &broadcast).empty());
  TrackingOptions opted_in;
  opted_in.opt_in = true;
  CHECK(refusal({"optout"}, &opted_in).find("You can't switch OPTIN/OPTOUT") != std::string::npos);
  CHECK(refusal({"optin", "noloop"}, &opted_in).empty());
  CHECK(refusal({}, &opted_in).empty());
}

TEST_CASE("a client's prefixes may not overlap") {
  CHECK(refusal({"bcast", "prefix", "foobar", "prefix", "foo"}) ==
        "ERR Prefix 'foobar' overlaps with another provided prefix 'foo'. Prefixes for a single "
        "client must not overlap.");
  CHECK(refusal({"bcast", "prefix", "a", "prefix", "foo", "prefix", "foobar"}) ==
        "ERR Prefix 'foo' overlaps with another provided prefix 'foobar'. Prefixes for a single "
        "client must not overlap.");
  TrackingOptions broadcast;
  broadcast.is_broadcast = true;
  CHECK(refusal({"bcast", "prefix", "barb"}, &broadcast, {"bar", "foo"}) ==
        "ERR Prefix 'barb' overlaps with an existing prefix 'bar'. Prefixes for a single client "
        "must not overlap.");
  CHECK(refusal({"bcast", "prefix", "baz"}, &broadcast, {"bar", "foo"}).empty());
  CHECK(!refusal({"bcast", "prefix", ""}, &broadcast, {"bar"}).empty());
}
