#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <set>
#include <vector>

#include "proxy/net/slab_pool.h"

namespace {

struct Piece {
  std::size_t number = 7;
  Piece* next = nullptr;
};

constexpr std::size_t kPieceBytes = 1024;
constexpr std::size_t kPiecesOfSlab = 255;  // 256 KiB less the slab's header.
using Pool = proxy::net::SlabPool<Piece, kPieceBytes, &Piece::next>;

std::vector<Piece*> take(Pool& pool, std::size_t count) {
  std::vector<Piece*> pieces;
  while (pieces.size() < count) pieces.push_back(pool.take());
  return pieces;
}

void give(Pool& pool, std::vector<Piece*> pieces) {
  for (Piece* piece : pieces) pool.give(piece);
}

// Calls of trim() until one unmaps nothing.
int trims_until_settled(Pool& pool) {
  int calls = 0;
  pool.trim();  // From now on what is empty counts as unused.
  for (std::size_t before = pool.slabs() + 1; pool.slabs() < before; ++calls) {
    before = pool.slabs();
    pool.trim();
  }
  return calls - 1;
}

}  // namespace

TEST_CASE("a pool maps nothing before the first piece, and a slab for many") {
  Pool pool;
  CHECK(pool.slabs() == 0);
  std::vector<Piece*> pieces = take(pool, kPiecesOfSlab);
  CHECK(pool.slabs() == 1);
  pieces.push_back(pool.take());
  CHECK(pool.slabs() == 2);
  give(pool, pieces);
}

TEST_CASE("pieces are constructed once and come back as they were given") {
  Pool pool;
  Piece* piece = pool.take();
  CHECK(piece->number == 7);
  piece->number = 8;
  pool.give(piece);
  CHECK(pool.take() == piece);
  CHECK(piece->number == 8);
  pool.give(piece);
}

TEST_CASE("pieces do not overlap") {
  Pool pool;
  std::vector<Piece*> pieces = take(pool, 3 * kPiecesOfSlab);
  std::sort(pieces.begin(), pieces.end());
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    REQUIRE(reinterpret_cast<char*>(pieces[i]) - reinterpret_cast<char*>(pieces[i - 1]) >=
            std::ptrdiff_t{kPieceBytes});
  }
  give(pool, pieces);
}

TEST_CASE("what was given back is taken again before more is mapped") {
  Pool pool;
  std::vector<Piece*> pieces = take(pool, 4 * kPiecesOfSlab);
  std::shuffle(pieces.begin(), pieces.end(), std::mt19937(5));
  std::vector<Piece*> given(pieces.begin(), pieces.begin() + 2 * kPiecesOfSlab);
  std::vector<Piece*> kept(pieces.begin() + 2 * kPiecesOfSlab, pieces.end());
  give(pool, given);
  std::vector<Piece*> taken = take(pool, given.size());
  CHECK(pool.slabs() == 4);
  CHECK(std::set(given.begin(), given.end()) == std::set(taken.begin(), taken.end()));
  give(pool, kept);
  give(pool, taken);
}

TEST_CASE("trim unmaps the slabs that a burst has emptied, half of them at a time") {
  Pool pool;
  std::vector<Piece*> burst = take(pool, 33 * kPiecesOfSlab);
  CHECK(pool.slabs() == 33);
  SUBCASE("not while they are in use") {
    CHECK(trims_until_settled(pool) == 0);
    CHECK(pool.slabs() == 33);
    give(pool, burst);
  }
  SUBCASE("all but the one that pieces are taken from") {
    give(pool, burst);
    CHECK(trims_until_settled(pool) == 6);  // 16, 8, 4, 2, 1, 1.
    CHECK(pool.slabs() == 1);
  }
  SUBCASE("not what was needed since the call before") {
    give(pool, burst);
    pool.trim();
    give(pool, take(pool, burst.size()));
    pool.trim();
    CHECK(pool.slabs() == 33);
  }
  SUBCASE("not one of which a single piece is in use") {
    std::vector<Piece*> rest(burst.begin() + 1, burst.end());
    give(pool, rest);
    burst[0]->number = 9;
    trims_until_settled(pool);
    CHECK(pool.slabs() == 2);
    CHECK(burst[0]->number == 9);
    pool.give(burst[0]);
  }
}

TEST_CASE("whatever is taken, given and trimmed, nobody gets a piece that another has") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    Pool pool;
    std::vector<Piece*> pieces;
    std::size_t number = 0;
    std::set<std::size_t> numbers;
    for (int step = 0; step < 100; ++step) {
      std::size_t count = random() % (random() % 4 == 0 ? 2000 : 20);
      if (random() % 2 == 0) {
        for (Piece* piece : take(pool, count)) {
          piece->number = ++number;
          numbers.insert(number);
          pieces.push_back(piece);
        }
      } else {
        std::shuffle(pieces.begin(), pieces.end(), random);
        for (count = std::min(count, pieces.size()); count > 0; --count) {
          REQUIRE(numbers.erase(pieces.back()->number) == 1);
          pool.give(pieces.back());
          pieces.pop_back();
        }
      }
      pool.trim();
    }
    for (Piece* piece : pieces) REQUIRE(numbers.erase(piece->number) == 1);
    give(pool, pieces);
  }
}
