// Models that are on this machine already: in the cache of Hugging Face, downloaded from URLs, and
// those of Ollama and LM Studio. Only looks.
#pragma once

#include "cluster/hub/hub_settings.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace baton::cluster {

struct local_model {
  std::string name;   // what `cluster run` takes: a reference, "ollama:llama3.2:1b", or the path
  std::string shown;  // for people: "llama3.2:1b" of Ollama
  std::string source; // "huggingface", "url", "ollama" or "lmstudio"
  std::string format; // "gguf" or "safetensors"
  std::uint64_t bytes = 0;
  std::filesystem::path path;
};

// Ordered by source and name.
std::vector<local_model> local_models(const hub_settings& settings);

} // namespace baton::cluster
