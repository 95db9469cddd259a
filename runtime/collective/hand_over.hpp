// Writing what another core reads next, and will again next time. How that is fast depends on whose
// cores they are; the values do not.
#pragma once

#include <cstddef>

namespace baton::collective {

// Copies into a slot. Others may read it after settle() and a release store.
void hand_over(const void* from, std::size_t size_bytes, void* to) noexcept;

// What was handed over is there for whoever sees a store behind this.
void settle() noexcept;

} // namespace baton::collective
