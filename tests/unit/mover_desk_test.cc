#include "proxy/mover_desk.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <utility>

#include "proxy/net/mailbox.h"
#include "tests/support/test_loop.h"

using proxy::MoverDesk;

namespace {

struct Desk {
  Desk() { mailbox.open(loop.get()); }
  ~Desk() { mailbox.close(); }

  tests::TestLoop loop;
  proxy::net::Mailbox mailbox;
  MoverDesk desk{[this](MoverDesk::Work work) { mailbox.post(std::move(work)); }};
};

}  // namespace

TEST_CASE("a mover's question is answered by the control thread") {
  Desk d;
  std::atomic<int> got = 0;
  MoverDesk::Answer<int> kept;
  std::thread mover(
      [&] { got = d.desk.ask<int>([&](const auto& answer) { kept = answer; }).value_or(-1); });
  CHECK(d.loop.run_until([&] { return kept != nullptr; }));
  CHECK(got == 0);
  kept(42);
  mover.join();
  CHECK(got == 42);
}

TEST_CASE("at the end every question is answered, and none is asked any more") {
  Desk d;
  bool is_asked = false;
  MoverDesk::Answer<void> kept;
  slots::Errc code{};
  std::thread mover([&] {
    const auto answer = d.desk.ask<void>([&](const auto& later) {
      kept = later;
      is_asked = true;
    });
    code = answer.error().code;
  });
  CHECK(d.loop.run_until([&] { return is_asked; }));
  d.desk.post([&] { is_asked = false; });
  d.desk.close();
  mover.join();
  CHECK(code == slots::Errc::Unavailable);
  CHECK(d.desk.ask<int>([](const auto&) {}).error().code == slots::Errc::Unavailable);
  kept({});
  uv_run(d.loop.get(), UV_RUN_NOWAIT);
  CHECK(is_asked);
}
