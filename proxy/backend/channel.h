// Channel: which of a node's connections a request needs. A server answers by what it remembers of
// the connection, the protocol version and the selected database, so each of these pairs has
// connections of its own, and none is ever switched over. Clients that are told only of what others
// change (CLIENT TRACKING with NOLOOP) have quiet ones: the server leaves out what came over those.
#pragma once

#include <cstddef>
#include <cstdint>

#include "conf/config.h"

namespace proxy::backend {

enum class Protocol : std::uint8_t { Resp2, Resp3 };
inline constexpr unsigned kProtocols = 2;

// Told of keys that change by others' doing alone: of those that were read there, or of all.
enum class Quiet : std::uint8_t { No, Reads, All };
inline constexpr unsigned kQuiets = 3;

class Channel {
 public:
  static constexpr std::size_t kCount = kProtocols * kQuiets * conf::kDatabasesMax;

  constexpr explicit Channel(Protocol protocol, unsigned database = 0, Quiet quiet = Quiet::No)
      : index_(static_cast<std::uint16_t>(kProtocols *
                                              (kQuiets * database + static_cast<unsigned>(quiet)) +
                                          static_cast<unsigned>(protocol))) {}

  [[nodiscard]] constexpr Protocol protocol() const {
    return static_cast<Protocol>(index_ % kProtocols);
  }
  [[nodiscard]] constexpr Quiet quiet() const {
    return static_cast<Quiet>(index_ / kProtocols % kQuiets);
  }
  [[nodiscard]] constexpr unsigned database() const { return index_ / (kProtocols * kQuiets); }
  [[nodiscard]] constexpr std::size_t index() const { return index_; }

  [[nodiscard]] constexpr Channel with(Protocol protocol) const {
    return Channel(protocol, database(), quiet());
  }
  [[nodiscard]] constexpr Channel with(Quiet quiet) const {
    return Channel(protocol(), database(), quiet);
  }

  [[nodiscard]] constexpr Channel at(unsigned database) const {
    return Channel(protocol(), database, quiet());
  }

  friend constexpr bool operator==(Channel, Channel) = default;

 private:
  static_assert(kCount <= 65536);

  std::uint16_t index_;
};

}  // namespace proxy::backend
