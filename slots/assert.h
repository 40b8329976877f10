// SP_ASSERT: a broken invariant ends the process, in release builds too. Never for input of any
// kind.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace slots {

[[noreturn]] inline void assertion_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "slotproxy: broken invariant: %s (%s:%d)\n", expression, file, line);
  std::abort();
}

}  // namespace slots

#define SP_ASSERT(expression)          \
  (__builtin_expect(!!(expression), 1) \
       ? void(0)                       \
       : ::slots::assertion_failed(#expression, __FILE__, __LINE__))
