#include "proxy/net/input_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>

namespace proxy::net {

void InputBuffer::append(const char* bytes, std::size_t count) {
  if (count == 0) return;
  if (count > capacity_ - end_) {
    if (size() + count > capacity_) {
      grow(size() + count);
    } else {
      std::memmove(bytes_, data(), size());
      end_ -= begin_;
      begin_ = 0;
    }
  }
  std::memcpy(bytes_ + end_, bytes, count);
  end_ += count;
}

void InputBuffer::grow(std::size_t capacity) {
  Block* block = nullptr;
  char* grown = nullptr;
  if (capacity <= BlockPool::kHuge) {
    std::uint32_t fitting = BlockPool::kHuge;
    if (capacity <= BlockPool::kLarge) fitting = BlockPool::kLarge;
    if (capacity <= BlockPool::kSmall) fitting = BlockPool::kSmall;
    block = pool_.take(fitting);
    grown = block->bytes();
    capacity = block->capacity;
  } else {
    capacity = std::max(capacity, 2 * capacity_);  // Pages that are not written to cost nothing.
    void* mapped =
        ::mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    grown = static_cast<char*>(mapped);
  }
  std::size_t kept = size();
  if (kept > 0) std::memcpy(grown, data(), kept);
  release();
  block_ = block;
  bytes_ = grown;
  begin_ = 0;
  end_ = kept;
  capacity_ = capacity;
}

void InputBuffer::release() {
  if (block_ != nullptr) {
    pool_.give(block_);
  } else if (bytes_ != nullptr) {
    ::munmap(bytes_, capacity_);
  }
}

}  // namespace proxy::net
