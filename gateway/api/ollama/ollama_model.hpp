// The served models in the words of Ollama's API: names with tags, lists, descriptions. Pure.
//
// A gateway knows no files of models: `size` is 0, and `digest` identifies the description.
#pragma once

#include "schema/membership.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

// The API's version: clients check it before they send newer fields.
inline constexpr std::string_view ollama_version = "0.13.5";

// "smollm2" -> "smollm2:latest"; a name with a tag stays.
std::string tagged_name(std::string_view name);

// The name among `served` that the client means, with or without ":latest"; nothing: there is none.
std::optional<std::string> served_name(const std::vector<std::string>& served,
                                       std::string_view asked);

// A model, and the name that it is listed under.
struct listed_model {
  std::string name;
  model_card card;
  // When it is unloaded, unless a request comes; none: never.
  std::optional<std::chrono::system_clock::time_point> expires_at{};
};

std::string ollama_tags_body(const std::vector<listed_model>& models); // GET /api/tags
std::string ollama_ps_body(const std::vector<listed_model>& models);   // GET /api/ps
std::string ollama_show_body(const listed_model& model);               // POST /api/show
// GET /api/version. `build`: this server's own.
std::string ollama_version_body(std::string_view build);
// POST /api/pull of a model that is served.
std::string ollama_pull_body();

} // namespace baton::gateway
