// CommandTable: every command by name. Immutable; one built in, and next ones with what a node
// knows beyond it.
//
// Thread:  any; find() is on the data path (no lock, no allocation).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/resp/command_spec.h"
#include "slots/result.h"

namespace proxy::resp {

class CommandTable {
 public:
  [[nodiscard]] static std::shared_ptr<const CommandTable> built_in();

  // `base` and what a node knows beyond it, from its raw reply to COMMAND (RESP2). Of a command
  // that both know, base's spec stays, but for an arity that the node takes more loosely: then the
  // node judges the arguments. Names beyond kNameMax bytes can't be learned. Errors:
  // InvalidArgument for bytes that are no such reply; LimitExceeded beyond kSpecsMax commands.
  [[nodiscard]] static slots::Result<std::shared_ptr<const CommandTable>> with_learned(
      const CommandTable& base, std::string_view command_reply);

  // The same with these refused ("keys", "config|set", "config" with all that it contains). Names
  // that it does not have are passed over.
  [[nodiscard]] static std::shared_ptr<const CommandTable> refusing(
      std::shared_ptr<const CommandTable> base, std::span<const std::string> names);

  // Any case. Null: unknown. Subcommands are not found here.
  [[nodiscard]] const CommandSpec* find(std::string_view name) const {
    FoldedName folded;
    if (!folded.assign(name)) return nullptr;
    for (std::size_t at = folded.hash() & mask_;; at = (at + 1) & mask_) {
      const Entry& entry = entries_[at];
      if (entry.name == folded) [[likely]]
        return entry.spec;
      if (entry.spec == nullptr) return nullptr;
    }
  }
  // "setname" of "client", any case. Null: unknown.
  [[nodiscard]] const CommandSpec* find_sub(const CommandSpec& container,
                                            std::string_view sub) const;

  // The built-in ones first, in the order of CommandId.
  [[nodiscard]] std::span<const CommandSpec> specs() const { return specs_; }

  static constexpr std::size_t kNameMax = 24;
  static constexpr std::size_t kSpecsMax = 10000;

 private:
  // A name in lower case, padded with zeros: three words to hash and compare.
  struct FoldedName {
    std::uint64_t words[3] = {0, 0, 0};

    // False: not the name of any command. A zero at the end would be taken for padding.
    bool assign(std::string_view name) {
      static_assert(sizeof words == kNameMax);
      if (name.size() > sizeof words || name.empty() || name.back() == '\0') return false;
      if (name.size() <= 8) [[likely]] {
        words[0] = fold(short_word(name.data(), name.size()));
        return true;
      }
      char bytes[sizeof words] = {};
      for (std::size_t i = 0; i < name.size(); ++i) bytes[i] = name[i];
      for (std::size_t i = 0; i < 3; ++i) words[i] = fold(word(bytes + 8 * i));
      return true;
    }
    static std::uint64_t word(const char* bytes) {
      std::uint64_t value;
      __builtin_memcpy(&value, bytes, sizeof value);
      return value;
    }
    // 1 to 8 bytes as one word, by loads that overlap where they have to.
    static std::uint64_t short_word(const char* bytes, std::size_t size) {
      if (size == 8) return word(bytes);
      if (size >= 4) {
        std::uint32_t low;
        std::uint32_t high;
        __builtin_memcpy(&low, bytes, 4);
        __builtin_memcpy(&high, bytes + size - 4, 4);
        return low | static_cast<std::uint64_t>(high) << (8 * (size - 4));
      }
      auto byte = [&](std::size_t i) {
        return static_cast<std::uint64_t>(static_cast<std::uint8_t>(bytes[i]));
      };
      return byte(0) | byte(size / 2) << (8 * (size / 2)) | byte(size - 1) << (8 * (size - 1));
    }
    // Letters to lower case, eight at once: bytes from 'A' to 'Z' get 0x20 (high bits kept apart,
    // so no carry).
    static std::uint64_t fold(std::uint64_t value) {
      constexpr std::uint64_t kHigh = 0x8080808080808080ULL;
      constexpr std::uint64_t kOnes = 0x0101010101010101ULL;
      std::uint64_t low = value & ~kHigh;
      std::uint64_t from_a = low + (0x80 - 'A') * kOnes;
      std::uint64_t past_z = low + (0x80 - 'Z' - 1) * kOnes;
      std::uint64_t upper = from_a & ~past_z & ~value & kHigh;
      return value | (upper >> 2);
    }
    [[nodiscard]] std::size_t hash() const {
      std::uint64_t mixed = (words[0] ^ (words[1] * 3) ^ (words[2] * 5)) * 0x9e3779b97f4a7c15ULL;
      return static_cast<std::size_t>(mixed >> 40);
    }
    friend bool operator==(const FoldedName&, const FoldedName&) = default;
  };
  struct Entry {
    FoldedName name;
    const CommandSpec* spec = nullptr;
  };

  explicit CommandTable(std::vector<CommandSpec> specs, std::deque<std::string> names);
  void insert(const CommandSpec& spec);
  [[nodiscard]] std::size_t home_of_sub(const FoldedName& sub, std::string_view container) const;

  std::vector<CommandSpec> specs_;
  std::deque<std::string> names_;  // Of learned commands; a deque, since specs point at them.
  // Open-addressed, at most a quarter full. Subcommands stand apart, under their own part of the
  // name.
  std::vector<Entry> entries_;
  std::vector<Entry> sub_entries_;
  std::size_t mask_ = 0;
};

}  // namespace proxy::resp
