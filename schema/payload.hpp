// Resources held by received messages: credit of their link, and uncopied bytes.
#pragma once

#include <cstddef>
#include <memory>

namespace baton {

// Link credit of a received data message: returned to its sender when the last copy is dropped.
using lease = std::shared_ptr<const void>;

// Immutable shared bytes: activations. Copied unless `data` is already 64-byte aligned.
struct payload {
  std::shared_ptr<const void> owner;
  const std::byte* data = nullptr;
  std::size_t size_bytes = 0;
};

} // namespace baton
