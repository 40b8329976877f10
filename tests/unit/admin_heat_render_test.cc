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
          .nodes = {{"inv-bcn", 300, 90'000, 150, 100}, {"inv-vlc", 100, 10, 50, 5}},
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
        "NODE     OPS/S            BYTES/S  OPS/S OVER 1m\n"
        "inv-bcn    300  75.0 %  90.0 KB/s            150\n"
        "inv-vlc    100  25.0 %     10 B/s             50\n"
        "hottest slots by operations\n"
        "  SLOT  NODE     OPS/S    BYTES/S  OPS/S OVER 1m\n"
        "  8000  inv-bcn    200  61.0 KB/s            100\n"
        "     5  inv-bcn    100  61.0 KB/s             50\n"
        "hottest slots by bytes\n"
        "  SLOT  NODE     OPS/S    BYTES/S  OPS/S OVER 1m\n"
        "     5  inv-bcn    100  61.0 KB/s             50\n");
}

TEST_CASE("without traffic there is nothing hot") {
  CHECK(render(HeatReport{.cluster = "shop"}, {}).find("no slot has had any requests lately") !=
        std::string::npos);
}
