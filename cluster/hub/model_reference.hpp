// How people name a model: a path, a repository of the Hugging Face hub, or a URL of one file.
//
//   smollm2, qwen2.5:0.5b (known_models.hpp)
//   hf:ORG/REPO[:QUANT][@REVISION]    ORG/REPO[:QUANT][@REVISION]    hf.co/ORG/REPO[:QUANT]
//   https://HOST/.../FILE.gguf        https://huggingface.co/ORG/REPO/resolve/REVISION/FILE.gguf
//   ollama:NAME[:TAG], a model that Ollama has on this machine; anything else is a path
#pragma once

#include "schema/result.hpp"

#include <string>
#include <string_view>

namespace baton::cluster {

inline constexpr std::string_view hub_endpoint_default = "https://huggingface.co";
inline constexpr std::string_view hub_revision_default = "main";

struct model_reference {
  enum class source { path, repository, url, ollama };

  source from = source::path;
  std::string text;       // as given; the path or URL
  std::string repository; // "ORG/REPO", or Ollama's name: "llama3.2:1b"
  std::string quant;      // "Q4_K_M", or a file of the repository; empty: the best one
  std::string revision{hub_revision_default}; // a branch, a tag, "refs/pr/1" or a commit

  friend bool operator==(const model_reference&, const model_reference&) = default;
};

// Whether the text, in that form, can never be a path: it begins with "hf:", "hf.co/", "ollama:" or
// a URL's scheme.
bool is_explicit_reference(std::string_view text) noexcept;

// Whether it is one of those, or a short name, or has the form ORG/REPO; a path may be called so as
// well. A name that ends as a file does (.gguf, .toml) is a path.
bool is_reference(std::string_view text) noexcept;

// A short name, or a text of the form ORG/REPO, is taken for a repository: the caller first looks
// whether such a path exists. `endpoint`: the hub, whose URLs name files of repositories. Errors:
// invalid_value.
result<model_reference> parse_reference(std::string_view text,
                                        std::string_view endpoint = hub_endpoint_default);

// The text that leads to the same model again: hf:ORG/REPO[:QUANT][@REVISION].
std::string text_of(const model_reference& reference);

// "ollama:" and the name.
std::string ollama_reference(std::string_view name);

// Whether both halves are names that the hub allows.
bool is_repository_id(std::string_view id) noexcept;
// A branch, a tag or a commit, which becomes a path in the cache: no "..", no empty segment.
bool is_revision(std::string_view revision) noexcept;

} // namespace baton::cluster
