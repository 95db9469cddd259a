#include "runtime/gpu/stage/row_slabs.hpp"

#include <algorithm>
#include <bit>

namespace baton::gpu {
namespace {

// Pinned memory is allocated in pages, and allocation is slow.
constexpr std::uint64_t slab_bytes_min = 64U << 10U;

} // namespace

// The smallest free slab that is large enough; null: none.
row_slabs::slab* row_slabs::find_free(std::uint64_t bytes) {
  slab* best = nullptr;
  for (auto& s : all_)
    if (!s.is_out && s.bytes >= bytes && (best == nullptr || s.bytes < best->bytes))
      best = &s;
  return best;
}

// Frees unused slabs, which are too small for this request.
bool row_slabs::make_room(std::uint64_t bytes) {
  std::uint64_t held = 0;
  for (const auto& s : all_)
    held += s.bytes;
  while (held + bytes > bytes_max_) {
    const auto unused =
        std::find_if(all_.begin(), all_.end(), [](const slab& s) { return !s.is_out; });
    if (unused == all_.end())
      return false;
    held -= unused->bytes;
    all_.erase(unused);
  }
  return true;
}

float* row_slabs::take(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  auto* found = find_free(bytes);
  if (found == nullptr) {
    const auto size = std::bit_ceil(std::max(bytes, slab_bytes_min));
    if (!make_room(size))
      return nullptr;
    all_.push_back({memory_(size), size});
    found = &all_.back();
  }
  found->is_out = true;
  return found->memory.as<float>();
}

void row_slabs::give_back(const float* rows) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& s : all_)
    if (s.memory.as<float>() == rows)
      s.is_out = false;
}

} // namespace baton::gpu
