// Shared by all fuzz targets: the entry point. libFuzzer calls it with its own bytes,
// replay_test.cpp with those of files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace baton::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) noexcept {
  return {reinterpret_cast<const char*>(data), size};
}

} // namespace baton::fuzz
