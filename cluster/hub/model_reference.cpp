#include "cluster/hub/model_reference.hpp"

#include "cluster/hub/known_models.hpp"
#include "cluster/hub/ollama/ollama_store.hpp"

#include <algorithm>
#include <array>

namespace baton::cluster {
namespace {

constexpr std::string_view hub_scheme = "hf:", ollama_scheme = "ollama:";
constexpr std::array<std::string_view, 2> hub_hosts{"hf.co/", "huggingface.co/"};
constexpr std::string_view gguf_ending = ".gguf";
constexpr std::size_t repository_name_bytes_max = 96; // huggingface_hub: validate_repo_id
constexpr std::size_t revision_bytes_max = 128;

bool is_word(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_repository_name(std::string_view name) noexcept {
  const auto is_allowed = [](char c) { return is_word(c) || c == '-' || c == '.'; };
  return !name.empty() && name.size() <= repository_name_bytes_max &&
         std::all_of(name.begin(), name.end(), is_allowed) && is_word(name.front()) &&
         is_word(name.back()) && name.find("--") == name.npos && name.find("..") == name.npos;
}

bool is_url(std::string_view text) noexcept {
  return text.starts_with("https://") || text.starts_with("http://");
}

std::string_view without_hub_host(std::string_view text) noexcept {
  for (const auto host : hub_hosts)
    if (text.starts_with(host))
      return text.substr(host.size());
  return text;
}

// Takes what is behind the first `mark` off `text`.
std::string taken_behind(std::string_view& text, char mark) {
  const auto at = text.find(mark);
  if (at == text.npos)
    return {};
  std::string behind(text.substr(at + 1));
  text = text.substr(0, at);
  return behind;
}

error bad_reference(std::string_view text, std::string_view why) {
  return fail(errc::invalid_value,
              "{}: {}; a model is a path, hf:ORG/REPO[:QUANT][@REVISION], or the URL of a GGUF "
              "file",
              text, why);
}

std::string with_slashes(std::string_view encoded) {
  constexpr std::string_view slash = "%2F";
  std::string text(encoded);
  for (auto at = text.find(slash); at != text.npos; at = text.find(slash, at))
    text.replace(at, slash.size(), "/");
  return text;
}

// "ORG/REPO[:QUANT][@REVISION]"
result<model_reference> parse_repository(std::string_view given, std::string_view rest) {
  model_reference r;
  r.from = model_reference::source::repository;
  r.text = given;
  const bool has_revision = rest.find('@') != rest.npos;
  if (auto revision = taken_behind(rest, '@'); has_revision) {
    if (!is_revision(revision))
      return bad_reference(given, "the text after @ is no revision");
    r.revision = std::move(revision);
  }
  const bool has_quant = rest.find(':') != rest.npos;
  r.quant = taken_behind(rest, ':');
  if (has_quant && r.quant.empty())
    return bad_reference(given, "nothing is behind the colon");
  if (!is_repository_id(rest))
    return bad_reference(given, "ORG/REPO is two names of letters, digits, dots, dashes and "
                                "underscores");
  r.repository = rest;
  return r;
}

// A file's page or download of the hub: ORG/REPO/blob/REVISION/FILE, .../resolve/...; or ORG/REPO.
result<model_reference> parse_hub_path(std::string_view given, std::string_view path) {
  path = path.substr(0, path.find_first_of("?#"));
  while (path.ends_with('/'))
    path.remove_suffix(1);
  for (const std::string_view middle : {"/resolve/", "/blob/"}) {
    const auto at = path.find(middle);
    if (at == path.npos)
      continue;
    const auto behind = path.substr(at + middle.size());
    // "refs/pr/1" is refs%2Fpr%2F1 in a URL, so a revision is one segment.
    const auto slash = behind.find('/');
    if (slash == behind.npos || slash + 1 == behind.size())
      return bad_reference(given, "the URL names no file");
    auto r = parse_repository(given, path.substr(0, at));
    if (!r)
      return r;
    r->revision = with_slashes(behind.substr(0, slash));
    r->quant = behind.substr(slash + 1);
    if (!is_revision(r->revision) || !r->quant.ends_with(gguf_ending))
      return bad_reference(given, "the URL names no GGUF file");
    return r;
  }
  return parse_repository(given, path);
}

result<model_reference> parse_ollama(std::string_view given, std::string_view name) {
  const auto parsed = parse_ollama_name(name);
  if (!parsed)
    return bad_reference(given, "a model of Ollama is ollama:NAME[:TAG]");
  model_reference r;
  r.from = model_reference::source::ollama;
  r.text = given;
  r.repository = text_of(*parsed);
  return r;
}

} // namespace

bool is_repository_id(std::string_view id) noexcept {
  const auto slash = id.find('/');
  return slash != id.npos && is_repository_name(id.substr(0, slash)) &&
         is_repository_name(id.substr(slash + 1));
}

bool is_revision(std::string_view revision) noexcept {
  const auto is_allowed = [](char c) {
    return is_word(c) || c == '-' || c == '.' || c == '/' || c == '+';
  };
  return !revision.empty() && revision.size() <= revision_bytes_max &&
         std::all_of(revision.begin(), revision.end(), is_allowed) && is_word(revision.front()) &&
         revision.back() != '/' && revision.find("..") == revision.npos &&
         revision.find("//") == revision.npos && revision.find("/.") == revision.npos;
}

bool is_explicit_reference(std::string_view text) noexcept {
  return text.starts_with(hub_scheme) || text.starts_with(ollama_scheme) || is_url(text) ||
         without_hub_host(text) != text;
}

bool is_reference(std::string_view text) noexcept {
  if (is_explicit_reference(text) || find_known_model(text) != nullptr)
    return true;
  const auto id = text.substr(0, text.find_first_of(":@"));
  return is_repository_id(id) && !id.ends_with(gguf_ending) && !id.ends_with(".toml");
}

result<model_reference> parse_reference(std::string_view text, std::string_view endpoint) {
  if (text.starts_with(hub_scheme))
    return parse_repository(text, text.substr(hub_scheme.size()));
  if (text.starts_with(ollama_scheme))
    return parse_ollama(text, text.substr(ollama_scheme.size()));
  if (const auto rest = without_hub_host(text); rest != text)
    return parse_hub_path(text, rest);
  if (is_url(text)) {
    for (const auto hub : {endpoint, hub_endpoint_default, std::string_view("https://hf.co")})
      if (!hub.empty() && text.starts_with(hub) && text.substr(hub.size()).starts_with('/'))
        return parse_hub_path(text, text.substr(hub.size() + 1));
    if (!text.substr(0, text.find_first_of("?#")).ends_with(gguf_ending))
      return bad_reference(text, "the URL names no GGUF file");
    model_reference r;
    r.from = model_reference::source::url;
    r.text = text;
    return r;
  }
  if (const auto* known = find_known_model(text)) {
    auto r = parse_repository(known->reference, known->reference.substr(hub_scheme.size()));
    if (r)
      r->text = text;
    return r;
  }
  if (is_reference(text))
    return parse_repository(text, text);
  model_reference r;
  r.text = text;
  return r;
}

std::string ollama_reference(std::string_view name) {
  return fmt::format("{}{}", ollama_scheme, name);
}

std::string text_of(const model_reference& reference) {
  if (reference.from == model_reference::source::ollama)
    return ollama_reference(reference.repository);
  if (reference.from != model_reference::source::repository)
    return reference.text;
  auto text = fmt::format("{}{}", hub_scheme, reference.repository);
  if (!reference.quant.empty())
    text += ":" + reference.quant;
  if (reference.revision != hub_revision_default)
    text += "@" + reference.revision;
  return text;
}

} // namespace baton::cluster
