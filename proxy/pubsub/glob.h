// Redis's patterns of names: * ? [a-z] [^x] and \ before a character that is meant itself. Pure.
// https://redis.io/docs/latest/commands/psubscribe/
#pragma once

#include <string_view>

namespace proxy::pubsub {

// As Redis does, down to a set without an end, and to an empty name, which only an empty pattern
// fits. Takes time in proportion to both lengths multiplied, at most.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view name);

}  // namespace proxy::pubsub
