#include <doctest/doctest.h>

#include <string>

#include "proxy/backend/ticket.h"

namespace {

using proxy::backend::Ticket;
using proxy::backend::TicketPool;
using proxy::net::BlockPool;

std::string stored(const Ticket& ticket) {
  std::string scratch;
  return std::string(ticket.view(scratch));
}

}  // namespace

TEST_CASE("a ticket keeps reply bytes in their order, few or many") {
  BlockPool blocks;
  Ticket ticket;
  std::string all;
  CHECK(ticket.stored_bytes() == 0);
  CHECK(stored(ticket).empty());
  for (std::size_t size : {0, 10, 46, 1, 56, 100, 5'000, 40'000}) {
    std::string piece(size, static_cast<char>('a' + size % 26));
    ticket.store(blocks, piece.data(), piece.size());
    all += piece;
    CHECK(ticket.stored_bytes() == all.size());
    CHECK(stored(ticket) == all);
  }
  ticket.drop_stored(blocks);
  CHECK(ticket.stored_bytes() == 0);
  CHECK(stored(ticket).empty());
  ticket.store(blocks, "+OK", 3);
  CHECK(stored(ticket) == "+OK");
}

TEST_CASE("a large reply goes into a chain from its first piece on") {
  BlockPool blocks;
  Ticket ticket;
  std::string reply(57, 'r');
  ticket.store(blocks, reply.data(), reply.size());
  CHECK(stored(ticket) == reply);
  ticket.drop_stored(blocks);
}

TEST_CASE("a ticket that was given back is as new") {
  BlockPool blocks;
  TicketPool pool;
  Ticket* ticket = pool.take();
  ticket->done = ticket->retiring = ticket->begun = ticket->silent = true;
  ticket->sent_ahead = ticket->large = true;
  ticket->reply_bytes = 7;
  ticket->store(blocks, "x", 1);
  ticket->drop_stored(blocks);
  pool.give(ticket);
  Ticket* again = pool.take();
  REQUIRE(again == ticket);
  bool any = again->done || again->retiring || again->begun || again->silent || again->sent_ahead ||
             again->large;
  CHECK_FALSE(any);
  CHECK(again->reply_bytes == 0);
  CHECK(again->stored_bytes() == 0);
  pool.give(again);
}
