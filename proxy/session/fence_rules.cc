#include "proxy/session/fence_rules.h"

#include <algorithm>
#include <vector>

#include "proxy/resp/key_finder.h"
#include "slots/key_slot.h"

namespace proxy::session {

using resp::CommandId;

bool may_write_any_key(const resp::CommandSpec& spec) {
  switch (spec.id) {
    case CommandId::Eval:
    case CommandId::Evalsha:
    case CommandId::Fcall:
      return true;
    case CommandId::Learned:
      return !spec.has(resp::CommandFlag::ReadOnly);
    default:
      return spec.has(resp::CommandFlag::Write);
  }
}

bool keeps_back(const Fence& fence, const resp::CommandTable& commands, resp::Args args) {
  const resp::CommandSpec* spec = resp::find_command(commands, args);
  if (spec == nullptr || !spec->arity_ok(args.size())) return false;
  thread_local std::vector<std::uint32_t> positions;
  if (!resp::find_keys(*spec, args, positions)) return false;
  if (positions.empty()) return may_write_any_key(*spec);
  return std::ranges::any_of(positions, [&](std::uint32_t position) {
    return fence.slots.contains(slots::slot_of_key(args[position]));
  });
}

}  // namespace proxy::session
