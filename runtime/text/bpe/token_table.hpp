// The tokens of a vocabulary as bytes, with their kinds: the data of every decoder. Built once by
// the tokenizer, then immutable. Views into it stay valid when the table is moved.
#pragma once

#include "runtime/text/vocabulary/vocabulary.hpp"
#include "schema/ids.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::text {

// Parses the notation of byte tokens, "<0x4A>".
std::optional<unsigned char> byte_of_notation(std::string_view text);

class token_table {
public:
  // Requires: `vocab` has passed validate(). Errors: bad_model_file (too large).
  static result<token_table> create(const vocabulary& vocab);

  std::size_t size() const noexcept { return kinds_.size(); }
  bool contains(token_id id) const noexcept {
    return id >= 0 && static_cast<std::size_t>(id) < size();
  }
  // Empty for an id outside the table.
  std::string_view bytes(token_id id) const noexcept;
  // Requires: contains(id).
  token_kind kind(token_id id) const noexcept { return kinds_[static_cast<std::size_t>(id)]; }

private:
  token_table() = default;

  std::vector<char> bytes_;           // of all tokens, one after the other
  std::vector<std::uint32_t> starts_; // [size() + 1] into bytes_
  std::vector<token_kind> kinds_;     // [size()]
};

} // namespace baton::text
