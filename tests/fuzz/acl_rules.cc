// Any text is a user's rules or says what is wrong with them; what a user shows reads to the same
// user, and judges the same.

#include <cstdint>
#include <string_view>
#include <vector>

#include "proxy/acl/user.h"
#include "proxy/resp/key_finder.h"
#include "slots/assert.h"

namespace {

using proxy::acl::User;
using proxy::resp::CommandTable;

bool apply_all(User& user, std::string_view text) {
  const auto words = proxy::acl::split_rules(text);
  if (!words) {
    SP_ASSERT(!words.error().message.empty());
    return false;
  }
  for (const std::string& word : *words) {
    if (auto applied = user.apply(word); !applied) {
      SP_ASSERT(!applied.error().message.empty());
      return false;
    }
  }
  return true;
}

void check_same(const User& one, const User& other) {
  const std::vector<std::vector<std::string_view>> calls = {
      {"get", "a"},          {"set", "a", "b", "get"}, {"mget", "a", "bc"}, {"config", "get", "a"},
      {"subscribe", "news"}, {"select", "0"},          {"rename", "a", "b"}};
  for (const auto& args : calls) {
    const auto* spec = proxy::resp::find_command(*CommandTable::built_in(), args);
    const auto verdict = one.judge(*spec, args);
    const auto again = other.judge(*spec, args);
    SP_ASSERT(verdict.denied == again.denied && verdict.argument == again.argument);
  }
}

}  // namespace

// The name is libFuzzer's.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::string_view kBefore = "user u ";
  User user("u", CommandTable::built_in());
  if (!apply_all(user, {reinterpret_cast<const char*>(data), size})) return 0;
  const std::string shown = user.text();
  User again("u", CommandTable::built_in());
  SP_ASSERT(apply_all(again, std::string_view(shown).substr(kBefore.size())));
  SP_ASSERT(again.text() == shown);
  check_same(user, again);
  return 0;
}
