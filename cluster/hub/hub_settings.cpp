#include "cluster/hub/hub_settings.hpp"

#include "cluster/hub/model_reference.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string_view>

namespace baton::cluster {
namespace fs = std::filesystem;
namespace {

constexpr int silence_seconds_max = 3600;

std::string value_of(const environment& variable, const char* name) {
  const auto* value = variable(name);
  return value == nullptr ? std::string() : std::string(value);
}

// As huggingface_hub reads it: 1, ON, YES, TRUE.
bool is_true(std::string value) {
  std::transform(value.begin(), value.end(), value.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

std::string trimmed(const std::string& text) {
  constexpr std::string_view spaces = " \t\r\n";
  const auto first = text.find_first_not_of(spaces);
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(spaces) - first + 1);
}

// A token is sent in a header: nothing that would end the line.
std::string clean_token(const std::string& text) {
  auto token = trimmed(text);
  const bool is_clean =
      std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  return is_clean ? token : std::string();
}

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

fs::path cache_home(const environment& variable) {
  const auto xdg = value_of(variable, "XDG_CACHE_HOME");
  return xdg.empty() ? expanded_home("~/.cache", variable) : expanded_home(xdg, variable);
}

} // namespace

fs::path expanded_home(const std::string& path, const environment& variable) {
  if (path != "~" && !path.starts_with("~/"))
    return path;
  return fs::path(value_of(variable, "HOME")) / path.substr(std::min<std::size_t>(path.size(), 2));
}

hub_settings hub_settings_of(const environment& variable) {
  hub_settings s;
  s.endpoint = value_of(variable, "HF_ENDPOINT");
  if (s.endpoint.empty())
    s.endpoint = hub_endpoint_default;
  while (s.endpoint.ends_with('/'))
    s.endpoint.pop_back();
  const auto home_given = value_of(variable, "HF_HOME");
  const auto home = home_given.empty() ? cache_home(variable) / "huggingface"
                                       : expanded_home(home_given, variable);
  auto cache = value_of(variable, "HF_HUB_CACHE");
  if (cache.empty())
    cache = value_of(variable, "HUGGINGFACE_HUB_CACHE"); // its name of old
  s.cache = cache.empty() ? home / "hub" : expanded_home(cache, variable);
  s.downloads = cache_home(variable) / "baton" / "models";
  const auto ollama = value_of(variable, "OLLAMA_MODELS");
  s.ollama = {expanded_home(ollama.empty() ? "~/.ollama/models" : ollama, variable),
              "/usr/share/ollama/.ollama/models"};
  s.lmstudio = {expanded_home("~/.lmstudio/models", variable),
                expanded_home("~/.cache/lm-studio/models", variable)};
  s.token = clean_token(value_of(variable, "HF_TOKEN"));
  if (s.token.empty())
    s.token = clean_token(value_of(variable, "HUGGING_FACE_HUB_TOKEN"));
  if (s.token.empty()) {
    const auto file = value_of(variable, "HF_TOKEN_PATH");
    s.token =
        clean_token(first_line(file.empty() ? home / "token" : expanded_home(file, variable)));
  }
  const auto offline = value_of(variable, "HF_HUB_OFFLINE");
  s.is_offline = is_true(offline.empty() ? value_of(variable, "TRANSFORMERS_OFFLINE") : offline);
  const auto seconds = value_of(variable, "HF_HUB_DOWNLOAD_TIMEOUT");
  int given = 0;
  const auto read = std::from_chars(seconds.data(), seconds.data() + seconds.size(), given);
  if (read.ec == std::errc() && given > 0)
    s.silence_max = std::chrono::seconds(std::min(given, silence_seconds_max));
  return s;
}

hub_settings hub_settings_here() {
  return hub_settings_of([](const char* name) { return std::getenv(name); });
}

} // namespace baton::cluster
