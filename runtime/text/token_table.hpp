// The tokens of a vocabulary as the bytes they stand for, and their kinds: what every decoder
// reads. Built once by the tokenizer, then immutable. Views into it outlive a move of the table.
#pragma once

#include "runtime/text/vocabulary.hpp"
#include "schema/ids.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::text {

// The byte of "<0x4A>", as byte tokens are written.
std::optional<unsigned char> byte_of_notation(std::string_view text);

class token_table {
public:
  // Requires: `words` has passed validate(). Errors: bad_model_file (too large).
  static result<token_table> create(const vocabulary& words);

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
