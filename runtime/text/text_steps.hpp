// The steps that tokenizer.json lists under "normalizer", one after the other. Called by the
// tokenizer for each text between special tokens. Immutable once built.
#pragma once

#include "runtime/text/vocabulary.hpp"
#include "schema/result.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::text {

class text_steps {
public:
  explicit text_steps(std::vector<text_step> steps) : steps_(std::move(steps)) {}

  bool empty() const noexcept { return steps_.empty(); }
  // Errors: payload_too_large (normalized_bytes_max).
  result<std::string> apply(std::string_view text) const;

private:
  std::vector<text_step> steps_;
};

} // namespace baton::text
