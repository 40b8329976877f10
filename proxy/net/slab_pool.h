// SlabPool: pieces of one size, cut from slabs of 256 KiB that go back to the system whole.
//
// Not the general allocator: what lives long would settle between the many short-lived pieces of a
// burst and keep its pages. A slab holds pieces of one kind only, pieces are taken from one slab as
// long as it has any, and the slabs that a burst has emptied are unmapped.
//
// A free piece is linked through its member Next. Pieces are constructed once, when their slab is
// first used; take() returns one as it was given back, but for Next.
//
// Thread:  one's.
// Owns:    the slabs. All pieces must be given back before the pool's end.
// Errors:  take() throws std::bad_alloc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include "slots/assert.h"

namespace proxy::net {

constexpr std::size_t kSlabBytes = std::size_t{256} * 1024;

// At an address that is a multiple of kSlabBytes.
void* map_slab();
void unmap_slab(void* slab);

template <class T, std::size_t PieceBytes, T* T::* Next>
class SlabPool {
 public:
  SlabPool() = default;
  ~SlabPool();
  SlabPool(const SlabPool&) = delete;
  SlabPool& operator=(const SlabPool&) = delete;

  T* take() {
    Slab* slab = current_;
    T* piece = slab->free;
    if (piece == nullptr) [[unlikely]]
      return take_from_another();
    slab->free = piece->*Next;
    __builtin_prefetch(slab->free, 1);  // Whoever takes one mostly takes more.
    ++slab->used;
    return piece;
  }
  void give(T* piece) {
    Slab* slab = Slab::of(piece);
    T* first = slab->free;
    piece->*Next = first;
    slab->free = piece;
    --slab->used;
    if (first == nullptr && slab != current_) [[unlikely]]
      list(slab);
  }

  // Unmaps half of the slabs of which nothing was used since the call before, 64 MiB at most.
  // Called every 100 ms: what comes and goes stays, what a burst took is gone a second later.
  void trim();

  [[nodiscard]] std::size_t slabs() const { return slabs_; }  // Mapped now.

 private:
  static constexpr std::size_t kHeaderBytes = 64;
  static constexpr std::size_t kPieces = (kSlabBytes - kHeaderBytes) / PieceBytes;
  static constexpr std::size_t kTrimMost = 256;  // Takes the kernel 3 ms.

  struct Slab {
    T* free = nullptr;       // Given back.
    std::size_t used = 0;    // Taken and not given back.
    std::size_t fresh = 0;   // Pieces from this one on were never taken.
    Slab* next = nullptr;    // In available_.
    bool is_rested = false;  // Was empty at the last trim, and in available_ ever since.

    static Slab* of(T* piece) {
      char* place = reinterpret_cast<char*>(piece);
      return reinterpret_cast<Slab*>(place - reinterpret_cast<std::uintptr_t>(place) % kSlabBytes);
    }
    void* place(std::size_t index) {
      return reinterpret_cast<char*>(this) + kHeaderBytes + index * PieceBytes;
    }
  };
  static_assert(sizeof(Slab) <= kHeaderBytes && PieceBytes % alignof(T) == 0 &&
                std::is_trivially_destructible_v<T>);

  T* take_from_another();
  void list(Slab* slab) {
    slab->is_rested = false;
    slab->next = available_;
    available_ = slab;
  }

  Slab none_{.fresh = kPieces};  // Stands for a slab before there is one.
  Slab* current_ = &none_;       // Pieces are taken from it until it has none.
  Slab* available_ = nullptr;    // All others that have a free piece.
  std::size_t slabs_ = 0;
};

template <class T, std::size_t PieceBytes, T* T::* Next>
SlabPool<T, PieceBytes, Next>::~SlabPool() {
  if (current_ != &none_) list(current_);
  while (available_ != nullptr) {
    Slab* slab = available_;
    SP_ASSERT(slab->used == 0);
    available_ = slab->next;
    unmap_slab(slab);
    --slabs_;
  }
  SP_ASSERT(slabs_ == 0);
}

template <class T, std::size_t PieceBytes, T* T::* Next>
[[gnu::noinline]] T* SlabPool<T, PieceBytes, Next>::take_from_another() {
  if (current_->fresh == kPieces && available_ != nullptr) {
    current_ = available_;
    available_ = current_->next;
    return take();
  }
  if (current_->fresh == kPieces) {
    current_ = new (map_slab()) Slab;
    ++slabs_;
  }
  ++current_->used;
  return new (current_->place(current_->fresh++)) T;
}

template <class T, std::size_t PieceBytes, T* T::* Next>
void SlabPool<T, PieceBytes, Next>::trim() {
  std::size_t rested = 0;
  for (Slab* slab = available_; slab != nullptr; slab = slab->next) {
    slab->is_rested = slab->is_rested && slab->used == 0;
    rested += slab->is_rested ? 1 : 0;
  }
  std::size_t count = std::min((rested + 1) / 2, kTrimMost);
  for (Slab** link = &available_; *link != nullptr;) {
    Slab* slab = *link;
    if (slab->is_rested && count > 0) {
      *link = slab->next;
      unmap_slab(slab);
      --slabs_;
      --count;
    } else {
      slab->is_rested = slab->used == 0;
      link = &slab->next;
    }
  }
}

}  // namespace proxy::net
