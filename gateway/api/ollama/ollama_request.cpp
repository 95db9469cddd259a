#include "gateway/api/ollama/ollama_request.hpp"

#include "gateway/api/ollama/ollama_input.hpp"
#include "gateway/api/ollama/ollama_keep_alive.hpp"
#include "gateway/api/ollama/ollama_openapi.hpp"
#include "gateway/api/ollama/ollama_options.hpp"
#include "gateway/api/openai/request/embedding_request.hpp"
#include "gateway/api/openai/request/openai_constraint.hpp"
#include "gateway/api/openai/request/openai_fields.hpp"
#include "gateway/api/openai/request/openai_reasoning.hpp"
#include "gateway/request/translated_fields.hpp"
#include "schema/limits.hpp"

#include <array>
#include <set>
#include <utility>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

constexpr std::size_t format_name_bytes_max = 64; // of `format`, `think`, `keep_alive`

constexpr unsupported_field unsupported_in_ollama[] = {
    {"suffix", "\"\""}, {"template", "\"\""}, {"context", "[]", "/api/chat"},
    {"shift", "false"}, {"width", ""},        {"height", ""},
    {"steps", ""},
};

constexpr unsupported_field unsupported_in_ollama_embed[] = {{"dimensions", ""}};

// A number of seconds or a duration ("5m").
std::optional<std::chrono::milliseconds> read_keep_alive(field_reader& fields) {
  const auto* value = fields.find("keep_alive");
  if (!value) {
    return std::nullopt;
  }
  if (value->is_string()) {
    const auto text = fields.text("keep_alive", {}, format_name_bytes_max);
    const auto parsed = parse_keep_alive(text);
    if (!parsed) {
      fields.refuse(errc::invalid_value, "keep_alive",
                    "'keep_alive' must be a number of seconds, or a duration such as \"5m\" or "
                    "\"1h30m\"");
    }
    return parsed;
  }
  if (!value->is_number()) {
    fields.refuse_type("keep_alive", "a number or a duration", *value);
    return std::nullopt;
  }
  return keep_alive_of(value->get<double>());
}

std::string read_ollama_model(field_reader& fields) {
  auto model = read_model(fields);
  if (model.empty()) {
    fields.refuse(errc::invalid_request, "model", "model is required");
  }
  return model;
}

// The older name of `model` in calls about models.
std::string read_named(field_reader& fields) {
  const auto older = fields.text("name", {}, limits::name_bytes_max);
  return fields.find("model") || older.empty() ? read_ollama_model(fields) : older;
}

// The body of either route.
class ollama_reader {
public:
  ollama_reader(field_reader& fields, std::string_view source, const request_limits& limits)
      : fields_(fields), source_(source), ordered_(fields.in_order(source)), limits_(limits) {}

  void read(ollama_call& out) {
    auto& asked = out.asked;
    asked.request.model = asked.shape.model = read_ollama_model(fields_);
    asked.client_names = ollama_option_names();
    asked.client_names.push_back({constraint_param, "format"});
    if (out.route == ollama_route::chat) {
      asked.client_names.push_back({"prompt", "messages"});
      read_conversation(out);
    } else {
      read_prompt(out);
    }
    const bool cuts_prompt = fields_.boolean("truncate", false);
    read_ollama_options(fields_, cuts_prompt, limits_, asked.request);
    read_format(asked.request);
    read_think(asked);
    read_ollama_logprobs(asked);
    out.keep_alive = read_keep_alive(fields_);
    out.unloads = out.only_loads && out.keep_alive && out.keep_alive->count() == 0;
    asked.shape.is_stream = fields_.boolean("stream", true);
  }

private:
  void read_conversation(ollama_call& out) {
    auto chat = read_ollama_messages(fields_, ordered_, limits_);
    if (!chat.empty() && chat.back().role == "assistant" && chat.back().tool_calls.empty()) {
      const bool has_begun = !chat.back().content.empty(); // the answer continues it
      out.asked.request.template_options.continues_final = has_begun;
      out.asked.add_generation_prompt = !has_begun;
      if (!has_begun) {
        chat.pop_back();
      }
    }
    out.only_loads = chat.empty();
    out.asked.request.input = std::move(chat);
    out.asked.tools = read_ollama_tools(fields_, ordered_, limits_);
    if (out.asked.tools) {
      out.asked.request.tools = out.asked.tools->text;
    }
  }

  void read_prompt(ollama_call& out) {
    auto prompt = fields_.text("prompt", {}, limits::prompt_bytes_max);
    auto system = fields_.text("system", {}, limits::prompt_bytes_max);
    const bool is_raw = fields_.boolean("raw", false);
    refuse_images(fields_);
    out.only_loads = prompt.empty();
    if (is_raw && !system.empty()) {
      fields_.refuse(errc::invalid_value, "system",
                     "raw mode does not support template, system, or context");
    }
    if (is_raw) {
      out.asked.request.input = std::move(prompt);
      return;
    }
    chat_prompt chat;
    if (system.empty()) {
      out.bare_prompt = prompt;
    } else {
      chat.push_back(chat_message{.role = "system", .content = std::move(system), .name = {}});
    }
    chat.push_back(chat_message{.role = "user", .content = std::move(prompt), .name = {}});
    out.asked.request.input = std::move(chat);
  }

  void read_format(generate& request) {
    const auto* value = fields_.find("format");
    if (!value) {
      return;
    }
    if (value->is_string()) {
      const auto name = fields_.text("format", {}, format_name_bytes_max);
      if (name == "json") {
        request.terms.sampling.constraint = constraint{constraint_kind::json_object, {}};
      } else if (!name.empty()) {
        fields_.refuse(errc::invalid_value, "format",
                       "'format' must be \"json\" or a JSON schema, an object");
      }
    } else if (value->is_object()) {
      constexpr std::array<std::string_view, 1> where{"format"};
      if (auto schema = read_schema(fields_, "format", where, source_)) {
        request.terms.sampling.constraint = *std::move(schema);
      }
    } else {
      fields_.refuse_type("format", "\"json\" or a JSON schema, an object", *value);
    }
  }

  void read_think(openai_generate& out) {
    const auto* value = fields_.find("think");
    if (!value) {
      return;
    }
    if (!std::holds_alternative<chat_prompt>(out.request.input)) { // `raw`
      if (!value->is_boolean() || value->get<bool>()) {
        fields_.refuse(errc::unsupported_parameter, "think",
                       "'think' must be false with 'raw': the prompt has no template");
      }
    } else if (value->is_boolean()) {
      out.reasoning.is_on = value->get<bool>();
      out.reasoning.param = "think";
    } else if (value->is_string()) {
      ask_effort(fields_, "think", out.reasoning);
    } else {
      fields_.refuse_type("think", "true, false or a level", *value);
    }
  }

  void read_ollama_logprobs(openai_generate& asked) {
    const bool is_on = fields_.boolean("logprobs", false);
    const auto top =
        fields_.integer("top_logprobs", 0, 0, static_cast<std::int64_t>(limits_.logprobs_max));
    if (top > 0 && !is_on) {
      fields_.refuse(errc::invalid_value, "top_logprobs",
                     "'top_logprobs' needs 'logprobs' to be true");
    }
    asked.request.terms.sampling.logprobs = is_on ? static_cast<std::int32_t>(top) : -1;
    asked.shape.has_logprobs = is_on;
  }

  field_reader& fields_;
  std::string_view source_;
  ordered ordered_; // members in the client's order
  const request_limits& limits_;
};

error in_older_names(error e) {
  static constexpr path_rename renames[] = {{"input", "prompt"}};
  return with_renamed_paths(renames, std::move(e));
}

// `name`: of the texts in this route.
result<ollama_embed> read_ollama_embed(field_reader& fields, std::string_view name,
                                       const request_limits& limits) {
  ollama_embed out;
  out.model = read_ollama_model(fields);
  out.keep_alive = read_keep_alive(fields);
  fields.boolean("truncate", false); // an input that is too long is an error either way
  generate unused;                   // no option changes a vector
  read_ollama_options(fields, /*cuts_prompt=*/false, limits, unused);
  const auto* input = fields.require(name);
  const bool is_list = input && input->is_array() && name == "input";
  if (input && !input->is_string() && !is_list) {
    fields.refuse_type(name, is_list ? "a string or a list of strings" : "a string", *input);
  }
  if (is_list) {
    for (const auto& text : *input) {
      if (!text.is_string()) {
        fields.refuse_type(name, "a string or a list of strings", text);
      }
    }
  }
  const bool has_none = is_list && input->empty();
  if (input && !fields.has_failed() && !has_none) {
    const ordered translated{{"model", out.model}, {"input", *input}};
    read_translated(fields, translated,
                    name == "input" ? [](error e) { return e; } : in_older_names,
                    [&](field_reader& inner, const std::string&) {
                      if (auto read = read_embeddings(inner, limits)) {
                        out.requests = std::move(read->requests);
                      }
                    });
  }
  if (auto ok = fields.finish(unsupported_in_ollama_embed); !ok) {
    return ok.error();
  }
  return out;
}

// `read` of the fields of the body's object.
template <class Read>
auto read_body(std::string_view body, const request_limits& limits, Read&& read)
    -> decltype(read(std::declval<field_reader&>())) {
  const auto parsed = parse_body(body, limits.json_depth_max);
  if (!parsed) {
    return parsed.error();
  }
  field_reader fields(*parsed);
  return read(fields);
}

} // namespace

result<ollama_call> parse_ollama(ollama_route route, std::string_view body,
                                 const request_limits& limits) {
  return read_body(body, limits, [&](field_reader& fields) -> result<ollama_call> {
    ollama_call out;
    out.route = route;
    ollama_reader(fields, body, limits).read(out);
    if (auto ok = fields.finish(unsupported_in_ollama); !ok) {
      return ok.error();
    }
    if (out.only_loads) {
      return out;
    }
    if (auto ok = check_ranges(out.asked.request, limits); !ok) {
      return in_client_terms(out.asked.client_names, ok.error());
    }
    return out;
  });
}

result<ollama_embed> parse_ollama_embed(std::string_view body, const request_limits& limits) {
  return read_body(body, limits, [&](field_reader& fields) {
    return read_ollama_embed(fields, "input", limits);
  });
}

result<ollama_embed> parse_ollama_embeddings(std::string_view body, const request_limits& limits) {
  auto out = read_body(body, limits, [&](field_reader& fields) {
    return read_ollama_embed(fields, "prompt", limits);
  });
  if (out) {
    out->is_older = true;
  }
  return out;
}

result<ollama_named> parse_ollama_show(std::string_view body, const request_limits& limits) {
  return read_body(body, limits, [](field_reader& fields) -> result<ollama_named> {
    ollama_named out;
    out.model = read_named(fields);
    fields.boolean("verbose", false); // there are no further tensors or tokens to list
    if (auto ok = fields.finish(); !ok) {
      return ok.error();
    }
    return out;
  });
}

result<ollama_named> parse_ollama_pull(std::string_view body, const request_limits& limits) {
  return read_body(body, limits, [](field_reader& fields) -> result<ollama_named> {
    ollama_named out;
    out.model = read_named(fields);
    fields.boolean("insecure", false);
    out.is_stream = fields.boolean("stream", true);
    for (const auto* login : {"username", "password"}) {
      fields.find(login);
    }
    if (auto ok = fields.finish(); !ok) {
      return ok.error();
    }
    return out;
  });
}

// An empty body asks for every field; the errors about missing ones are ignored.
std::set<std::string, std::less<>> fields_of_ollama(ollama_route route,
                                                    const request_limits& limits) {
  const auto nothing = json::object();
  field_reader fields(nothing);
  ollama_call out;
  out.route = route;
  ollama_reader(fields, "{}", limits).read(out);
  return fields.asked();
}

} // namespace baton::gateway
