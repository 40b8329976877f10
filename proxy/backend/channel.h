// Channel: which of a node's connections a request needs. A server answers by what it remembers of
// the connection, the protocol version and the selected database, so each of these pairs has
// connections of its own, and none is ever switched over.
#pragma once

#include <cstddef>
#include <cstdint>

#include "conf/config.h"

namespace proxy::backend {

enum class Protocol : std::uint8_t { Resp2, Resp3 };
inline constexpr unsigned kProtocols = 2;

class Channel {
 public:
  static constexpr std::size_t kCount = kProtocols * conf::kDatabasesMax;

  constexpr explicit Channel(Protocol protocol, unsigned database = 0)
      : index_(static_cast<std::uint8_t>(kProtocols * database + static_cast<unsigned>(protocol))) {
  }

  [[nodiscard]] constexpr Protocol protocol() const {
    return static_cast<Protocol>(index_ % kProtocols);
  }
  [[nodiscard]] constexpr unsigned database() const { return index_ / kProtocols; }
  [[nodiscard]] constexpr std::size_t index() const { return index_; }

  friend constexpr bool operator==(Channel, Channel) = default;

 private:
  static_assert(kCount <= 256);

  std::uint8_t index_;
};

}  // namespace proxy::backend
