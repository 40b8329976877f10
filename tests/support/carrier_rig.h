// CarrierRig: a Carrier between two real redis-servers, and a host that grants whatever is asked.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

#include "proxy/mover/carrier.h"
#include "tests/support/local_servers.h"

namespace tests {

constexpr std::size_t kSource = 0;
constexpr std::size_t kTarget = 1;

// Grants whatever is asked.
class GrantingHost : public proxy::mover::MoveHost {
 public:
  explicit GrantingHost(const LocalServers& servers) : servers_(servers) {}
  int lifted = 0;
  int commits = 0;

  slots::Result<proxy::mover::FenceGrant> fence(const slots::SlotSet&, const std::string&,
                                                conf::Milliseconds) override {
    return proxy::mover::FenceGrant{};
  }
  void lift_fence() override { ++lifted; }
  slots::Result<slots::Epoch> commit(std::uint64_t, const slots::SlotSet&, const std::string&,
                                     const std::string&, std::uint64_t,
                                     const std::string&) override {
    return static_cast<slots::Epoch>(++commits);
  }
  slots::Status vouch(std::uint64_t, const slots::SlotSet&, const std::string&,
                      const std::string&) override {
    return {};
  }
  slots::Result<slots::Epoch> give_back(std::uint64_t, const slots::SlotSet&, const std::string&,
                                        const std::string&) override {
    return 1;
  }
  slots::Status note_collected(std::uint64_t, const slots::SlotSet&, const std::string&) override {
    return {};
  }
  proxy::mover::Wish wish(std::uint64_t) override { return proxy::mover::Wish::Run; }
  slots::Result<proxy::mover::NodeAccess> access(const std::string& node) override {
    return servers_.access(node == "a" ? kSource : kTarget);
  }
  void report(std::uint64_t, const std::string&, const std::string&,
              const proxy::mover::Progress&) override {}

 private:
  const LocalServers& servers_;
};

struct CarrierRig {
  LocalServers servers{2};
  GrantingHost host{servers};
  proxy::mover::Pacer source;
  proxy::mover::Pacer target;
  proxy::mover::LostClients lost;
  proxy::mover::Carrier carrier{options(), host, source, target, lost, [] {}};
  proxy::mover::Event event;  // The last one.

  CarrierRig() { REQUIRE(act<proxy::mover::Connected>(proxy::mover::Connect{}).marker == 0); }

  static proxy::mover::CarrierOptions options() {
    proxy::mover::CarrierOptions options;
    options.spec.plan = 7;
    options.spec.source = "a";
    options.spec.target = "b";
    options.link.name_prefix = "slotproxy:test:";
    options.link.incarnation = "now";
    options.link.connect_timeout = options.link.silence = std::chrono::seconds(60);
    options.grace = conf::Milliseconds(0);
    return options;
  }
  template <class T>
  T act(const proxy::mover::Action& action) {
    event = carrier.carry_out(action);
    if (const auto* lost_node = std::get_if<proxy::mover::NodeLost>(&event.outcome);
        lost_node != nullptr) {
      CAPTURE(lost_node->reason);
      REQUIRE(std::holds_alternative<T>(event.outcome));
    }
    REQUIRE(std::holds_alternative<T>(event.outcome));
    return std::get<T>(event.outcome);
  }
  std::string ask(std::size_t server, std::initializer_list<std::string_view> command) {
    return servers.ask(server, command);
  }
};

}  // namespace tests
