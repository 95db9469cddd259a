// The table by which a SentencePiece model rewrites text before tokenization (NFKC and similar):
// GGUF's tokenizer.ggml.precompiled_charsmap. It comes from the model file and is read in place, so
// every offset is checked where it is used.
//
// Layout, little-endian: u32 size of the trie in bytes; the trie, a double array of u32 units as
// written by darts-clone (https://github.com/s-yata/darts-clone); the replacements, each
// NUL-terminated. The trie's values are offsets of replacements.
#pragma once

#include "schema/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::text {

class character_map {
public:
  struct match {
    std::string_view replacement; // often empty; valid as long as the map
    std::size_t length;           // bytes of the text that it replaces, at least 1
  };

  // An empty table rewrites nothing. Errors: bad_model_file.
  static result<character_map> create(std::string_view table);

  bool empty() const noexcept { return units_.empty(); }
  // The longest prefix of `text` that is rewritten.
  std::optional<match> find(std::string_view text) const noexcept;
  // The shortest one, as Hugging Face's library does.
  std::optional<match> find_shortest(std::string_view text) const noexcept;

private:
  enum class extent { shortest, longest };
  std::optional<match> find(std::string_view text, extent which) const noexcept;

  character_map() = default;

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

} // namespace baton::text
