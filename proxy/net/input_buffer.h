// InputBuffer: bytes that were received and have to be kept in one piece until the rest is there.
//
// Lies in a block of the pool that fits, beyond the largest in memory mapped for it alone; either
// way what a client's large request took goes back to the system soon after it.
//
// Thread:  one worker's.
// Owns:    its memory; the pool must outlive it.
// Errors:  append() throws std::bad_alloc.
#pragma once

#include <cstddef>

#include "proxy/net/byte_chain.h"

namespace proxy::net {

class InputBuffer {
 public:
  explicit InputBuffer(BlockPool& pool) : pool_(pool) {}
  ~InputBuffer() { release(); }
  InputBuffer(const InputBuffer&) = delete;
  InputBuffer& operator=(const InputBuffer&) = delete;

  [[nodiscard]] const char* data() const { return bytes_ + begin_; }
  [[nodiscard]] std::size_t size() const { return end_ - begin_; }
  [[nodiscard]] bool empty() const { return begin_ == end_; }

  void append(const char* bytes, std::size_t count);  // May move what is there.
  void consume(std::size_t count) { begin_ += count; }

 private:
  void grow(std::size_t capacity);
  void release();

  BlockPool& pool_;
  Block* block_ = nullptr;  // Null: mapped for this alone.
  char* bytes_ = nullptr;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace proxy::net
