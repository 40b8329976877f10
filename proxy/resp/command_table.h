// CommandTable: finds what is known of a command by its name, in any case of letters.
//
// Thread:  immutable once made; shared by all workers.
// Memory:  specs live as long as their table; those of built_in() for ever. A CommandSpec belongs to one table: hand
//          find_sub() a container of the same table.
// Cost:    find() and find_sub() neither allocate nor loop over the name: the folded name is packed into three words
//          that are compared with an entry of an open-addressed index.
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
  CommandTable(const CommandTable&) = delete;
  CommandTable& operator=(const CommandTable&) = delete;

  // Every command and subcommand of Redis 7.0, and the few newer subcommands that the proxy answers by itself.
  [[nodiscard]] static std::shared_ptr<const CommandTable> built_in();

  // `base` and what a node knows beyond it, from the node's whole reply to COMMAND (RESP2). Of a command that both
  // know, base's spec stays, but for an arity that the node takes more loosely: then the node judges the arguments.
  // Errors: Corrupt, when the reply is not what COMMAND answers; LimitExceeded, when a node names absurdly many.
  [[nodiscard]] static slots::Result<std::shared_ptr<const CommandTable>> with_learned(const CommandTable& base,
                                                                                      std::string_view command_reply);

  // Null: no such command. Only top-level names: "client|setname" is found by find_sub() alone.
  [[nodiscard]] const CommandSpec* find(std::string_view name) const { return lookup(name, 0); }
  // Null: the container has no such subcommand.
  [[nodiscard]] const CommandSpec* find_sub(const CommandSpec& container, std::string_view sub) const {
    return lookup(sub, container.index + 1U);
  }

  // The spec that Redis would judge these arguments by: the subcommand's where the command has subcommands and one is
  // named, else the command's. Null when the command or the subcommand is unknown; error_text.h has the texts.
  [[nodiscard]] const CommandSpec* resolve(Args args) const {
    const CommandSpec* spec = args.empty() ? nullptr : find(args[0]);
    if (spec == nullptr || spec->rule != KeyRule::Container || args.size() == 1) {
      return spec;
    }
    return find_sub(*spec, args[1]);
  }

  // Built-in ones first, in the order of CommandId; a container stands before its subcommands.
  [[nodiscard]] std::span<const CommandSpec> specs() const { return specs_; }

 private:
  // A folded name in three words, and what else must agree: the name's length and whose subcommand it is.
  struct PackedName {
    std::uint64_t head = 0;
    std::uint64_t middle = 0;
    std::uint64_t tail = 0;
    std::uint32_t tag = 0;  // parent << 16 | length; parent 0 is the top level, else index of the container + 1.

    friend bool operator==(const PackedName&, const PackedName&) = default;
  };
  struct Entry {
    PackedName name;
    std::uint16_t spec = kEmpty;
  };
  static constexpr std::uint16_t kEmpty = 0xffff;

  CommandTable() = default;

  [[nodiscard]] static PackedName pack(std::string_view name, std::uint32_t parent);
  [[nodiscard]] std::size_t home_of(const PackedName& name) const;
  [[nodiscard]] const CommandSpec* lookup(std::string_view name, std::uint32_t parent) const;

  void copy_specs_of(const CommandTable& base);
  CommandSpec& append(CommandSpec spec);  // Copies the name unless it is a built-in one.
  void rebuild_index();                   // After the last append().
  void insert(std::uint16_t index);

  std::vector<CommandSpec> specs_;
  std::deque<std::string> names_;  // Of learned commands; a deque, since specs point at them.
  std::vector<Entry> entries_;     // A power of two, at most half full.
  int shift_ = 0;                  // 64 - log2(entries_.size()).
};

}  // namespace proxy::resp
