#include "proxy/net/byte_chain.h"

#include <algorithm>

#include "slots/assert.h"

namespace proxy::net {

namespace {

constexpr std::size_t kInSmallBlocks = std::size_t{3} * BlockPool::kSmall;  // Of a chain's bytes.

}  // namespace

void ByteChain::append_slowly(BlockPool& pool, const char* bytes, std::size_t count) {
  size_ += count;
  std::uint32_t capacity = size_ <= kInSmallBlocks ? BlockPool::kSmall : BlockPool::kLarge;
  while (count > 0) {
    if (tail_ == nullptr || tail_->room() == 0) {
      Block* block = pool.take(capacity);
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

// Many half-empty blocks in one chain would take a multiple of what its limit counts.
void ByteChain::append(BlockPool& pool, ByteChain& other) {
  if (other.head_ == nullptr) return;
  if (tail_ != nullptr && other.tail_->room() > other.size_ / 4) {
    for (Block* block = other.head_; block != nullptr; block = block->next) {
      append(pool, block->bytes() + block->begin, block->end - block->begin);
    }
    return other.release(pool);
  }
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
