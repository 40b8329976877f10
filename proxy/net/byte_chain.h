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
  static constexpr std::uint32_t kSmall = 4096 - sizeof(Block);  // The first block of a chain.
  static constexpr std::uint32_t kLarge = 32768 - sizeof(Block);

  BlockPool() = default;
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  Block* take(std::uint32_t capacity) {  // kSmall or kLarge.
    FreeList& list = capacity == kSmall ? small_ : large_;
    Block* block = list.head;
    if (block == nullptr) [[unlikely]]
      return allocate(capacity, list);
    list.head = block->next;
    if (--list.count < list.least) list.least = list.count;
    block->next = nullptr;
    block->begin = block->end = 0;
    return block;
  }
  void give(Block* block) {
    FreeList& list = block->capacity == kSmall ? small_ : large_;
    block->next = list.head;
    list.head = block;
    ++list.count;
  }

  // Frees half of what stayed unused since the last call; call about once a second. True when
  // something was freed.
  bool trim();

 private:
  struct FreeList {
    Block* head = nullptr;
    std::size_t count = 0;
    std::size_t least = 0;  // Smallest count since the last trim: what nobody needed.
  };
  static Block* allocate(std::uint32_t capacity, FreeList& list);
  static bool trim(FreeList& list);

  FreeList small_;
  FreeList large_;
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
  void append(ByteChain& other);  // Takes over the other's blocks.

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
