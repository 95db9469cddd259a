// Names of the parts of a model in several GGUF files: NAME-00001-of-00003.gguf.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baton::model {

inline constexpr std::uint32_t part_count_max = 4096; // far above any published model

struct part_name {
  std::string before;                  // "folder/NAME"
  std::string after;                   // ".gguf"
  std::uint32_t number = 0, count = 0; // from 1
  std::uint32_t digits = 0;            // of both numbers

  std::string of(std::uint32_t other) const; // of another part
};

// Nothing if the text is no such name; `number` is in 1..count, and count in 2..part_count_max.
std::optional<part_name> parse_part_name(std::string_view text);

// The text without "-00001-of-00003"; unchanged if it is no such name.
std::string without_part_number(std::string_view text);

} // namespace baton::model
