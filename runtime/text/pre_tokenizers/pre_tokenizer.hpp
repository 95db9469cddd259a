// Splits text into the pieces within which byte pairs are merged, by the patterns that the model's
// `tokenizer.ggml.pre` names. Several patterns apply in order, each to the pieces left by the
// previous one. Unmatched text stays a piece of its own. Used only by the tokenizer. Immutable;
// split() may run on many threads.
#pragma once

#include "schema/result.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

struct pcre2_real_code_8; // keeps PCRE2 out of all headers

namespace baton::text {

class letters;

struct text_range {
  std::uint32_t begin;
  std::uint32_t end;
  friend bool operator==(const text_range&, const text_range&) = default;
};

// Properties of a tokenizer family besides its merges. Patterns use PCRE2's syntax, but \s and \S
// mean Unicode's White_Space, as in the engines the models were trained with. PCRE2 counts U+180E
// as a space, those engines do not.
struct pre_tokenizer_family {
  std::span<const std::string_view> names;
  std::span<const std::string_view> patterns;
  // The last pattern matches a run of letters of any case, with an optional space before it, as one
  // match. Such words are found without the pattern engine.
  bool takes_words;
  bool whole_words_first; // a piece that is a token is not merged ("ignore_merges")
  bool adds_bos;          // if the file does not specify it
};
std::span<const pre_tokenizer_family> pre_tokenizer_families() noexcept;

class pre_tokenizer {
public:
  // Errors: unsupported_model, naming the unknown pre-tokenizer.
  static result<pre_tokenizer> create(std::string_view name);

  // Replaces `pieces` by the ranges of `text`, in order and without gaps. Requires: `text` is
  // UTF-8 and shorter than 4 GiB. Errors: internal (the pattern engine ran out of a resource).
  result<void> split(std::string_view text, std::vector<text_range>& pieces) const;

  bool whole_words_first() const noexcept { return family_->whole_words_first; }
  bool adds_bos() const noexcept { return family_->adds_bos; }

private:
  struct free_code {
    void operator()(pcre2_real_code_8* code) const noexcept;
  };
  using code = std::unique_ptr<pcre2_real_code_8, free_code>;

  explicit pre_tokenizer(const pre_tokenizer_family& family) : family_(&family) {}

  const pre_tokenizer_family* family_;
  const letters* letters_ = nullptr; // null unless the family takes words
  std::vector<code> codes_;
};

} // namespace baton::text
