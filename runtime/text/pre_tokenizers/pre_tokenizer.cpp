// Compiles a family's patterns with PCRE2's JIT and splits text; see pre_tokenizer.hpp.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/text/pre_tokenizers/pre_tokenizer.hpp"

#include "runtime/text/unicode/letters.hpp"
#include "schema/ensure.hpp"

#include <pcre2.h>

#include <algorithm>
#include <array>
#include <string>

namespace baton::text {

namespace {

// Unicode's White_Space, as the content of a character class.
constexpr std::string_view white_space = R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A})"
                                         R"(\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

// Expands \s and \S. Requires: \S occurs only outside of classes.
std::string with_white_space(std::string_view pattern) {
  std::string written;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c != '\\' || i + 1 == pattern.size()) {
      in_class = c == '[' ? true : c == ']' ? false : in_class;
      written += c;
      continue;
    }
    const char escaped = pattern[++i];
    ENSURE(escaped != 'S' || !in_class, "\\S inside a class: {}", pattern);
    if (escaped == 's')
      written.append(in_class ? "" : "[").append(white_space).append(in_class ? "" : "]");
    else if (escaped == 'S')
      written.append("[^").append(white_space).append("]");
    else
      written.append({c, escaped});
  }
  return written;
}

std::string message_of(int number) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(number, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

struct free_match_data {
  void operator()(pcre2_match_data* data) const noexcept { pcre2_match_data_free(data); }
};
using match_data = std::unique_ptr<pcre2_match_data, free_match_data>;

void append(std::vector<text_range>& pieces, std::size_t begin, std::size_t end) {
  if (begin < end)
    pieces.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
}

// Splits text[piece] by one pattern. The subject is the piece alone: a pattern sees nothing outside
// it.
result<void> split_piece(const pcre2_code* code, pcre2_match_data* data,
                         const letters* word_letters, std::string_view text, text_range piece,
                         std::vector<text_range>& out) {
  const std::string_view whole = text.substr(piece.begin, piece.end - piece.begin);
  const std::size_t size = whole.size();
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(whole.data());
  std::size_t done = 0; // everything before this offset is in `out`
  while (done < size) {
    if (word_letters != nullptr)
      if (const std::size_t end = end_of_word(*word_letters, whole, done); end > done) {
        append(out, piece.begin + done, piece.begin + end);
        done = end;
        continue;
      }
    const int matched = pcre2_match(code, subject, size, done, PCRE2_NO_UTF_CHECK, data, nullptr);
    if (matched == PCRE2_ERROR_NOMATCH)
      break;
    if (matched < 0)
      return fail(errc::internal, "the pre-tokenizer's pattern failed: {}", message_of(matched));
    const PCRE2_SIZE* found = pcre2_get_ovector_pointer(data);
    ENSURE(found[1] > found[0], "a pre-tokenizer's pattern matched nothing at all");
    append(out, piece.begin + done, piece.begin + found[0]);
    append(out, piece.begin + found[0], piece.begin + found[1]);
    done = found[1];
  }
  append(out, piece.begin + done, piece.end);
  return {};
}

} // namespace

void pre_tokenizer::free_code::operator()(pcre2_real_code_8* code) const noexcept {
  pcre2_code_free(code);
}

result<pre_tokenizer> pre_tokenizer::create(std::string_view name) {
  const auto families = pre_tokenizer_families();
  const auto family = std::find_if(families.begin(), families.end(), [&](const auto& candidate) {
    return std::find(candidate.names.begin(), candidate.names.end(), name) != candidate.names.end();
  });
  if (family == families.end())
    return fail(errc::unsupported_model,
                "the pre-tokenizer '{}' (tokenizer.ggml.pre) is not known to this build", name);
  pre_tokenizer made(*family);
  if (family->takes_words)
    made.letters_ = &letters::get();
  for (const std::string_view pattern : family->patterns) {
    const std::string written = with_white_space(pattern);
    int number = 0;
    PCRE2_SIZE offset = 0;
    code compiled(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(written.data()), written.size(),
                                PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY, &number, &offset,
                                nullptr));
    ENSURE(compiled != nullptr, "pattern of '{}' at {}: {}: {}", name, offset, message_of(number),
           written);
    // Without a JIT for this machine, PCRE2 interprets the pattern: same pieces, more slowly.
    pcre2_jit_compile(compiled.get(), PCRE2_JIT_COMPLETE);
    made.codes_.push_back(std::move(compiled));
  }
  return made;
}

result<void> pre_tokenizer::split(std::string_view text, std::vector<text_range>& pieces) const {
  ENSURE(text.size() <= UINT32_MAX, "text of {} bytes", text.size());
  pieces.clear();
  append(pieces, 0, text.size());
  std::vector<text_range> before;
  for (const code& pattern : codes_) {
    const match_data data(pcre2_match_data_create_from_pattern(pattern.get(), nullptr));
    if (data == nullptr)
      return fail(errc::internal, "no memory for a pre-tokenizer's match");
    before.swap(pieces);
    pieces.clear();
    const auto* word_letters = &pattern == &codes_.back() ? letters_ : nullptr;
    for (const text_range piece : before)
      if (auto done = split_piece(pattern.get(), data.get(), word_letters, text, piece, pieces);
          !done)
        return done;
  }
  return {};
}

} // namespace baton::text
