#include "cluster/hub/hub_settings.hpp"

#include "cluster/files/text_file.hpp"
#include "cluster/hub/model_reference.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

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

// The home directory of a user; empty: there is none of that name. `name` empty: this one's.
std::string home_of(const std::string& name, const environment& variable) {
  if (const auto* home = variable("HOME"); name.empty() && home != nullptr)
    return home;
  std::array<char, 16384> text{};
  passwd entry{};
  passwd* found = nullptr;
  const int failed = name.empty()
                         ? getpwuid_r(getuid(), &entry, text.data(), text.size(), &found)
                         : getpwnam_r(name.c_str(), &entry, text.data(), text.size(), &found);
  return failed == 0 && found != nullptr ? std::string(found->pw_dir) : std::string();
}

// As os.path.expanduser of Python.
std::string with_home(const std::string& path, const environment& variable) {
  if (!path.starts_with('~'))
    return path;
  const auto slash = std::min(path.find('/'), path.size());
  const auto name = path.substr(1, slash - 1);
  auto home = home_of(name, variable);
  if (home.empty() && !name.empty())
    return path;
  while (home.ends_with('/'))
    home.pop_back();
  home += path.substr(slash);
  return home.empty() ? "/" : home;
}

// The length of $NAME or ${NAME} at the beginning, and the name; 0: neither.
std::pair<std::size_t, std::string> variable_at(std::string_view text) {
  if (text.starts_with("${")) {
    const auto end = text.find('}');
    return end == text.npos ? std::pair<std::size_t, std::string>()
                            : std::pair(end + 1, std::string(text.substr(2, end - 2)));
  }
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  std::size_t end = 1;
  while (end < text.size() && is_word(text[end]))
    ++end;
  return end == 1 ? std::pair<std::size_t, std::string>()
                  : std::pair(end, std::string(text.substr(1, end - 1)));
}

// As os.path.expandvars of Python: values are not expanded again.
std::string with_variables(std::string_view text, const environment& variable) {
  std::string all;
  while (!text.empty()) {
    const auto dollar = std::min(text.find('$'), text.size());
    all += text.substr(0, dollar);
    text.remove_prefix(dollar);
    if (text.empty())
      break;
    const auto [length, name] = variable_at(text);
    const auto* value = length > 0 ? variable(name.c_str()) : nullptr;
    const auto taken = std::max<std::size_t>(length, 1);
    all += value != nullptr ? std::string(value) : std::string(text.substr(0, taken));
    text.remove_prefix(taken);
  }
  return all;
}

fs::path cache_home(const environment& variable) {
  const auto xdg = value_of(variable, "XDG_CACHE_HOME");
  return xdg.empty() ? expanded_path("~/.cache", variable) : expanded_path(xdg, variable);
}

} // namespace

fs::path expanded_path(const std::string& path, const environment& variable) {
  return with_variables(with_home(path, variable), variable);
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
                                       : expanded_path(home_given, variable);
  auto cache = value_of(variable, "HF_HUB_CACHE");
  if (cache.empty())
    cache = value_of(variable, "HUGGINGFACE_HUB_CACHE"); // its name of old
  s.cache = cache.empty() ? home / "hub" : expanded_path(cache, variable);
  s.downloads = cache_home(variable) / "baton" / "models";
  const auto ollama = value_of(variable, "OLLAMA_MODELS");
  s.ollama = {expanded_path(ollama.empty() ? "~/.ollama/models" : ollama, variable),
              "/usr/share/ollama/.ollama/models"};
  s.lmstudio = {expanded_path("~/.lmstudio/models", variable),
                expanded_path("~/.cache/lm-studio/models", variable)};
  s.token = clean_token(value_of(variable, "HF_TOKEN"));
  if (s.token.empty())
    s.token = clean_token(value_of(variable, "HUGGING_FACE_HUB_TOKEN"));
  if (s.token.empty()) {
    const auto file = value_of(variable, "HF_TOKEN_PATH");
    s.token =
        clean_token(first_line(file.empty() ? home / "token" : expanded_path(file, variable)));
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
