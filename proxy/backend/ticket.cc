#include "proxy/backend/ticket.h"

#include <memory>

namespace proxy::backend {

void Ticket::store_in_chain(net::BlockPool& pool, const char* from, std::size_t count) {
  if (!is_chained_) {
    char kept[kInline];
    std::memcpy(kept, inline_, inline_size_);
    std::construct_at(&chain_);
    is_chained_ = true;
    if (inline_size_ > 0) chain_.append(pool, kept, inline_size_);
    inline_size_ = 0;
  }
  chain_.append(pool, from, count);
}

}  // namespace proxy::backend
