// Vocabularies for the tests of masks.
#pragma once

#include "runtime/grammar/automata/mask_maker.hpp"
#include "runtime/model/gguf/gguf.hpp"
#include "runtime/text/vocabulary/vocabulary_gguf.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <random>

namespace baton::test {

// Every byte, and texts of all kinds; the last id is the end token.
inline grammar::answer_texts small_texts() {
  grammar::answer_texts out;
  for (int byte = 0; byte < 256; ++byte)
    out.all.emplace_back(1, static_cast<char>(byte));
  for (const char* text : {"true",     "false",     "null",     "\": ",     "\",",
                           "\", \"",   "{\"",       "}",        "}}",       "]}",
                           " the",     "the",       "  ",       "\n",       "\n  ",
                           "123",      "12",        "-1",       ".5",       "e1",
                           "\xc3\xa9", "\xc3\xa9t", "\xe4\xb8", "\xad\xe6", "\xf0\x9f\x98\x80",
                           "\\n",      "\\u",       "\\\"",     "name",     "name\": ",
                           "abc",      "a",         "the"})
    out.all.emplace_back(text);
  std::mt19937 random(3);
  for (int i = 0; i < 500; ++i) {
    std::string text;
    for (auto n = 1 + random() % 5; n > 0; --n)
      text += "abcdef \"\\{}[]:,0123456789-.\n\xc3\xa9"[random() % 31];
    out.all.push_back(text);
  }
  out.all.emplace_back();
  out.end_ids = {static_cast<token_id>(out.all.size() - 1)};
  return out;
}

// The default model's vocabulary; nothing without its file (see ./up).
inline std::optional<grammar::answer_texts> model_texts() {
  const std::filesystem::path path =
      std::string(BATON_SOURCE_DIR) + "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path)) {
    MESSAGE("no model file: ", path.string());
    return std::nullopt;
  }
  const auto file = model::gguf_file::open(path);
  REQUIRE(file.has_value());
  const auto words = text::vocabulary_from(*file);
  REQUIRE(words.has_value());
  return grammar::texts_of(text::tokenizer::create(*words).value());
}

inline bool has(const grammar::token_bits& bits, std::size_t id) {
  return (bits[id / 64] >> (id % 64) & 1) != 0;
}

// Counts the ids whose bit differs from a walk over their bytes.
inline std::size_t wrong_bits(grammar::automaton& of, grammar::automaton::state from,
                              const grammar::answer_texts& texts, bool is_first,
                              const grammar::token_bits& bits) {
  std::size_t wrong = 0;
  const auto& all = is_first && !texts.first.empty() ? texts.first : texts.all;
  for (std::size_t id = 0; id < all.size(); ++id) {
    auto s = from;
    for (const char byte : all[id])
      s = of.step(s, static_cast<std::uint8_t>(byte));
    const bool is_end = std::find(texts.end_ids.begin(), texts.end_ids.end(),
                                  static_cast<token_id>(id)) != texts.end_ids.end();
    const bool may_come =
        is_end ? of.accepts(from) : !all[id].empty() && s != grammar::automaton::dead;
    wrong += has(bits, id) == may_come ? 0 : 1;
  }
  return wrong;
}

} // namespace baton::test
