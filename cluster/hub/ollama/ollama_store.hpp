// Models that Ollama has downloaded. Only looks: the store is Ollama's
// (github.com/ollama/ollama/blob/main/docs/faq.mdx, server/manifest.go).
//
//   manifests/HOST/NAMESPACE/MODEL/TAG   JSON: the layers, each a media type and a digest
//   blobs/sha256-DIGEST                  the bytes of a layer; one of them is a GGUF file
//
// Manifests come from servers, so they are read within bounds, and a digest becomes a path only if
// it is one.
#pragma once

#include "schema/result.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::cluster {

// [[HOST/]NAMESPACE/]MODEL[:TAG], as `ollama run` takes it.
struct ollama_name {
  std::string host, name_space, model, tag;
};
// Nothing: it has another form.
std::optional<ollama_name> parse_ollama_name(std::string_view text);
// Without what is the default: "llama3.2:1b", "hf.co/org/repo:Q4_K_M".
std::string text_of(const ollama_name& name);

struct ollama_model {
  std::string name; // as text_of() has it
  std::filesystem::path blob;
  std::uint64_t bytes = 0;
  bool has_adapter = false;  // a LoRA, which belongs to its answers
  bool has_settings = false; // a template, a system message or parameters beside the file
};

// The models of one store whose bytes are there, ordered by name.
std::vector<ollama_model> ollama_models(const std::filesystem::path& store);
// The model of that name in the first store that has it. Errors: not_found (names the stores),
// invalid_value (no name), unsupported_model (its answers need an adapter).
result<ollama_model> find_ollama_model(const std::vector<std::filesystem::path>& stores,
                                       const std::string& name);

} // namespace baton::cluster
