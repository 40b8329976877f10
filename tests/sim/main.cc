// sim: runs the mover's state machine against nodes, clients and faults that all come from a seed.
//
//   sim --seeds 1000            runs seeds 1 .. 1000, then sees whether every flaw is found within
//                               3000 (--flaw-seeds)
//   sim --seed 17 --trace       replays one run, and tells every step
//   sim --seed 17 --flaw NAME   with a flaw put in
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "tests/sim/world.h"

namespace {

using sim::Flaw;

std::optional<std::string> run(std::uint64_t seed, Flaw flaw, bool is_traced, sim::Tally& tally) {
  try {
    sim::World(seed, flaw, is_traced, tally).run();
    return std::nullopt;
  } catch (const sim::Violation& violation) {
    return violation.text;
  }
}

void print(const sim::Tally& tally) {
  fmt::print(
      "{} runs: {} done, {} aborted, {} failed, {} left to a human; {} commits, {} fences lifted, "
      "{} given back, {} keys in pieces, {} streams renewed, {} crashes of nodes, {} of the proxy; "
      "longest wait {} ms\n",
      tally.runs, tally.done, tally.aborted, tally.failed, tally.left_to_a_human, tally.commits,
      tally.lifted, tally.given_back, tally.in_pieces, tally.renewed, tally.node_crashes,
      tally.proxy_crashes, tally.longest_wait_ms);
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::uint64_t seeds = 1000;
  std::uint64_t flaw_seeds = 3000;
  std::optional<std::uint64_t> one;
  Flaw flaw = Flaw::None;
  bool is_traced = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (option == "--trace") {
      is_traced = true;
      continue;
    }
    if (option == "--seeds") {
      seeds = std::strtoull(value, nullptr, 10);
    } else if (option == "--flaw-seeds") {
      flaw_seeds = std::strtoull(value, nullptr, 10);
    } else if (option == "--seed") {
      one = std::strtoull(value, nullptr, 10);
    } else if (option == "--flaw") {
      for (const sim::FlawText& text : sim::flaws()) {
        if (std::strcmp(text.name, value) == 0) flaw = text.flaw;
      }
      if (flaw == Flaw::None) {
        fmt::print(stderr, "sim: no flaw is called {}\n", value);
        return 2;
      }
    } else {
      fmt::print(stderr, "sim: what is {}?\n", option);
      return 2;
    }
    ++i;
  }

  sim::Tally tally;
  if (one) {
    const auto wrong = run(*one, flaw, is_traced, tally);
    fmt::print("seed {}: {}\n", *one, wrong ? *wrong : "all is well");
    return wrong ? 1 : 0;
  }

  std::uint64_t passed = 0;
  std::uint64_t failed = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const auto wrong = run(seed, flaw, false, tally);
    (wrong ? failed : passed)++;
    if (!wrong) continue;
    fmt::print("seed {}: {}\n  replay: {} --seed {} --trace\n", seed, *wrong, argv[0], seed);
    if (failed == 10) break;
  }
  print(tally);
  if (flaw == Flaw::None && flaw_seeds > 0) {
    for (const sim::FlawText& text : sim::flaws()) {
      sim::Tally ignored;
      std::optional<std::string> found;
      std::uint64_t seed = 0;
      while (!found && seed < flaw_seeds) {
        found = run(++seed, text.flaw, false, ignored);
        if (found && !found->starts_with("I")) found.reset();  // Stuck: that proves nothing.
      }
      (found ? passed : failed)++;
      if (found) {
        fmt::print("flaw {} ({}): found by seed {}: {}\n", text.name, text.invariant, seed, *found);
      } else {
        fmt::print("flaw {} ({}) was not found in {} runs: {}\n", text.name, text.invariant, seed,
                   text.what);
      }
    }
  }
  fmt::print("sim: {} passed, {} failed, 0 skipped\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
