// A model's vocabulary as plain data, filled by vocabulary_gguf or vocabulary_checkpoint (or a
// test), read by the tokenizer and the chat template. Nothing here is trusted before validate() has
// passed.
#pragma once

#include "schema/ids.hpp"
#include "schema/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::text {

// Limits on the contents of a file; well above every published model.
namespace vocabulary_limits {
inline constexpr std::size_t tokens_max = 1U << 20U; // the largest known has 262144
inline constexpr std::size_t merges_max = 1U << 21U; // about one per token in practice
inline constexpr std::size_t token_bytes_max = 4096; // runs of a repeated mark reach 512
inline constexpr std::size_t chat_template_bytes_max = 1U << 20U; // the longest known has 40 KB
} // namespace vocabulary_limits

// Numbers as in GGUF's tokenizer.ggml.token_type.
enum class token_kind : std::uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,      // <|im_start|> and the like: never produced by user text
  user_defined = 4, // added after training: markup such as <tool_call>, or runs of white space
  unused = 5,       // padding of the table
  byte = 6,         // <0x41>
};

constexpr bool is_ordinary(token_kind kind) noexcept {
  return kind == token_kind::normal || kind == token_kind::byte;
}
// Appears literally in a prompt, if at all.
constexpr bool is_special(token_kind kind) noexcept {
  return !is_ordinary(kind) && kind != token_kind::unused;
}
bool is_white_space(std::string_view text) noexcept; // ASCII's; true for the empty text

// A step of tokenizer.json that is applied to each text between special tokens before it is cut.
struct text_step {
  enum class kind : std::uint8_t {
    nfc,
    nfd,
    nfkc,
    nfkd,
    lower_case,
    character_map, // `from` is the precompiled map
    replace,       // `from` by `to`
    join_spaces,   // two spaces or more by `to`
    strip_left,
    strip_right,
    prepend, // `to`
    words,   // each run between white space, with one U+2581 before it
  };
  kind what;
  std::string from;
  std::string to;
  friend bool operator==(const text_step&, const text_step&) = default;
};

// Texts that get a leading space if they have none.
enum class leading_space : std::uint8_t { never, first, always };

struct vocabulary {
  std::string model; // "gpt2": byte-level BPE; "llama": SentencePiece BPE; "t5": its unigram model
  std::string pre;   // gpt2: the pre-tokenizer: "smollm", "llama-bpe", ...
  // [ids]. gpt2: in the byte alphabet if normal, else plain text. The others: U+2581 for a space.
  std::vector<std::string> tokens;
  std::vector<token_kind> kinds; // [ids]
  // gpt2: "left right", the best first. llama: the same if the file has them instead of scores.
  std::vector<std::string> merges;
  std::vector<double> scores;  // [ids]; not for gpt2, nor with merges
  bool sums_as_double = false; // t5: add scores as double, as Hugging Face's unigram; else as float
  std::optional<token_id> bos; // begin of text
  std::optional<token_id> eos; // end of text (of a turn, in chat models)
  std::optional<token_id> eot; // end of turn, where it is not eos
  std::vector<token_id> ends;  // further tokens that end an answer
  std::optional<token_id> unknown;
  std::optional<token_id> padding;
  std::optional<bool> add_bos;  // nullopt: the family's default
  bool add_space_prefix = true; // llama, t5: a space before each text
  // llama, t5, from tokenizer.json:
  leading_space metaspace = leading_space::never; // in addition to add_space_prefix
  bool splits_at_spaces = false;                  // nothing merges into a space
  bool drops_first_space = false;                 // at the start of an answer, whatever added it
  bool finds_added_tokens_first = false;          // user-defined tokens split the text
  bool remove_extra_whitespaces = false; // llama, t5: collapses runs of spaces, strips both ends
  std::string character_map;             // llama, t5: the precompiled map; empty: none
  std::vector<text_step> steps;          // in order, before the encoder's own processing
  std::vector<token_id> strips_left;     // special tokens that strip white space before them
  std::vector<token_id> strips_right;    // or after them
  std::string chat_template;             // Jinja source; empty: none
  std::string chat_template_failure;     // why there is none, though the model has some
  // Further named tokens for chat templates, besides bos_token and eos_token: name and text.
  std::vector<std::pair<std::string, std::string>> named_tokens;
};

// Whether the model's tokens are text with U+2581 for a space.
bool is_sentencepiece(const vocabulary& vocab) noexcept;

// Errors: unsupported_model (another tokenizer model), bad_model_file (sizes disagree, an id is out
// of range, a score is not finite, a limit is exceeded).
result<void> validate(const vocabulary& vocab);

} // namespace baton::text
