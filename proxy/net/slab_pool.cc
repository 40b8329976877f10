#include "proxy/net/slab_pool.h"

#include <sys/mman.h>

namespace proxy::net {

void* map_slab() {
  // mmap() aligns to pages only: what stands over on both sides goes back.
  constexpr std::size_t kMapped = 2 * kSlabBytes;
  void* mapped =
      ::mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  std::size_t before = -reinterpret_cast<std::uintptr_t>(mapped) % kSlabBytes;
  char* slab = static_cast<char*>(mapped) + before;
  if (before > 0) ::munmap(mapped, before);
  ::munmap(slab + kSlabBytes, kSlabBytes - before);
  return slab;
}

void unmap_slab(void* slab) { SP_ASSERT(::munmap(slab, kSlabBytes) == 0); }

}  // namespace proxy::net
