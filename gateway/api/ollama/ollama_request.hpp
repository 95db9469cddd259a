// Converts requests to Ollama's API to typed requests: the same conversation, tools and sampling as
// a chat's. Pure. Unsupported fields are refused by name; docs/apis/ollama.md lists them.
#pragma once

#include "gateway/api/openai/request/openai_request.hpp"
#include "gateway/config/config.hpp"
#include "schema/result.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

enum class ollama_route : std::uint8_t { chat, generate };

struct ollama_call {
  ollama_route route = ollama_route::chat;
  openai_generate asked;
  bool only_loads = false; // without messages, or a prompt: loads a model on demand
  bool unloads = false;    // in place of that: `keep_alive` is 0
  // Until a model on demand is unloaded; below 0: without end.
  std::optional<std::chrono::milliseconds> keep_alive{};
  // Of /api/generate without `raw` and `system`: a model without a chat template continues it.
  std::optional<std::string> bare_prompt{};
};

// POST /api/chat, POST /api/generate. Errors: invalid_request, invalid_value,
// unsupported_parameter, with param.
result<ollama_call> parse_ollama(ollama_route route, std::string_view body,
                                 const request_limits& limits);

// POST /api/embed: {"model", "input"}; the older POST /api/embeddings: {"model", "prompt"}.
struct ollama_embed {
  std::string model;
  std::vector<generate> requests; // one for each text
  std::optional<std::chrono::milliseconds> keep_alive{};
  bool is_older = false; // its answer is one vector
};
result<ollama_embed> parse_ollama_embed(std::string_view body, const request_limits& limits);
result<ollama_embed> parse_ollama_embeddings(std::string_view body, const request_limits& limits);

// POST /api/show, /api/pull: the model that is asked about.
struct ollama_named {
  std::string model;
  bool is_stream = true;
};
result<ollama_named> parse_ollama_show(std::string_view body, const request_limits& limits);
result<ollama_named> parse_ollama_pull(std::string_view body, const request_limits& limits);

} // namespace baton::gateway
