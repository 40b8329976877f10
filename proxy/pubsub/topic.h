// What can be subscribed: a channel, a pattern of channels, a sharded channel. Names of one kind
// say nothing about those of another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace proxy::pubsub {

enum class Kind : std::uint8_t { Channel, Pattern, Sharded };
inline constexpr std::size_t kKinds = 3;

struct Topic {
  Kind kind = Kind::Channel;
  std::string name;
};

struct NameHash {
  // The standard library's name for it. NOLINTNEXTLINE(readability-identifier-naming)
  using is_transparent = void;
  std::size_t operator()(std::string_view name) const {
    return std::hash<std::string_view>{}(name);
  }
};

template <class T>
using ByName = std::unordered_map<std::string, T, NameHash, std::equal_to<>>;

// A map of names for each kind.
template <class T>
class ByTopic {
 public:
  ByName<T>& operator[](Kind kind) { return maps_[static_cast<std::size_t>(kind)]; }
  const ByName<T>& operator[](Kind kind) const { return maps_[static_cast<std::size_t>(kind)]; }
  auto begin() { return maps_.begin(); }
  auto end() { return maps_.end(); }

 private:
  std::array<ByName<T>, kKinds> maps_;
};

// What clients and nodes call it.
struct KindWords {
  std::string_view subscribe;
  std::string_view unsubscribe;
  std::string_view message;
};
inline constexpr std::array<KindWords, kKinds> kKindWords{{
    {"subscribe", "unsubscribe", "message"},
    {"psubscribe", "punsubscribe", "pmessage"},
    {"ssubscribe", "sunsubscribe", "smessage"},
}};
[[nodiscard]] inline const KindWords& words_of(Kind kind) {
  return kKindWords[static_cast<std::size_t>(kind)];
}

}  // namespace proxy::pubsub
