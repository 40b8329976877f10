// dial(): a connected socket to an address, within a time. Blocks the calling thread.
//
// Names are resolved in a thread of their own, which is left to itself when it takes too long: the
// system's resolver has no way to be told to hurry.
#pragma once

#include <chrono>

#include "conf/config.h"
#include "slots/result.h"

namespace proxy::mover {

// A non-blocking descriptor, the caller's from then on. Each address that a name stands for is
// tried. Errors: Unavailable, Timeout; also Unavailable as soon as `interrupt` (-1: none) becomes
// readable.
[[nodiscard]] slots::Result<int> dial(const conf::Address& address,
                                      std::chrono::steady_clock::time_point deadline,
                                      int interrupt);

// For poll(): rounded up, so that nobody spins for the last fraction; 0 once it is over.
[[nodiscard]] int milliseconds_until(std::chrono::steady_clock::time_point deadline);

}  // namespace proxy::mover
