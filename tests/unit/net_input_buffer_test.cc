#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <random>
#include <string>
#include <string_view>

#include "proxy/net/byte_chain.h"
#include "proxy/net/input_buffer.h"

namespace {

using proxy::net::BlockPool;
using proxy::net::InputBuffer;

std::string pattern(std::size_t count, std::size_t first = 0) {
  std::string bytes(count, '\0');
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>((first + i) * 7 % 251);
  return bytes;
}

void append(InputBuffer& buffer, std::string_view bytes) {
  buffer.append(bytes.data(), bytes.size());
}

std::string_view all_of(const InputBuffer& buffer) { return {buffer.data(), buffer.size()}; }

}  // namespace

TEST_CASE("an input buffer holds what was appended and not consumed, in one piece") {
  BlockPool pool;
  InputBuffer buffer(pool);
  CHECK(buffer.empty());
  append(buffer, "GET ");
  append(buffer, "sku");
  CHECK(all_of(buffer) == "GET sku");
  buffer.consume(4);
  CHECK(all_of(buffer) == "sku");
  buffer.consume(3);
  CHECK(buffer.empty());
}

TEST_CASE("an input buffer takes no memory before the first byte") {
  BlockPool pool;
  InputBuffer buffer(pool);
  CHECK(pool.slabs() == 0);
}

TEST_CASE("bytes are moved only when there is no room behind them") {
  BlockPool pool;
  InputBuffer buffer(pool);
  append(buffer, pattern(BlockPool::kSmall - 10));
  const char* place = buffer.data();
  append(buffer, "0123456789");
  CHECK(buffer.data() == place);
  buffer.consume(100);
  append(buffer, pattern(100));
  CHECK(buffer.data() == place);
  CHECK(all_of(buffer) == pattern(BlockPool::kSmall - 110, 100) + "0123456789" + pattern(100));
}

TEST_CASE("what a large request took goes back to the system") {
  BlockPool pool;
  for (std::size_t size :
       {std::size_t{BlockPool::kLarge}, std::size_t{BlockPool::kHuge}, std::size_t{3'000'000}}) {
    InputBuffer buffer(pool);
    while (buffer.size() < size) append(buffer, pattern(1000, buffer.size()));
    CHECK(all_of(buffer) == pattern(buffer.size()));
  }
  for (int calls = 0; calls < 10; ++calls) pool.trim();
  CHECK(pool.slabs() == 3);  // One of each size of blocks.
}

TEST_CASE("whatever is appended and consumed, the buffer equals a string") {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    BlockPool pool;
    InputBuffer buffer(pool);
    std::string expected;
    for (std::size_t step = 0; step < 200; ++step) {
      std::size_t most = std::array<std::size_t, 4>{8, 500, 5'000, 200'000}[random() % 4];
      if (random() % 2 == 0) {
        std::string bytes = pattern(random() % most, step);
        append(buffer, bytes);
        expected += bytes;
      } else {
        std::size_t count = random() % (std::min(most, expected.size()) + 1);
        buffer.consume(count);
        expected.erase(0, count);
      }
      REQUIRE(all_of(buffer) == expected);
      if (step % 32 == 0) pool.trim();
    }
  }
}
