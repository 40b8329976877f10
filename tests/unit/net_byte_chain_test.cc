#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/net/byte_chain.h"

namespace {

using proxy::net::BlockPool;
using proxy::net::ByteChain;
using proxy::net::kSlabBytes;

// `count` bytes that tell their place.
std::string pattern(std::size_t count, std::size_t first = 0) {
  std::string bytes(count, '\0');
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>((first + i) * 7 % 251);
  return bytes;
}

std::string gathered(const ByteChain& chain, int most = 10'000) {
  std::vector<iovec> vectors(static_cast<std::size_t>(most));
  int count = chain.gather(vectors.data(), most);
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    const iovec& part = vectors[static_cast<std::size_t>(i)];
    bytes.append(static_cast<const char*>(part.iov_base), part.iov_len);
  }
  return bytes;
}

std::string all_of(const ByteChain& chain) {
  std::string scratch;
  return std::string(chain.contiguous(scratch));
}

}  // namespace

TEST_CASE("a chain gives back the bytes it was given, in order") {
  BlockPool pool;
  ByteChain chain;
  CHECK(chain.empty());
  CHECK(gathered(chain).empty());
  CHECK(all_of(chain).empty());
  chain.append(pool, "GET ");
  chain.append(pool, std::string_view("sku"));
  CHECK(chain.size() == 7);
  CHECK(all_of(chain) == "GET sku");
  chain.consume(pool, 4);
  CHECK(all_of(chain) == "sku");
  CHECK(gathered(chain) == "sku");
  chain.release(pool);
  CHECK(chain.empty());
}

TEST_CASE("bytes of any size fit, whatever the blocks' sizes") {
  BlockPool pool;
  for (std::size_t size :
       {std::size_t{1}, std::size_t{BlockPool::kSmall} - 1, std::size_t{BlockPool::kSmall},
        std::size_t{BlockPool::kSmall} + 1, std::size_t{BlockPool::kLarge},
        std::size_t{BlockPool::kLarge} + 1, std::size_t{5 * BlockPool::kLarge + 3}}) {
    CAPTURE(size);
    ByteChain chain;
    std::string bytes = pattern(size);
    chain.append(pool, bytes);
    CHECK(chain.size() == size);
    CHECK(gathered(chain) == bytes);
    CHECK(all_of(chain) == bytes);
    chain.append(pool, "!");
    CHECK(gathered(chain) == bytes + "!");
    chain.release(pool);
  }
}

TEST_CASE("appending nothing changes nothing") {
  BlockPool pool;
  ByteChain chain;
  chain.append(pool, "");
  CHECK(chain.empty());
  chain.append(pool, "a");
  chain.append(pool, "");
  CHECK(all_of(chain) == "a");
  chain.release(pool);
}

TEST_CASE("one block is lent without a copy, several are copied together") {
  BlockPool pool;
  ByteChain chain;
  std::string scratch = "untouched";
  chain.append(pool, "abc");
  CHECK(chain.contiguous(scratch) == "abc");
  CHECK(chain.only_block() == "abc");
  CHECK(scratch == "untouched");
  chain.append(pool, pattern(40'000));
  CHECK(chain.only_block().empty());
  const std::string_view copy = chain.contiguous(scratch);
  CHECK(copy.data() == scratch.data());
  CHECK(scratch == "abc" + pattern(40'000));
  chain.release(pool);
  chain.append(pool, "d");
  chain.release_only_block(pool);
  CHECK(chain.empty());
  CHECK(chain.only_block().empty());
}

TEST_CASE("a gather fills as many vectors as it is given, from the front") {
  BlockPool pool;
  ByteChain chain;
  std::string bytes = pattern(4 * std::size_t{BlockPool::kLarge});
  chain.append(pool, bytes);
  std::array<iovec, 2> vectors;
  CHECK(chain.gather(vectors.data(), 2) == 2);
  CHECK(bytes.starts_with(gathered(chain, 2)));
  CHECK(chain.gather(vectors.data(), 0) == 0);
  chain.release(pool);
}

TEST_CASE("a chain takes another's blocks over") {
  BlockPool pool;
  ByteChain first;
  ByteChain second;
  first.append(pool, second);
  CHECK(first.empty());
  second.append(pool, "def");
  SUBCASE("behind its own bytes") {
    first.append(pool, "abc");
    first.append(pool, second);
    CHECK(all_of(first) == "abcdef");
    CHECK(first.size() == 6);
  }
  SUBCASE("when it has none itself") {
    first.append(pool, second);
    CHECK(all_of(first) == "def");
  }
  CHECK(second.empty());
  CHECK(gathered(second).empty());
  first.append(pool, "ghi");
  CHECK(all_of(first).ends_with("defghi"));
  second.append(pool, "again");
  CHECK(all_of(second) == "again");
  first.release(pool);
  second.release(pool);
}

TEST_CASE("a chain of many chains takes little more memory than its bytes") {
  BlockPool pool;
  for (unsigned size : {100U, 1'000U, 4'400U, 10'000U, 17'000U, 33'000U}) {
    CAPTURE(size);
    ByteChain all;
    std::string expected;
    std::size_t before = pool.slabs();
    while (expected.size() < 8'000'000) {
      ByteChain one;
      std::string bytes = pattern(size, expected.size());
      one.append(pool, bytes);
      all.append(pool, one);
      expected += bytes;
    }
    CHECK((pool.slabs() - before) * kSlabBytes < 11'000'000);
    CHECK(gathered(all) == expected);
    all.release(pool);
    for (int calls = 0; calls < 20; ++calls) pool.trim();
  }
}

TEST_CASE("whatever is appended and consumed, the chain equals a string") {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    BlockPool pool;
    ByteChain chain;
    std::string expected;
    for (std::size_t step = 0; step < 200; ++step) {
      std::size_t most = std::array<std::size_t, 4>{8, 500, 5'000, 90'000}[random() % 4];
      if (random() % 2 == 0) {
        std::string bytes = pattern(random() % most, step);
        chain.append(pool, bytes);
        expected += bytes;
      } else {
        std::size_t count = random() % (std::min(most, expected.size()) + 1);
        if (random() % 8 == 0) count = expected.size();
        chain.consume(pool, count);
        expected.erase(0, count);
      }
      REQUIRE(chain.size() == expected.size());
      REQUIRE(gathered(chain) == expected);
      if (step % 16 == 0) REQUIRE(all_of(chain) == expected);
      if (step % 32 == 0) pool.trim();
    }
    chain.release(pool);
    REQUIRE(gathered(chain).empty());
  }
}

TEST_CASE("a consumed chain's blocks are used again") {
  BlockPool pool;
  ByteChain chain;
  chain.append(pool, "abc");
  const char* place = chain.only_block().data();
  chain.consume(pool, 3);
  chain.append(pool, "def");
  CHECK(chain.only_block().data() == place);
  chain.release(pool);
}

TEST_CASE("blocks that nobody uses any more go back to the system") {
  BlockPool pool;
  ByteChain small;
  ByteChain large;
  small.append(pool, "abc");
  large.append(pool, pattern(100 * std::size_t{BlockPool::kLarge}));
  const std::size_t in_use = pool.slabs();
  large.release(pool);
  for (int calls = 0; calls < 10; ++calls) pool.trim();
  CHECK(pool.slabs() == 2);  // The one that is in use of either size.
  CHECK(pool.slabs() < in_use);
  CHECK(all_of(small) == "abc");
  small.release(pool);
}
