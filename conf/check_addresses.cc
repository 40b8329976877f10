#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "conf/check.h"
#include "conf/words.h"

namespace conf {
namespace {

bool is_wildcard(const Address& address) {
  return !address.is_unix() &&
         (address.host == "0.0.0.0" || address.host == "::" || address.host == "0");
}

// Whether both can't be listened at by one machine. 0.0.0.0 takes in every IPv4 address of its
// port; :: both kinds.
bool collide(const Address& a, const Address& b) {
  if (a.is_unix() || b.is_unix()) return a.path == b.path;
  if (a.port != b.port) return false;
  const auto takes_in = [](const Address& wide, const Address& other) {
    const bool other_is_v6 = other.host.find(':') != std::string::npos;
    return is_wildcard(wide) && (wide.host == "::" || !other_is_v6);
  };
  return a.host == b.host || takes_in(a, b) || takes_in(b, a);
}

bool is_loopback(const Address& address) {
  return address.host == "localhost" || address.host == "::1" || address.host.starts_with("127.");
}

// Whether a node's address leads back to a listener, as far as the text tells: port 6400 of another
// machine is no concern of 0.0.0.0:6400.
bool leads_to(const Address& node, const Address& listener) {
  return node == listener ||
         (is_wildcard(listener) && node.port == listener.port && is_loopback(node));
}

// Something this proxy listens at, and the option that says so.
struct Listener {
  std::string path;
  Address address;
};

class AddressChecker {
 public:
  AddressChecker(const Config& config, const Written& written)
      : config_(config), written_(written) {}

  [[nodiscard]] std::vector<Mistake> run() && {
    collect_listeners();
    check_listeners();
    check_nodes();
    check_endpoints();
    check_announced();
    return std::move(mistakes_);
  }

 private:
  [[nodiscard]] static std::string node_path(std::size_t i, std::string_view key) {
    return fmt::format("nodes[{}].{}", i, key);
  }

  void add(const std::string& path, const std::string& message) {
    const Place place = written_.place(path);
    mistakes_.push_back({place.line, place.column, fmt::format("{}: {}", path, message)});
  }

  // Everything that this proxy listens at, in the order in which the later of two is the one to
  // blame.
  void collect_listeners() {
    const bool is_list = written_.has("listen.forward[0]");
    for (std::size_t written = 0, read = 0; read < config_.listen.forward.size(); ++written) {
      const std::string path =
          is_list ? fmt::format("listen.forward[{}]", written) : "listen.forward";
      if (is_list && !written_.is_good(path)) {
        if (!written_.has(path)) break;
        continue;
      }
      listeners_.push_back({path, config_.listen.forward[read++]});
    }
    if (!written_.has("listen.admin") || written_.is_good("listen.admin")) {
      listeners_.push_back({"listen.admin", config_.listen.admin});
    }
    for (std::size_t i = 0; i < config_.nodes.size(); ++i) {
      if (config_.nodes[i].endpoint)
        listeners_.push_back({node_path(i, "endpoint"), *config_.nodes[i].endpoint});
    }
  }

  void check_listeners() {
    for (std::size_t later = 1; later < listeners_.size(); ++later) {
      for (std::size_t earlier = 0; earlier < later; ++earlier) {
        if (!collide(listeners_[later].address, listeners_[earlier].address)) continue;
        add(listeners_[later].path,
            fmt::format("{} is taken by {} ({}); each listener needs an address of its own",
                        in_quotes(listeners_[later].address.text()), listeners_[earlier].path,
                        listeners_[earlier].address.text()));
        break;
      }
    }
  }

  void check_nodes() {
    for (std::size_t i = 0; i < config_.nodes.size(); ++i) {
      const std::string path = node_path(i, "address");
      if (!written_.is_good(path)) continue;
      const Address& address = config_.nodes[i].address;
      for (const Listener& listener : listeners_) {
        if (!leads_to(address, listener.address)) continue;
        add(path,
            fmt::format("{} is this proxy's own {}; a node's address is that of its Redis server",
                        in_quotes(address.text()), listener.path));
        break;
      }
      for (std::size_t k = 0; k < i; ++k) {
        if (config_.nodes[k].address != address) continue;
        add(path, fmt::format("{} is the address of {} already; two nodes can't be one server",
                              in_quotes(address.text()), node_in_words(k)));
        break;
      }
    }
  }

  [[nodiscard]] std::string node_in_words(std::size_t i) const {
    const std::string& name = config_.nodes[i].name;
    return name.empty() ? fmt::format("nodes[{}]", i)
                        : fmt::format("nodes[{}] ({})", i, in_quotes(name));
  }

  void check_endpoints() {
    std::vector<std::size_t> with;
    std::vector<std::size_t> without;
    for (std::size_t i = 0; i < config_.nodes.size(); ++i) {
      if (!written_.is_good(fmt::format("nodes[{}]", i))) continue;
      (written_.has(node_path(i, "endpoint")) ? with : without).push_back(i);
      const std::optional<Address>& endpoint = config_.nodes[i].endpoint;
      if (endpoint && is_wildcard(*endpoint) && !written_.has(node_path(i, "announce"))) {
        add(node_path(i, "endpoint"), fmt::format("{} is no address that cluster clients can "
                                                  "connect to; add announce with the one that they "
                                                  "reach it at",
                                                  in_quotes(endpoint->text())));
      }
      if (written_.is_good(node_path(i, "announce")) && !written_.has(node_path(i, "endpoint"))) {
        add(node_path(i, "announce"),
            "there is no endpoint to announce; add endpoint, or leave announce out");
      }
    }
    if (!with.empty() && !without.empty()) report_missing_endpoints(with.front(), without);
    if (config_.listen.forward_cluster && with.empty() && !config_.nodes.empty()) {
      add("listen.forward_cluster",
          "cluster clients need an endpoint to go to; add endpoint to every node");
    }
  }

  void report_missing_endpoints(std::size_t with, const std::vector<std::size_t>& without) {
    constexpr std::size_t kNamedMax = 5;
    std::string others;
    for (std::size_t k = 1; k < without.size() && k <= kNamedMax; ++k) {
      others += (k == 1 ? "" : ", ") + node_in_words(without[k]);
    }
    if (without.size() > kNamedMax + 1)
      others += fmt::format(" and {} more", without.size() - kNamedMax - 1);
    if (!others.empty()) others = "; missing also at " + others;
    add(node_path(without.front(), "endpoint"),
        fmt::format("is missing, but {} has one; endpoint stands at all nodes or at none{}",
                    node_in_words(with), others));
  }

  void check_announced() {
    for (std::size_t i = 0; i < config_.nodes.size(); ++i) {
      const NodeConfig& node = config_.nodes[i];
      if (node.announce && is_wildcard(*node.announce)) {
        add(node_path(i, "announce"),
            fmt::format("{} is no address that cluster clients can connect to",
                        in_quotes(node.announce->text())));
      }
      if (!node.announce) continue;  // Equal endpoints were reported as listeners.
      for (std::size_t k = 0; k < config_.nodes.size(); ++k) {
        const bool is_earlier = k < i || !config_.nodes[k].announce;
        if (k == i || !is_earlier || config_.nodes[k].announced() != node.announce) continue;
        add(node_path(i, "announce"),
            fmt::format("{} is what {} announces already; cluster clients tell nodes apart by it",
                        in_quotes(node.announce->text()), node_in_words(k)));
        break;
      }
    }
  }

  const Config& config_;
  const Written& written_;
  std::vector<Listener> listeners_;
  std::vector<Mistake> mistakes_;
};

}  // namespace

std::vector<Mistake> check_addresses(const Config& config, const Written& written) {
  return AddressChecker(config, written).run();
}

}  // namespace conf
