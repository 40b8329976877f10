// BlockPool and ByteChain: bytes on their way out, in pooled blocks.
//
// Buffers belong to the loop, not to the connection: a chain that runs empty gives its blocks back
// at once, so an idle connection holds none. Bytes are copied into a chain once and leave it
// through one gathered write.
//
// Thread:  one worker's, both classes.
// Owns:    a chain owns its blocks; release() or consume() of everything gives them back. The pool
// must outlive it.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "proxy/net/slab_pool.h"

namespace proxy::net {

struct Block {
  Block* next;
  std::uint32_t begin;
  std::uint32_t end;
  std::uint32_t capacity;

  char* bytes() { return reinterpret_cast<char*>(this + 1); }
  [[nodiscard]] std::uint32_t room() const { return capacity - end; }
};

class BlockPool {
 public:
  // What a whole block takes; no powers of two, or the blocks' beginnings would all compete for the
  // same lines of the processor's cache.
  static constexpr std::uint32_t kSmallBytes = 68 * 64;
  static constexpr std::uint32_t kLargeBytes = 511 * 64;
  static constexpr std::uint32_t kHugeBytes = 4095 * 64;                // A slab.
  static constexpr std::uint32_t kSmall = kSmallBytes - sizeof(Block);  // A chain's first block.
  static constexpr std::uint32_t kLarge = kLargeBytes - sizeof(Block);
  static constexpr std::uint32_t kHuge = kHugeBytes - sizeof(Block);  // Not for chains.

  Block* take(std::uint32_t capacity) {  // kSmall, kLarge or kHuge.
    Block* block = nullptr;
    if (capacity == kSmall) {
      block = small_.take();
    } else if (capacity == kLarge) {
      block = large_.take();
    } else {
      block = huge_.take();
    }
    block->next = nullptr;
    block->begin = block->end = 0;
    block->capacity = capacity;
    return block;
  }
  void give(Block* block) {
    if (block->capacity == kSmall) {
      small_.give(block);
    } else if (block->capacity == kLarge) {
      large_.give(block);
    } else {
      huge_.give(block);
    }
  }

  void trim() {  // See SlabPool; about every 100 ms.
    small_.trim();
    large_.trim();
    huge_.trim();
  }
  [[nodiscard]] std::size_t slabs() const {
    return small_.slabs() + large_.slabs() + huge_.slabs();
  }

 private:
  SlabPool<Block, kSmallBytes, &Block::next> small_;
  SlabPool<Block, kLargeBytes, &Block::next> large_;
  SlabPool<Block, kHugeBytes, &Block::next> huge_;
};

class ByteChain {
 public:
  ByteChain() = default;
  ByteChain(const ByteChain&) = delete;
  ByteChain& operator=(const ByteChain&) = delete;

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }

  void append(BlockPool& pool, const char* bytes, std::size_t count) {
    if (tail_ != nullptr && tail_->room() >= count) [[likely]] {
      std::memcpy(tail_->bytes() + tail_->end, bytes, count);
      tail_->end += static_cast<std::uint32_t>(count);
      size_ += count;
      return;
    }
    if (tail_ == nullptr && count <= BlockPool::kSmall) [[likely]] {
      head_ = tail_ = pool.take(BlockPool::kSmall);
      std::memcpy(tail_->bytes(), bytes, count);
      tail_->end = static_cast<std::uint32_t>(count);
      size_ = count;
      return;
    }
    append_slowly(pool, bytes, count);
  }
  void append(BlockPool& pool, std::string_view text) { append(pool, text.data(), text.size()); }
  // Takes over the other's blocks if they are well filled, else their bytes; the other is empty
  // then.
  void append(BlockPool& pool, ByteChain& other);

  // The bytes when they lie in one block, as they mostly do; else empty.
  [[nodiscard]] std::string_view only_block() const {
    if (head_ == nullptr || head_ != tail_) return {};
    return {head_->bytes() + head_->begin, head_->end - head_->begin};
  }
  // Gives that block back. Requires only_block() not to be empty.
  void release_only_block(BlockPool& pool) {
    pool.give(head_);
    head_ = tail_ = nullptr;
    size_ = 0;
  }

  int gather(iovec* vectors, int most) const;  // How many of `vectors` it filled.
  void consume(BlockPool& pool, std::size_t count);
  void release(BlockPool& pool) { consume(pool, size_); }

  // All bytes in one piece: a view of the only block, or of `scratch` filled with a copy.
  std::string_view contiguous(std::string& scratch) const;

 private:
  void append_slowly(BlockPool& pool, const char* bytes, std::size_t count);

  Block* head_ = nullptr;
  Block* tail_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace proxy::net
