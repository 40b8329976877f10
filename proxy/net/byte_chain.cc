#include "proxy/net/byte_chain.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "slots/assert.h"

namespace proxy::net {

BlockPool::~BlockPool() {
  for (FreeList* list : {&small_, &large_}) {
    list->least = list->count;
    while (list->head != nullptr) {
      Block* block = list->head;
      list->head = block->next;
      std::free(block);
    }
  }
}

Block* BlockPool::allocate(std::uint32_t capacity, FreeList& list) {
  auto* block = static_cast<Block*>(std::malloc(sizeof(Block) + capacity));
  if (block == nullptr) throw std::bad_alloc();
  block->capacity = capacity;
  block->next = nullptr;
  block->begin = block->end = 0;
  list.least = 0;
  return block;
}

bool BlockPool::trim(FreeList& list) {
  std::size_t count = (list.least + 1) / 2;
  bool freed = count > 0;
  for (; count > 0; --count) {
    Block* block = list.head;
    list.head = block->next;
    list.count--;
    std::free(block);
  }
  list.least = list.count;
  return freed;
}

bool BlockPool::trim() {
  bool freed_small = trim(small_);
  bool freed_large = trim(large_);
  return freed_small || freed_large;
}

void ByteChain::append_slowly(BlockPool& pool, const char* bytes, std::size_t count) {
  size_ += count;
  while (count > 0) {
    if (tail_ == nullptr || tail_->room() == 0) {
      bool small = tail_ == nullptr && count <= BlockPool::kSmall;
      Block* block = pool.take(small ? BlockPool::kSmall : BlockPool::kLarge);
      (tail_ == nullptr ? head_ : tail_->next) = block;
      tail_ = block;
    }
    std::size_t part = std::min<std::size_t>(count, tail_->room());
    std::memcpy(tail_->bytes() + tail_->end, bytes, part);
    tail_->end += static_cast<std::uint32_t>(part);
    bytes += part;
    count -= part;
  }
}

void ByteChain::append(ByteChain& other) {
  if (other.head_ == nullptr) return;
  (tail_ == nullptr ? head_ : tail_->next) = other.head_;
  tail_ = other.tail_;
  size_ += other.size_;
  other.head_ = other.tail_ = nullptr;
  other.size_ = 0;
}

int ByteChain::gather(iovec* vectors, int most) const {
  int count = 0;
  for (Block* block = head_; block != nullptr && count < most; block = block->next) {
    vectors[count++] = {block->bytes() + block->begin, block->end - block->begin};
  }
  return count;
}

void ByteChain::consume(BlockPool& pool, std::size_t count) {
  SP_ASSERT(count <= size_);
  size_ -= count;
  while (head_ != nullptr && count >= head_->end - head_->begin) {
    count -= head_->end - head_->begin;
    Block* block = head_;
    head_ = block->next;
    pool.give(block);
  }
  if (head_ == nullptr) {
    tail_ = nullptr;
  } else {
    head_->begin += static_cast<std::uint32_t>(count);
  }
}

std::string_view ByteChain::contiguous(std::string& scratch) const {
  if (head_ == nullptr) return {};
  if (head_ == tail_) return {head_->bytes() + head_->begin, head_->end - head_->begin};
  scratch.clear();
  scratch.reserve(size_);
  for (Block* block = head_; block != nullptr; block = block->next) {
    scratch.append(block->bytes() + block->begin, block->end - block->begin);
  }
  return scratch;
}

}  // namespace proxy::net
