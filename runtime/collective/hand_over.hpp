// Writes data that another core reads next, repeatedly. The fastest method depends on the vendor of
// the CPU; the values do not.
#pragma once

#include <cstddef>

namespace baton::collective {

// Copies into a slot. Others may read it after settle() and a release store.
void hand_over(const void* from, std::size_t size_bytes, void* to) noexcept;

// Makes handed-over data visible to any thread that sees a later store.
void settle() noexcept;

} // namespace baton::collective
