// Vocabularies of model files that are rejected.
#include "runtime/text/tokenizer/tokenizer.hpp"
#include "runtime/text/vocabulary/vocabulary.hpp"
#include "tests/unit/text/goldens.hpp"

#include <doctest/doctest.h>

#include <functional>

using namespace baton;
using namespace baton::text;
using baton::text::goldens::small_vocabulary;

TEST_CASE("a valid vocabulary passes") {
  CHECK(validate(small_vocabulary()).has_value());
  CHECK(tokenizer::create(small_vocabulary()).has_value());
}

TEST_CASE("a malformed vocabulary is rejected with the reason") {
  struct row {
    const char* reason;
    errc code;
    std::function<void(vocabulary&)> spoil;
  };
  const row rows[] = {
      {"tokenizer model 'bert'", errc::unsupported_model, [](auto& v) { v.model = "bert"; }},
      {"no tokens", errc::bad_model_file, [](auto& v) { v.tokens.clear(); }},
      {"token types", errc::bad_model_file, [](auto& v) { v.kinds.pop_back(); }},
      {"unknown token type 9", errc::bad_model_file,
       [](auto& v) { v.kinds[3] = static_cast<token_kind>(9); }},
      {"unknown token type 0", errc::bad_model_file,
       [](auto& v) { v.kinds[3] = static_cast<token_kind>(0); }},
      {"eos token id", errc::bad_model_file,
       [](auto& v) { v.eos = static_cast<token_id>(v.tokens.size()); }},
      {"bos token id -1", errc::bad_model_file, [](auto& v) { v.bos = -1; }},
      {"bytes, more than", errc::bad_model_file,
       [](auto& v) { v.tokens[7] = std::string(vocabulary_limits::token_bytes_max + 1, 'a'); }},
      {"chat template", errc::bad_model_file,
       [](auto& v) { v.chat_template.resize(vocabulary_limits::chat_template_bytes_max + 1); }},
      {"merges, more than", errc::bad_model_file,
       [](auto& v) { v.merges.resize(vocabulary_limits::merges_max + 1); }},
      {"'no-such-pre'", errc::unsupported_model, [](auto& v) { v.pre = "no-such-pre"; }},
      {"merge 0 is not a pair", errc::bad_model_file, [](auto& v) { v.merges[0] = "ab"; }},
      {"merge 0 is not a pair", errc::bad_model_file, [](auto& v) { v.merges[0] = "a "; }},
      {"merge 0 is not a pair", errc::bad_model_file, [](auto& v) { v.merges[0] = " a"; }},
      {"merge 0 is not a pair", errc::bad_model_file, [](auto& v) { v.merges[0] = ""; }},
      {"merge 0 is not a pair", errc::bad_model_file, [](auto& v) { v.merges[0] = "a b c"; }},
      {"uses text that is not a token", errc::bad_model_file, [](auto& v) { v.merges[0] = "q z"; }},
      {"single letters", errc::bad_model_file,
       [](auto& v) { v.kinds.assign(v.kinds.size(), token_kind::control); }},
  };
  for (const row& wrong : rows) {
    vocabulary words = small_vocabulary();
    wrong.spoil(words);
    const auto made = tokenizer::create(words);
    REQUIRE_MESSAGE(!made, wrong.reason);
    CHECK(made.error().code == wrong.code);
    CHECK_MESSAGE(made.error().message.find(wrong.reason) != std::string::npos,
                  made.error().message);
  }
}
