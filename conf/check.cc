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
    check_names();
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
    for (std::size_t i = 0; i < config_.nodes.size(); ++i) {
      for (const Option<NodeConfig>& option : node_options()) {
        const std::string path = node_path(i, option.path);
        if (option.is_required && !written_.has(path) &&
            written_.is_good(fmt::format("nodes[{}]", i))) {
          add(path, fmt::format("is missing; it needs {}", option.form));
        }
      }
    }
  }

  void check_names() {
    std::map<std::string_view, std::size_t> seen;
    for (std::size_t i = 0; i < config_.nodes.size(); ++i) {
      const std::string& name = config_.nodes[i].name;
      if (name.empty()) continue;
      const auto [first, is_new] = seen.emplace(name, i);
      if (is_new) continue;
      add(node_path(i, "name"),
          fmt::format("{} is the name of nodes[{}] already; names must differ", in_quotes(name),
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
    const std::string file = password + "_file";
    if (!written_.has(password) || !written_.has(file)) return;
    const bool file_is_later =
        std::pair(written_.place(file).line, written_.place(file).column) >
        std::pair(written_.place(password).line, written_.place(password).column);
    const std::string& later = file_is_later ? file : password;
    const std::string& earlier = file_is_later ? password : file;
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
    for (std::size_t i = 0; i < config_.nodes.size(); ++i) {
      check_password_pair(node_path(i, "password"));
      if (written_.is_good(node_path(i, "username")) && !written_.has(node_path(i, "password")) &&
          !written_.has(node_path(i, "password_file"))) {
        add(node_path(i, "username"), "a user needs a password too; add password or password_file");
      }
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
