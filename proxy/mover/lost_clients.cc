#include "proxy/mover/lost_clients.h"

#include <utility>

namespace proxy::mover {

void LostClients::add(const std::string& node, LostClient client) {
  const std::lock_guard lock(mutex_);
  clients_[node].push_back(std::move(client));
}

std::vector<LostClient> LostClients::of(const std::string& node) const {
  const std::lock_guard lock(mutex_);
  const auto found = clients_.find(node);
  return found == clients_.end() ? std::vector<LostClient>{} : found->second;
}

void LostClients::remove(const std::string& node, const LostClient& client) {
  const std::lock_guard lock(mutex_);
  const auto found = clients_.find(node);
  if (found == clients_.end()) return;
  std::erase(found->second, client);
  if (found->second.empty()) clients_.erase(found);
}

}  // namespace proxy::mover
