#include "proxy/session/transaction_rules.h"

#include "proxy/resp/key_finder.h"

namespace proxy::session {

using resp::CommandId;

QueuedAs queued_as(const resp::CommandSpec& spec, resp::Args args) {
  switch (spec.id) {
    case CommandId::Discard:
    case CommandId::Exec:
    case CommandId::Multi:
    case CommandId::Quit:
    case CommandId::Reset:
    case CommandId::Watch:
      return QueuedAs::AtOnce;

    case CommandId::Blmove:  // Nothing blocks in a transaction: the node answers at once.
    case CommandId::Blmpop:
    case CommandId::Blpop:
    case CommandId::Brpop:
    case CommandId::Brpoplpush:
    case CommandId::Bzmpop:
    case CommandId::Bzpopmax:
    case CommandId::Bzpopmin:
    case CommandId::Command:
    case CommandId::CommandCount:
    case CommandId::CommandDocs:
    case CommandId::CommandGetkeys:
    case CommandId::CommandGetkeysandflags:
    case CommandId::CommandHelp:
    case CommandId::CommandInfo:
    case CommandId::CommandList:
    case CommandId::Copy:
    case CommandId::Del:
    case CommandId::Echo:
    case CommandId::Eval:
    case CommandId::EvalRo:
    case CommandId::Evalsha:
    case CommandId::EvalshaRo:
    case CommandId::Exists:
    case CommandId::Fcall:
    case CommandId::FcallRo:
    case CommandId::FunctionDump:
    case CommandId::FunctionHelp:
    case CommandId::FunctionList:
    case CommandId::FunctionStats:
    case CommandId::Mget:
    case CommandId::Mset:
    case CommandId::Ping:
    case CommandId::Publish:
    case CommandId::ScriptExists:
    case CommandId::ScriptHelp:
    case CommandId::ScriptLoad:
    case CommandId::Spublish:
    case CommandId::Time:
    case CommandId::Touch:
    case CommandId::Unlink:
    case CommandId::Unwatch:
    case CommandId::Wait:
    case CommandId::Xread:
    case CommandId::Xreadgroup:
      return QueuedAs::NodeCommand;
    // Options that no node may get are refused by the handlers.
    case CommandId::Sort:
    case CommandId::SortRo:
      return resp::option_with_foreign_keys(args).empty() ? QueuedAs::NodeCommand
                                                          : QueuedAs::AsUsual;

    case CommandId::AclCat:
    case CommandId::AclDryrun:
    case CommandId::AclGenpass:
    case CommandId::AclGetuser:
    case CommandId::AclHelp:
    case CommandId::AclList:
    case CommandId::AclLog:
    case CommandId::AclUsers:
    case CommandId::AclWhoami:
    case CommandId::Asking:
    case CommandId::Auth:
    case CommandId::ClientCaching:
    case CommandId::ClientGetname:
    case CommandId::ClientGetredir:
    case CommandId::ClientHelp:
    case CommandId::ClientId:
    case CommandId::ClientInfo:
    case CommandId::ClientNoEvict:
    case CommandId::ClientNoTouch:
    case CommandId::ClientPause:
    case CommandId::ClientSetinfo:
    case CommandId::ClientSetname:
    case CommandId::ClientTrackinginfo:
    case CommandId::ClientUnpause:
    case CommandId::ClusterInfo:
    case CommandId::ClusterKeyslot:
    case CommandId::ClusterMyid:
    case CommandId::ClusterNodes:
    case CommandId::ClusterShards:
    case CommandId::ClusterSlots:
    case CommandId::LatencyHistory:
    case CommandId::LatencyLatest:
    case CommandId::Lolwut:
    case CommandId::ModuleList:
    case CommandId::Psubscribe:
    case CommandId::PubsubChannels:
    case CommandId::PubsubHelp:
    case CommandId::PubsubNumpat:
    case CommandId::PubsubNumsub:
    case CommandId::PubsubShardchannels:
    case CommandId::PubsubShardnumsub:
    case CommandId::Punsubscribe:
    case CommandId::Readonly:
    case CommandId::Readwrite:
    case CommandId::Role:
    case CommandId::Select:
    case CommandId::SlowlogGet:
    case CommandId::SlowlogLen:
    case CommandId::SlowlogReset:
    case CommandId::Ssubscribe:
    case CommandId::Subscribe:
    case CommandId::Sunsubscribe:
    case CommandId::Unsubscribe:
      return QueuedAs::OwnAnswer;

    case CommandId::ClientKill:
    case CommandId::ClientList:
    case CommandId::ClientUnblock:
    case CommandId::ClusterCountkeysinslot:
    case CommandId::ClusterGetkeysinslot:
    case CommandId::ConfigGet:
    case CommandId::Dbsize:
    case CommandId::Flushall:
    case CommandId::Flushdb:
    case CommandId::FunctionDelete:
    case CommandId::FunctionFlush:
    case CommandId::FunctionKill:
    case CommandId::FunctionLoad:
    case CommandId::FunctionRestore:
    case CommandId::Info:
    case CommandId::Keys:
    case CommandId::Randomkey:
    case CommandId::Scan:
    case CommandId::ScriptFlush:
    case CommandId::ScriptKill:
      return QueuedAs::MeansAll;

    case CommandId::ClientReply:
    case CommandId::Hello:
      return QueuedAs::ChangesReply;

    default:
      return QueuedAs::AsUsual;
  }
}

}  // namespace proxy::session
