// Short names of models, as people type them: `cluster run smollm2`, `cluster pull qwen2.5:0.5b`.
// The table is in known_models.cpp.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace baton::cluster {

struct known_model {
  std::string_view name;      // "smollm2:360m", in lower case
  std::string_view reference; // "hf:ORG/REPO:QUANT"
};

// All rows, those of a family together. The name of a family alone means its first row.
std::span<const known_model> known_models() noexcept;

// "smollm2:360m", "smollm2" or "smollm2:latest", in any case. Null: no such row.
const known_model* find_known_model(std::string_view name) noexcept;

// The nearest name of the table, for "did you mean". Nothing: none is near, or the text looks like
// a path.
std::optional<std::string_view> nearest_known_model(std::string_view name);

} // namespace baton::cluster
