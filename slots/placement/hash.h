// hash64(): the hash of ring, rendezvous and modulo. The first 8 bytes of MD5, big-endian: no
// secret, but the same on every machine and in every language, so that placements can be checked by
// hand (`printf name#0 | md5sum`).
#pragma once

#include <cstdint>
#include <string_view>

namespace slots {

[[nodiscard]] std::uint64_t hash64(std::string_view text);

}  // namespace slots
