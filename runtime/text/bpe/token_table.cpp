// Converts tokens from the notation of their file to bytes; see token_table.hpp.
#include "runtime/text/bpe/token_table.hpp"

#include "runtime/text/bpe/sentencepiece_text.hpp"
#include "runtime/text/unicode/byte_alphabet.hpp"

#include <utility>

namespace baton::text {

namespace {

std::string bytes_of(const std::string& text, token_kind kind, bool is_sentencepiece) {
  if (kind == token_kind::byte)
    if (const auto byte = byte_of_notation(text))
      return {static_cast<char>(*byte)};
  if (is_sentencepiece)
    return kind == token_kind::control || kind == token_kind::unknown ? text
                                                                      : with_plain_spaces(text);
  if (is_ordinary(kind))
    if (auto bytes = bytes_of_alphabet_text(text))
      return std::move(*bytes);
  return text; // verbatim: special tokens, and ordinary ones outside the alphabet
}

} // namespace

std::optional<unsigned char> byte_of_notation(std::string_view text) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>')
    return std::nullopt;
  const std::size_t high = digits.find(text[3]);
  const std::size_t low = digits.find(text[4]);
  if (high == std::string_view::npos || low == std::string_view::npos)
    return std::nullopt;
  return static_cast<unsigned char>(high * 16 + low);
}

result<token_table> token_table::create(const vocabulary& vocab) {
  token_table made;
  made.kinds_ = vocab.kinds;
  made.starts_.reserve(vocab.tokens.size() + 1);
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id) {
    made.starts_.push_back(static_cast<std::uint32_t>(made.bytes_.size()));
    const std::string bytes = bytes_of(vocab.tokens[id], vocab.kinds[id], is_sentencepiece(vocab));
    if (bytes.size() > UINT32_MAX - made.bytes_.size())
      return fail(errc::bad_model_file, "the vocabulary's tokens have more than 4 GiB together");
    made.bytes_.insert(made.bytes_.end(), bytes.begin(), bytes.end());
  }
  made.starts_.push_back(static_cast<std::uint32_t>(made.bytes_.size()));
  made.bytes_.shrink_to_fit();
  return made;
}

std::string_view token_table::bytes(token_id id) const noexcept {
  if (!contains(id))
    return {};
  const auto at = static_cast<std::size_t>(id);
  return {bytes_.data() + starts_[at], starts_[at + 1] - starts_[at]};
}

} // namespace baton::text
