// What received messages hold on to: credit of their link, and bytes that are not copied.
#pragma once

#include <cstddef>
#include <memory>

namespace baton {

// Link credit of a received data message: given back to its sender when the last copy goes.
using lease = std::shared_ptr<const void>;

// Immutable shared bytes, 64-byte aligned at `data` or copied until they are: activations.
struct payload {
  std::shared_ptr<const void> owner;
  const std::byte* data = nullptr;
  std::size_t size_bytes = 0;
};

} // namespace baton
