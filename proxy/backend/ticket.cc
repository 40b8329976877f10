#include "proxy/backend/ticket.h"

namespace proxy::backend {

TicketPool::~TicketPool() {
  while (free_ != nullptr) {
    Ticket* ticket = free_;
    free_ = ticket->next_in_connection;
    delete ticket;
  }
}

bool TicketPool::trim() {
  std::size_t count = (least_ + 1) / 2;
  bool freed = count > 0;
  for (; count > 0; --count) {
    Ticket* ticket = free_;
    free_ = ticket->next_in_connection;
    --count_;
    delete ticket;
  }
  least_ = count_;
  return freed;
}

}  // namespace proxy::backend
