#include "conf/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "conf/options.h"
#include "conf/words.h"

namespace conf {
namespace {

class Checker {
 public:
  Checker(const Config& config, const Written& written) : config_(config), written_(written) {}

  [[nodiscard]] std::vector<Mistake> run() && {
    check_required();
    check_names("nodes", config_.nodes);
    check_names("users", config_.users);
    check_weights();
    check_passwords();
    return std::move(mistakes_);
  }

 private:
  // `path` is what the message names; it stands where `path` does, or where it should.
  void add(const std::string& path, const std::string& message) {
    const Place place = written_.place(path);
    mistakes_.push_back({place.line, place.column, fmt::format("{}: {}", path, message)});
  }

  [[nodiscard]] static std::string node_path(std::size_t i, std::string_view key) {
    return fmt::format("nodes[{}].{}", i, key);
  }

  void check_required() {
    for (const Option<Config>& option : config_options()) {
      const std::string path(option.path);
      if (option.is_required && !written_.has(path)) {
        add(path, fmt::format("is missing; it needs {}", option.form));
      }
    }
    if (!written_.has("nodes")) add("nodes", "is missing; it needs a list of at least one node");
    check_required("nodes", config_.nodes.size(), node_options());
    check_required("users", config_.users.size(), user_options());
  }

  template <class Target>
  void check_required(std::string_view list, std::size_t count,
                      std::span<const Option<Target>> options) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::string item = fmt::format("{}[{}]", list, i);
      for (const Option<Target>& option : options) {
        const std::string path = fmt::format("{}.{}", item, option.path);
        if (option.is_required && !written_.has(path) && written_.is_good(item))
          add(path, fmt::format("is missing; it needs {}", option.form));
      }
    }
  }

  template <class Target>
  void check_names(std::string_view list, const std::vector<Target>& items) {
    std::map<std::string_view, std::size_t> seen;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::string& name = items[i].name;
      if (name.empty()) continue;
      const auto [first, is_new] = seen.emplace(name, i);
      if (is_new) continue;
      add(fmt::format("{}[{}].name", list, i),
          fmt::format("{} is the name of {}[{}] already; names must differ", in_quotes(name), list,
                      first->second));
    }
  }

  void check_weights() {
    const bool lists_slots = std::ranges::any_of(
        config_.nodes, [](const NodeConfig& node) { return node.slots.has_value(); });
    const bool all_are_zero =
        !config_.nodes.empty() &&
        std::ranges::all_of(config_.nodes, [](const NodeConfig& node) { return node.weight == 0; });
    if (all_are_zero && !lists_slots) {
      add(node_path(0, "weight"),
          "every node has weight 0, so that none can own slots; give one a weight above 0");
    }
  }

  void check_password_pair(const std::string& password) {
    check_exclusive(password, password + "_file");
  }

  void check_exclusive(const std::string& one, const std::string& other) {
    if (!written_.has(one) || !written_.has(other)) return;
    const bool other_is_later =
        std::pair(written_.place(other).line, written_.place(other).column) >
        std::pair(written_.place(one).line, written_.place(one).column);
    const std::string& later = other_is_later ? other : one;
    const std::string& earlier = other_is_later ? one : other;
    add(later, fmt::format("{} is given as well (line {}); give one of the two", in_quotes(earlier),
                           written_.place(earlier).line));
  }

  void check_passwords() {
    check_password_pair("listen.password");
    check_password_pair("listen.admin_password");
    if (written_.is_good("listen.admin") && !config_.listen.admin.is_unix() &&
        !written_.has("listen.admin_password") && !written_.has("listen.admin_password_file") &&
        !written_.has("listen.admin_users")) {
      add("listen.admin",
          fmt::format("{} can be reached by anyone on the network; it needs admin_password or "
                      "admin_password_file, or a Unix socket path instead",
                      in_quotes(config_.listen.admin.text())));
    }
    check_admin_users();
    check_users();
    for (std::size_t i = 0; i < config_.nodes.size(); ++i) {
      check_password_pair(node_path(i, "password"));
      if (written_.is_good(node_path(i, "username")) && !written_.has(node_path(i, "password")) &&
          !written_.has(node_path(i, "password_file"))) {
        add(node_path(i, "username"), "a user needs a password too; add password or password_file");
      }
    }
  }

  void check_users() {
    for (std::size_t i = 0; i < config_.users.size(); ++i) {
      const std::string path = fmt::format("users[{}].", i);
      check_exclusive(path + "passwords", path + "passwords_file");
      if (config_.users[i].name != "default") continue;
      check_exclusive(path + "name", "listen.password");
      check_exclusive(path + "name", "listen.password_file");
    }
  }

  // A password says who it is that logs in.
  void check_admin_users() {
    if (written_.has("listen.admin_users") && !written_.is_good("listen.admin_users")) return;
    std::map<std::string_view, std::string_view> names;  // By password.
    if (!config_.listen.admin_password.empty())
      names.emplace(config_.listen.admin_password, "listen.admin_password");
    std::set<std::string_view> seen;
    for (const AdminUser& user : config_.listen.admin_users) {
      if (!seen.insert(user.name).second)
        add("listen.admin_users",
            fmt::format("{} is there twice; names must differ", in_quotes(user.name)));
      const auto [first, is_new] = names.emplace(user.password, user.name);
      if (!is_new)
        add("listen.admin_users", fmt::format("the password of {} is that of {} too; each needs "
                                              "one of its own",
                                              in_quotes(user.name), first->second));
    }
    const bool is_tcp = written_.is_good("listen.admin") && !config_.listen.admin.is_unix();
    if (config_.approval == Approval::TwoPerson && is_tcp && names.size() < 2) {
      add("approval",
          "two_person needs two passwords at a TCP admin port, else nobody could ever approve; add "
          "listen.admin_users, such as [ana:SECRET, eva:ANOTHER]");
    }
  }

  const Config& config_;
  const Written& written_;
  std::vector<Mistake> mistakes_;
};

}  // namespace

std::vector<Mistake> check(const Config& config, const Written& written) {
  std::vector<Mistake> mistakes = Checker(config, written).run();
  for (const auto part : {&check_addresses, &check_slots}) {
    std::ranges::move(part(config, written), std::back_inserter(mistakes));
  }
  return mistakes;
}

}  // namespace conf
