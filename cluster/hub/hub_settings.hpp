// Settings of the environment, under the names of huggingface_hub: HF_ENDPOINT, HF_TOKEN,
// HF_TOKEN_PATH, HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE, HF_HUB_DOWNLOAD_TIMEOUT. Proxies are those
// of libcurl: https_proxy, no_proxy. And where other programs keep models: OLLAMA_MODELS.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace baton::cluster {

struct hub_settings {
  std::string endpoint;            // without a slash at the end
  std::string token;               // empty: none
  std::filesystem::path cache;     // of huggingface_hub: models--ORG--REPO
  std::filesystem::path downloads; // of files that are at a URL outside of the hub
  // Where programs keep models that are served and never changed: $OLLAMA_MODELS or
  // ~/.ollama/models, and the one of Ollama's service; ~/.lmstudio/models,
  // ~/.cache/lm-studio/models.
  std::vector<std::filesystem::path> ollama{}, lmstudio{};
  bool is_offline = false;
  std::chrono::seconds silence_max{10}; // a transfer without a byte for so long is cut
};

// Value of a variable, or null.
using environment = std::function<const char*(const char*)>;
hub_settings hub_settings_of(const environment& variable);
// The same of this process.
hub_settings hub_settings_here();

// A path of the environment, as huggingface_hub expands it: first "~" or "~USER" at its beginning,
// then $NAME and ${NAME}. A name of no user or variable stays as it is.
std::filesystem::path expanded_path(const std::string& path, const environment& variable);

} // namespace baton::cluster
