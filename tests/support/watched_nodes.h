// WatchedNodes: a HealthWatcher with short times on a test's loop, and what it has told.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "proxy/control/health_watcher.h"
#include "proxy/resp/reserved_key.h"
#include "tests/support/fake_node.h"
#include "tests/support/test_loop.h"

namespace tests {

using conf::Milliseconds;
using proxy::NodeState;
using proxy::control::HealthCallbacks;
using proxy::control::HealthOptions;
using proxy::control::HealthWatcher;
using proxy::control::NodeStatus;
using proxy::control::WatchedNode;

inline const std::string kKey(proxy::resp::kIdentityKey);
inline const std::string kRunA(40, 'a');
inline const std::string kRunB(40, 'b');

inline HealthOptions quick() {
  HealthOptions options;
  options.cluster = "shop";
  options.client_name_prefix = "slotproxy:shop:5f3a:";
  options.incarnation = "7";
  options.connect = Milliseconds{300};
  options.node_silent = Milliseconds{150};
  options.refused_delay = Milliseconds{50};
  options.facts_age = Milliseconds{100};
  options.established = Milliseconds{0};
  return options;
}

// A watcher with short times, and what it has told.
struct Watch {
  struct Change {
    std::string node;
    NodeStatus status;
  };

  explicit Watch(TestLoop& on, const HealthOptions& options = quick()) : loop(on) {
    HealthCallbacks callbacks;
    callbacks.on_change = [this](const std::string& node, const NodeStatus& status) {
      changes.push_back({node, status});
    };
    callbacks.on_identity = [this](const std::string& node, const std::string& value) {
      identities.push_back(node + "=" + value);
    };
    callbacks.on_warning = [this](const std::string& node, const std::string& text) {
      warnings.push_back(node + " " + text);
    };
    callbacks.first_round_done = [this] { ++first_rounds; };
    watcher = std::make_unique<HealthWatcher>(loop.get(), options, callbacks);
  }

  bool becomes(const std::string& node, NodeState state, const std::string& reason = {}) {
    const bool became = loop.run_until([&] {
      const NodeStatus status = watcher->status(node);
      return status.state == state && status.reason.find(reason) != std::string::npos;
    });
    INFO(watcher->status(node).reason);
    CHECK(became);
    return became;
  }
  [[nodiscard]] NodeState state(const std::string& node) const {
    return watcher->status(node).state;
  }

  TestLoop& loop;
  std::vector<Change> changes;
  std::vector<std::string> identities;
  std::vector<std::string> warnings;
  int first_rounds = 0;
  std::unique_ptr<HealthWatcher> watcher;
};

inline WatchedNode as(const std::string& name, const FakeNode& node,
                      const std::string& identity = {}) {
  return {name, node.address(), "", "", identity};
}

}  // namespace tests
