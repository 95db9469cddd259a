#include "cluster/hub/known_models.hpp"

#include "schema/nearest.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace baton::cluster {
namespace {

// One row a model. To add one:
//   1. its family has a row in runtime/model/family.cpp, and `cluster model inspect` says that the
//      file runs;
//   2. the reference is a public repository, names the quantization (so that a run on each machine
//      is the same file) and leads to a GGUF file in one part;
//   3. the name is FAMILY:SIZE in lower case, beside its family. The first row of a family is the
//      model of the name without a size: the smallest that gives a usable answer.
// The tests check the form, `cluster models --known` and docs/start/your-model.md list the table.
constexpr std::array rows{
    known_model{"smollm2:135m", "hf:bartowski/SmolLM2-135M-Instruct-GGUF:Q4_K_M"},
    known_model{"smollm2:360m", "hf:bartowski/SmolLM2-360M-Instruct-GGUF:Q4_K_M"},
    known_model{"smollm2:1.7b", "hf:bartowski/SmolLM2-1.7B-Instruct-GGUF:Q4_K_M"},
    known_model{"smollm3:3b", "hf:bartowski/HuggingFaceTB_SmolLM3-3B-GGUF:Q4_K_M"},
    known_model{"qwen2.5:0.5b", "hf:Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q4_K_M"},
    known_model{"qwen2.5:1.5b", "hf:Qwen/Qwen2.5-1.5B-Instruct-GGUF:Q4_K_M"},
    known_model{"qwen2.5:3b", "hf:Qwen/Qwen2.5-3B-Instruct-GGUF:Q4_K_M"},
    known_model{"qwen2.5:7b", "hf:bartowski/Qwen2.5-7B-Instruct-GGUF:Q4_K_M"},
    known_model{"qwen2.5:14b", "hf:bartowski/Qwen2.5-14B-Instruct-GGUF:Q4_K_M"},
    known_model{"qwen2.5:32b", "hf:bartowski/Qwen2.5-32B-Instruct-GGUF:Q4_K_M"},
    known_model{"qwen2.5-coder:1.5b", "hf:Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF:Q4_K_M"},
    known_model{"qwen2.5-coder:0.5b", "hf:Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF:Q4_K_M"},
    known_model{"qwen2.5-coder:3b", "hf:Qwen/Qwen2.5-Coder-3B-Instruct-GGUF:Q4_K_M"},
    known_model{"qwen2.5-coder:7b", "hf:bartowski/Qwen2.5-Coder-7B-Instruct-GGUF:Q4_K_M"},
    known_model{"qwen2.5-coder:14b", "hf:bartowski/Qwen2.5-Coder-14B-Instruct-GGUF:Q4_K_M"},
    known_model{"qwen3:0.6b", "hf:Qwen/Qwen3-0.6B-GGUF:Q8_0"},
    known_model{"qwen3:1.7b", "hf:Qwen/Qwen3-1.7B-GGUF:Q8_0"},
    known_model{"qwen3:4b", "hf:Qwen/Qwen3-4B-GGUF:Q4_K_M"},
    known_model{"qwen3:8b", "hf:Qwen/Qwen3-8B-GGUF:Q4_K_M"},
    known_model{"qwen3:14b", "hf:Qwen/Qwen3-14B-GGUF:Q4_K_M"},
    known_model{"qwen3:32b", "hf:Qwen/Qwen3-32B-GGUF:Q4_K_M"},
    known_model{"qwen3:30b-a3b", "hf:Qwen/Qwen3-30B-A3B-GGUF:Q4_K_M"},
    known_model{"llama3.2:1b", "hf:bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M"},
    known_model{"llama3.2:3b", "hf:bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M"},
    known_model{"llama3.1:8b", "hf:bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M"},
    known_model{"llama3.3:70b", "hf:bartowski/Llama-3.3-70B-Instruct-GGUF:Q4_K_M"},
    known_model{"mistral:7b", "hf:bartowski/Mistral-7B-Instruct-v0.3-GGUF:Q4_K_M"},
    known_model{"gemma2:2b", "hf:bartowski/gemma-2-2b-it-GGUF:Q4_K_M"},
    known_model{"gemma2:9b", "hf:bartowski/gemma-2-9b-it-GGUF:Q4_K_M"},
    known_model{"gemma2:27b", "hf:bartowski/gemma-2-27b-it-GGUF:Q4_K_M"},
    known_model{"gemma3:1b", "hf:ggml-org/gemma-3-1b-it-GGUF:Q4_K_M"},
    known_model{"gemma3:4b", "hf:ggml-org/gemma-3-4b-it-GGUF:Q4_K_M"},
    known_model{"gemma3:12b", "hf:ggml-org/gemma-3-12b-it-GGUF:Q4_K_M"},
    known_model{"gemma3:27b", "hf:ggml-org/gemma-3-27b-it-GGUF:Q4_K_M"},
    known_model{"phi3:mini", "hf:bartowski/Phi-3.1-mini-4k-instruct-GGUF:Q4_K_M"},
    known_model{"phi3:medium", "hf:bartowski/Phi-3-medium-4k-instruct-GGUF:Q4_K_M"},
    known_model{"phi4:14b", "hf:bartowski/phi-4-GGUF:Q4_K_M"},
};

constexpr std::string_view tag_of_default = ":latest"; // as Ollama's names have it
constexpr std::size_t short_name_bytes_max = 64;

std::string_view family_of_name(std::string_view name) noexcept {
  return name.substr(0, name.find(':'));
}

std::string lower_name(std::string_view name) {
  std::string all(name);
  std::transform(all.begin(), all.end(), all.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return all;
}

} // namespace

std::span<const known_model> known_models() noexcept {
  return rows;
}

const known_model* find_known_model(std::string_view name) noexcept {
  if (name.empty() || name.size() > short_name_bytes_max)
    return nullptr;
  const auto lower = lower_name(name);
  std::string_view wanted = lower;
  if (wanted.ends_with(tag_of_default))
    wanted.remove_suffix(tag_of_default.size());
  const bool is_family = wanted.find(':') == wanted.npos;
  for (const auto& row : rows)
    if (wanted == (is_family ? family_of_name(row.name) : row.name))
      return &row;
  return nullptr;
}

std::optional<std::string_view> nearest_known_model(std::string_view name) {
  if (name.size() < 3 || name.find('/') != name.npos || name.ends_with(".gguf") ||
      name.ends_with(".toml"))
    return std::nullopt;
  const auto lower = lower_name(name);
  // A family with another size is a nearer guess than another family of that size.
  const auto family = family_of_name(lower);
  std::vector<std::string_view> same, all;
  for (const auto& row : rows) {
    const auto other = family_of_name(row.name);
    if (other == family)
      same.push_back(row.name);
    if (all.empty() || all.back() != other)
      all.push_back(other);
  }
  if (!same.empty()) {
    const auto near = nearest_name(lower, same);
    return near ? near : same.front();
  }
  if (family.size() == lower.size())
    return nearest_name(lower, all);
  all.clear();
  for (const auto& row : rows)
    all.push_back(row.name);
  return nearest_name(lower, all);
}

} // namespace baton::cluster
