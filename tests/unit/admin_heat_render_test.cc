#include <doctest/doctest.h>

#include "admin/heat_render.h"

using namespace admin;

namespace {

SlotHeat slot(std::uint64_t number, double operations) {
  return {.slot = number,
          .node = "inv-bcn",
          .operations = operations,
          .bytes = 61'000,
          .operations_minute = operations / 2,
          .bytes_minute = 100};
}

HeatReport report() {
  return {.cluster = "shop",
          .epoch = 7,
          .nodes = {{"inv-bcn", 300, 90'000, 150, 100, 4.6}, {"inv-vlc", 100, 10, 50, 5, {}}},
          .by_operations = {slot(8000, 200), slot(5, 100)},
          .by_bytes = {slot(5, 100)}};
}

template <class Report>
void check_round_trip(const Report& report) {
  const auto back = from_json<Report>(to_json(report));
  REQUIRE(back.has_value());
  CHECK((*back == report));
}

}  // namespace

TEST_CASE("heat shows nodes, then the hottest slots") {
  check_round_trip(report());
  CHECK(render(report(), {}) ==
        "cluster shop   epoch 7   means over the last 10 to 20 s, through this proxy\n"
        "NODE     OPS/S            BYTES/S  OPS/S OVER 1m     P99\n"
        "inv-bcn    300  75.0 %  90.0 KB/s            150  4.6 ms\n"
        "inv-vlc    100  25.0 %     10 B/s             50       -\n"
        "hottest slots by operations\n"
        "  SLOT  NODE     OPS/S    BYTES/S  OPS/S OVER 1m  KEYS  STORED\n"
        "  8000  inv-bcn    200  61.0 KB/s            100     -       -\n"
        "     5  inv-bcn    100  61.0 KB/s             50     -       -\n"
        "hottest slots by bytes\n"
        "  SLOT  NODE     OPS/S    BYTES/S  OPS/S OVER 1m  KEYS  STORED\n"
        "     5  inv-bcn    100  61.0 KB/s             50     -       -\n"
        "keys were not counted yet: a plan that needs them does so (slotctl plan propose --balance "
        "keys)\n");
}

TEST_CASE("heat says whether keys were counted or estimated, and when") {
  HeatReport counted = report();
  counted.by_keys = {slot(9, 0)};
  counted.by_keys[0].keys = 1000;
  counted.by_keys[0].stored_bytes = 64'000;
  counted.counted_seconds_ago = 70;
  counted.is_count_exact = true;
  check_round_trip(counted);
  CHECK(render(counted, {}).find("largest slots by keys, counted 1m 10s ago\n") !=
        std::string::npos);
  CHECK(render(counted, {}).find("1,000") != std::string::npos);
  counted.is_count_exact = false;
  CHECK(render(counted, {}).find("estimated from a part 1m 10s ago") != std::string::npos);
}

TEST_CASE("without traffic there is nothing hot") {
  CHECK(render(HeatReport{.cluster = "shop"}, {}).find("no slot has had any requests lately") !=
        std::string::npos);
}

TEST_CASE("hot keys are told with their share, and vague ones as such") {
  const HotKeysReport found{.cluster = "shop",
                            .epoch = 7,
                            .seconds = 5,
                            .total = 1000,
                            .is_sampled = true,
                            .keys = {{{"feed:all"}, false, 8000, "inv-bcn", 500, 0, 100},
                                     {{"long"}, true, 5, "inv-vlc", 100, 90, 20}}};
  check_round_trip(found);
  CHECK(render(found, {}) ==
        "1,000 uses of keys in 5 s, sampled\n"
        "KEY       SLOT  NODE     USES/S\n"
        "feed:all  8000  inv-bcn     100  50.0 %\n"
        "long…        5  inv-vlc      20  10.0 %  at most\n");
  CHECK(render(HotKeysReport{.seconds = 5}, {}) == "no request with a key came in 5 s\n");
}
