// The steps under "normalizer" in tokenizer.json, applied in order. The tokenizer calls it for each
// text between special tokens. Immutable once built.
#pragma once

#include "runtime/text/unicode/character_map.hpp"
#include "runtime/text/vocabulary/vocabulary.hpp"
#include "schema/result.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::text {

class text_steps {
public:
  // Errors: bad_model_file (a character map).
  static result<text_steps> create(const std::vector<text_step>& steps);

  struct outcome {
    std::string text;
    bool lost_begin = false; // its first characters were removed, not replaced
  };

  bool empty() const noexcept { return steps_.empty(); }
  // Errors: payload_too_large (normalized_bytes_max).
  result<outcome> apply(std::string_view text) const;

private:
  struct step {
    text_step what;
    character_map map;
  };
  text_steps() = default;

  static std::string applied(const step& each, std::string_view text);
  static bool loses_begin(const step& each, std::string_view text);

  std::vector<step> steps_;
};

} // namespace baton::text
