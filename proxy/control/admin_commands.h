// AdminCommands: what the admin port's verbs do, apart from AUTH and QUIT, which are the
// connection's own.
//
// Thread:  the control loop. Destroying it means that no answer is called any more.
// Limits:  one reload and one count of strays at a time; a second one is refused.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proxy/control/admin_port.h"
#include "slots/result.h"

namespace proxy::control {

struct AdminReply {
  enum class Kind : std::uint8_t { Simple, Body, Error };

  Kind kind = Kind::Simple;
  std::string text = {};  // A word, one line of JSON, or an error with its leading word.

  static AdminReply simple(std::string text) { return {Kind::Simple, std::move(text)}; }
  static AdminReply body(std::string json) { return {Kind::Body, std::move(json)}; }
  static AdminReply error(std::string text) { return {Kind::Error, std::move(text)}; }
};

class AdminCommands {
 public:
  using Words = std::vector<std::string>;  // The verb and its arguments; never empty.
  using Done = std::function<void(AdminReply)>;

  // `port` must outlive it.
  explicit AdminCommands(AdminPort& port) : port_(port) {}
  ~AdminCommands() { *life_ = false; }
  AdminCommands(const AdminCommands&) = delete;
  AdminCommands& operator=(const AdminCommands&) = delete;

  // Calls `done` exactly once, perhaps from inside this call.
  void run(const Words& words, const AdminPeer& peer, Done done);

 private:
  void reload(const AdminPeer& peer, Done done);
  void count_strays(const Words& words, Done done);
  void plan(const Words& words, const AdminPeer& peer, Done done);
  void hot_keys(const Words& words, const Done& done);

  AdminPort& port_;
  bool is_reloading_ = false;
  bool is_counting_ = false;
  std::shared_ptr<bool> life_ = std::make_shared<bool>(true);
};

// The verb in upper case, as in admin::kVerbs.
[[nodiscard]] std::string verb_of(const std::string& word);

}  // namespace proxy::control
