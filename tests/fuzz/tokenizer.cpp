// Any bytes through a tokenizer of each model: byte-level BPE returns the same bytes, and a user's
// text never yields a special token.
#include "runtime/text/tokenizer/tokenizer.hpp"

#include "runtime/text/stream/detokenizer.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/unit/text/goldens.hpp"

#include <algorithm>

using namespace baton;
using namespace baton::text;

namespace {

std::vector<tokenizer> sentencepiece_tokenizers() {
  std::vector<tokenizer> all;
  for (const auto& model : text::goldens::sentencepiece_golden()["models"])
    all.push_back(tokenizer::create(text::goldens::vocabulary_of(model)).value());
  return all;
}

// Token by token, as streams are decoded.
std::string streamed(const tokenizer& words, std::span<const token_id> ids) {
  detokenizer stream(words, /*skip_special=*/false);
  std::string text;
  for (const auto id : ids)
    stream.push(id, text);
  stream.finish(text);
  return text;
}

bool begins_or_ends(const tokenizer& words, token_id id) {
  return id == words.bos() || id == words.eos() || std::ranges::binary_search(words.end_ids(), id);
}

std::vector<token_id> checked_ids(const tokenizer& words, std::string_view text) {
  encode_scratch scratch(/*cached_pieces=*/64); // the default takes longer than the text
  auto ids = words.encode_text(text, scratch).value();
  ENSURE(std::ranges::none_of(ids, [&](token_id id) { return begins_or_ends(words, id); }),
         "a user's text that begins or ends a turn");
  ENSURE(streamed(words, ids) == words.decode(ids, /*skip_special=*/false).value(),
         "a stream has another text than the whole");
  return ids;
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = fuzz::text_of(data, size);
  const auto& bytes = text::goldens::small_tokenizer();
  ENSURE(bytes.decode_bytes(checked_ids(bytes, text), /*skip_special=*/false).value() == text,
         "encoding and decoding changes the bytes");
  // Parsed as special or not, a special token has its own text.
  const auto raw = bytes.encode_prompt(text, /*parses_special=*/true).value();
  ENSURE(bytes.decode_bytes(raw, /*skip_special=*/false).value() == text,
         "a raw prompt has other bytes than its tokens");
  static const auto others = sentencepiece_tokenizers();
  for (const auto& words : others) {
    (void)checked_ids(words, text);
    (void)words.encode_prompt(text, /*parses_special=*/true).value();
  }
  return 0;
}
