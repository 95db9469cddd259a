#include "gateway/api/responses/responses_request.hpp"

#include "gateway/api/openai/request/openai_constraint.hpp"
#include "gateway/api/openai/request/openai_fields.hpp"
#include "gateway/api/openai/request/openai_reasoning.hpp"
#include "gateway/api/openai/request/openai_tools.hpp"
#include "gateway/api/responses/responses_input.hpp"
#include "gateway/base/json_text.hpp"
#include "gateway/request/model_defaults.hpp"
#include "gateway/request/translated_fields.hpp"

#include <charconv>
#include <limits>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

constexpr std::size_t include_shown_bytes_max = 64; // of a value in an error
constexpr std::size_t response_id_bytes_max = 128;  // of a response
constexpr std::size_t instructions_bytes_max = limits::prompt_bytes_max;
// OpenAI's bounds of `metadata`.
constexpr std::size_t metadata_max = 16;
constexpr std::size_t metadata_key_bytes_max = 64;
constexpr std::size_t metadata_value_bytes_max = 512;

constexpr unsupported_field unsupported_in_responses[] = {
    {"conversation", "", "previous_response_id"},
    {"max_tool_calls", ""},
    {"prompt", ""},
    {"service_tier", "\"auto\""},
    {"service_tier", "\"default\""},
    {"stream_options", "{}"},
    {"stream_options", "{\"include_obfuscation\":false}"},
    {"top_logprobs", "0"},
    {"truncation", "\"disabled\""},
    // vLLM's parameters.
    {"top_k", "0"},
    {"top_k", "-1"},
    {"repetition_penalty", "1.0"},
    {"presence_penalty", "0.0"},
    {"frequency_penalty", "0.0"},
    {"logit_bias", "{}"},
    {"stop", "[]"},
    {"ignore_eos", "false"},
    {"include_stop_str_in_output", "false"},
    {"skip_special_tokens", "true"},
    {"structured_outputs", "", "text.format"},
    {"request_id", ""},
    {"mm_processor_kwargs", ""},
    {"enable_response_messages", "false"},
    {"previous_input_messages", "", "input"},
    {"previous_response", "", "previous_response_id"},
    {"vllm_xargs", ""},
    {"mm_payload", ""},
    {"prompt_cache_options", ""},
    {"prompt_cache_retention", ""},
};

class response_reader {
public:
  response_reader(field_reader& fields, std::string_view source, const gateway_config& config)
      : fields_(fields), source_(fields.in_order(source)), config_(config) {}

  void read(response_create& out) {
    auto& request = out.call.request;
    request.model = out.shape.model = read_model(fields_);
    request.input = read_input(fields_, config_.request);
    out.instructions = fields_.text("instructions", {}, instructions_bytes_max);
    out.previous = fields_.text("previous_response_id", {}, response_id_bytes_max);
    read_drawing(request);
    read_tools(out.call);
    read_format(out.call);
    read_effort(out.call);
    read_include(out.shape);
    read_metadata();
    for (const auto* label : {"user", "safety_identifier", "prompt_cache_key"}) {
      fields_.text(label, {}, label_bytes_max);
    }
    read_storage(out);
    out.shape.asked = json_text(asked(out));
  }

private:
  void read_drawing(generate& request) {
    auto& s = request.terms.sampling;
    s.temperature =
        static_cast<float>(fields_.real("temperature", s.temperature, temperature_range));
    s.top_p = static_cast<float>(fields_.real("top_p", s.top_p, top_p_range));
    s.seed = read_seed(fields_, {});
    request.terms.max_tokens_given = fields_.find("max_output_tokens") != nullptr;
    request.terms.stop.max_tokens = static_cast<std::uint32_t>(
        fields_.integer("max_output_tokens", config_.request.completion_tokens_default, 1,
                        static_cast<std::int64_t>(config_.request.max_tokens)));
    constexpr auto named = bit_of(sampling_field::temperature) | bit_of(sampling_field::top_p);
    request.unspecified = (all_sampling_fields & ~named) | unspecified_among(fields_, named);
    if (request.terms.max_tokens_given) {
      request.unspecified &= ~bit_of(sampling_field::max_tokens);
    }
    request.terms.cache_salt = fields_.text("cache_salt", {}, salt_bytes_max);
    request.priority = static_cast<std::int32_t>(
        fields_.integer("priority", 0, std::numeric_limits<std::int32_t>::min(),
                        std::numeric_limits<std::int32_t>::max()));
  }

  // Nothing if it is not an object or has no string in "type".
  static std::string type_of(const json& value) {
    const auto at = value.is_object() ? value.find("type") : value.end();
    return at != value.end() && at->is_string() ? at->get<std::string>() : std::string();
  }

  // Functions are flat in this API and nested in a chat's tool.
  static ordered nested(ordered flat) {
    auto type = flat.contains("type") ? flat["type"] : ordered();
    flat.erase("type");
    return {{"type", std::move(type)}, {"function", std::move(flat)}};
  }

  void read_tools(openai_generate& out) {
    auto chat_fields = ordered::object();
    if (const auto* tools = fields_.find("tools")) {
      chat_fields["tools"] = source_["tools"];
      for (std::size_t i = 0; tools->is_array() && i < tools->size(); ++i) {
        const auto& tool = (*tools)[i];
        if (const auto type = type_of(tool); !type.empty() && type != "function") {
          fields_.refuse(errc::unsupported_parameter, fmt::format("tools[{}].type", i),
                         "tools other than functions are not supported by this server");
        }
        if (tool.is_object()) {
          chat_fields["tools"][i] = nested(source_["tools"][i]);
        }
      }
    }
    if (const auto* choice = fields_.find("tool_choice")) {
      const bool is_function = type_of(*choice) == "function";
      if (choice->is_object() && !is_function) {
        fields_.refuse(errc::unsupported_parameter, "tool_choice",
                       "'tool_choice' as an object must name a function: {\"type\": \"function\", "
                       "\"name\": ...}");
      }
      chat_fields["tool_choice"] =
          is_function ? nested(source_["tool_choice"]) : source_["tool_choice"];
    }
    if (fields_.find("parallel_tool_calls")) {
      chat_fields["parallel_tool_calls"] = source_["parallel_tool_calls"];
    }
    read_translated(fields_, chat_fields, in_response_names,
                    [&](field_reader& inner, const std::string& source) {
                      out.tools = gateway::read_tools(inner, source, config_.request);
                    });
    if (out.tools) {
      out.request.tools = out.tools->text;
    }
  }

  // Reasoning is in the answer whole, so no summary is made of it.
  void read_effort(openai_generate& out) {
    static constexpr unsupported_field no_summary[] = {{"summary", "\"auto\""},
                                                       {"generate_summary", "\"auto\""}};
    fields_.object(
        "reasoning",
        [&](field_reader& reasoning) {
          if (reasoning.find("effort")) {
            ask_effort(reasoning, "effort", out.reasoning);
            out.reasoning.param = "reasoning.effort";
          }
        },
        no_summary);
  }

  // Further content of the answer's items. The one kind is for clients that store nothing here.
  void read_include(response_shape& out) {
    const auto* all = fields_.find("include");
    if (!all) {
      return;
    }
    if (!all->is_array()) {
      fields_.refuse_type("include", "an array of texts", *all);
      return;
    }
    for (const auto& one : *all) {
      if (!one.is_string()) {
        fields_.refuse_type("include", "an array of texts", one);
      } else if (one != "reasoning.encrypted_content") {
        fields_.refuse(errc::unsupported_parameter, "include",
                       fmt::format("'{}' in 'include' is not supported by this server",
                                   one.get<std::string>().substr(0, include_shown_bytes_max)));
      } else {
        out.includes_encrypted = true;
      }
    }
  }

  void read_format(openai_generate& out) {
    static constexpr unsupported_field not_in_text[] = {{"verbosity", "\"medium\""}};
    bool has_format = false;
    fields_.object(
        "text", [&](field_reader& text) { has_format = text.find("format") != nullptr; },
        not_in_text);
    if (!has_format || fields_.has_failed()) {
      return;
    }
    auto format = source_["text"]["format"];
    if (format.is_object() && format.contains("type") && format["type"] == "json_schema") {
      format.erase("type");
      format = ordered{{"type", "json_schema"}, {"json_schema", std::move(format)}};
    }
    read_translated(fields_, ordered{{"response_format", std::move(format)}}, in_response_names,
                    [&](field_reader& inner, const std::string& source) {
                      out.request.terms.sampling.constraint = read_constraint(inner, source).is;
                    });
  }

  void read_metadata() {
    const auto* map = fields_.find("metadata");
    if (!map) {
      return;
    }
    bool fits = map->is_object() && map->size() <= metadata_max;
    for (auto it = map->begin(); fits && it != map->end(); ++it) {
      fits = it.key().size() <= metadata_key_bytes_max && it->is_string() &&
             it->get_ref<const std::string&>().size() <= metadata_value_bytes_max;
    }
    if (!fits) {
      fields_.refuse(errc::invalid_value, "metadata",
                     fmt::format("'metadata' must be an object of at most {} texts, each up to {} "
                                 "bytes under a name of up to {}",
                                 metadata_max, metadata_value_bytes_max, metadata_key_bytes_max));
    }
  }

  // Reads the fields of storage and lifetime.
  void read_storage(response_create& out) {
    auto& shape = out.shape;
    const bool keeps = !config_.shares_http;
    shape.is_stream = fields_.boolean("stream", false);
    shape.is_background = fields_.boolean("background", false);
    shape.is_stored = fields_.boolean("store", keeps);
    const char* needs_store = shape.is_stored         ? "store"
                              : shape.is_background   ? "background"
                              : !out.previous.empty() ? "previous_response_id"
                                                      : nullptr;
    if (!keeps && needs_store) {
      fields_.refuse(errc::unsupported_parameter, needs_store,
                     fmt::format("'{}' is not supported where several gateways share an address: "
                                 "stored responses are one gateway's own",
                                 needs_store));
    }
    if (shape.is_background && !shape.is_stored) {
      fields_.refuse(errc::invalid_value, "background",
                     "'background' needs 'store': the answer is fetched later");
    }
  }

  ordered as_asked(const char* name, ordered otherwise) const {
    const auto at = source_.find(name);
    return at == source_.end() || at->is_null() ? otherwise : *at;
  }

  ordered asked(const response_create& out) const {
    const auto& s = out.call.request.terms.sampling;
    ordered text = as_asked("text", ordered::object());
    if (!text.is_object() || !text.contains("format") || text["format"].is_null()) {
      text = {{"format", {{"type", "text"}}}};
    }
    return {{"background", out.shape.is_background},
            {"instructions", as_asked("instructions", nullptr)},
            {"max_output_tokens", as_asked("max_output_tokens", nullptr)},
            {"max_tool_calls", nullptr},
            {"metadata", as_asked("metadata", ordered::object())},
            {"parallel_tool_calls", as_asked("parallel_tool_calls", true)},
            {"previous_response_id", as_asked("previous_response_id", nullptr)},
            {"prompt_cache_key", as_asked("prompt_cache_key", nullptr)},
            {"reasoning",
             {{"effort", out.call.reasoning.effort.empty() ? ordered(nullptr)
                                                           : ordered(out.call.reasoning.effort)},
              {"summary", nullptr}}},
            {"safety_identifier", as_asked("safety_identifier", nullptr)},
            {"service_tier", "default"},
            {"store", out.shape.is_stored},
            {"temperature", as_asked("temperature", static_cast<double>(s.temperature))},
            {"text", std::move(text)},
            {"tool_choice", as_asked("tool_choice", "auto")},
            {"tools", as_asked("tools", ordered::array())},
            {"top_logprobs", 0},
            {"top_p", as_asked("top_p", static_cast<double>(s.top_p))},
            {"truncation", "disabled"},
            {"user", as_asked("user", nullptr)}};
  }

  field_reader& fields_;
  ordered source_; // members in the client's order
  const gateway_config& config_;
};

std::string_view take_until(std::string_view& text, char mark) {
  const auto at = text.find(mark);
  const auto head = text.substr(0, at);
  text.remove_prefix(at == text.npos ? text.size() : at + 1);
  return head;
}

result<bool> flag_of(std::string_view name, std::string_view value) {
  if (value != "true" && value != "false") {
    return fail_param(errc::invalid_value, name, "'{}' must be true or false", name);
  }
  return value == "true";
}

} // namespace

result<response_create> parse_response(std::string_view body, const gateway_config& config) {
  auto parsed = parse_body(body, config.request.json_depth_max);
  if (!parsed) {
    return parsed.error();
  }
  field_reader fields(*parsed);
  response_create out;
  response_reader(fields, body, config).read(out);
  if (auto ok = fields.finish(unsupported_in_responses); !ok) {
    return ok.error();
  }
  if (auto ok = check_ranges(out.call.request, config.request); !ok) {
    return in_client_terms(response_field_names(), ok.error());
  }
  return out;
}

field_names response_field_names() {
  return {{"prompt", "input"},
          {"messages", "input"},
          {"max_tokens", "max_output_tokens"},
          {constraint_param, "text.format"}};
}

void add_model_defaults(const sampling_defaults& of_model, response_create& out) {
  const auto unspecified = out.call.request.unspecified;
  auto asked = ordered::parse(out.shape.asked);
  // The decimal as configured, not the nearest float.
  const auto add = [&](sampling_field field, const std::optional<float>& value) {
    if (value && (unspecified & bit_of(field)) != 0) {
      asked[std::string(name_of(field))] = ordered::parse(fmt::format("{}", *value));
    }
  };
  add(sampling_field::temperature, of_model.temperature);
  add(sampling_field::top_p, of_model.top_p);
  out.shape.asked = json_text(asked);
}

// An empty body requests every field; the error about missing ones is ignored.
std::set<std::string, std::less<>> response_fields_of(const gateway_config& config) {
  const auto nothing = json::object();
  field_reader fields(nothing);
  response_create out;
  response_reader(fields, "{}", config).read(out);
  return fields.asked();
}

result<response_question> parse_response_question(std::string_view method,
                                                  std::string_view target) {
  constexpr std::string_view root = "/v1/responses/";
  if (!target.starts_with(root)) {
    return fail_param(errc::not_found, "response_id", "there is no such response");
  }
  target.remove_prefix(root.size());
  auto path = take_until(target, '?');
  response_question out;
  out.id = take_until(path, '/');
  if (out.id.size() > response_id_bytes_max) {
    return fail_param(errc::not_found, "response_id", "there is no such response");
  }
  if (method == "DELETE" || method == "POST") {
    out.what = method == "POST" ? response_question::kind::cancel : response_question::kind::remove;
    return out;
  }
  for (auto query = target.substr(0, target.find('#')); !query.empty();) {
    auto value = take_until(query, '&');
    const auto name = take_until(value, '=');
    if (name == "stream" || name == "include_obfuscation") {
      const auto flag = flag_of(name, value);
      if (!flag) {
        return flag.error();
      }
      if (name == "stream" && *flag) {
        out.what = response_question::kind::events;
      } else if (*flag) {
        return fail_param(errc::unsupported_parameter, name, "'{}' is not supported", name);
      }
    } else if (name == "starting_after") {
      std::uint64_t number = 0;
      const auto [end, bad] = std::from_chars(value.data(), value.data() + value.size(), number);
      if (bad != std::errc{} || end != value.data() + value.size()) {
        return fail_param(errc::invalid_value, name,
                          "'starting_after' must be the sequence number of an event");
      }
      out.starting_after = number;
    } else {
      return fail_param(errc::unsupported_parameter, name.substr(0, label_bytes_max),
                        "there is no parameter '{}'", name.substr(0, response_id_bytes_max));
    }
  }
  if (out.starting_after && out.what != response_question::kind::events) {
    return fail_param(errc::invalid_value, "starting_after",
                      "'starting_after' needs 'stream' to be true");
  }
  return out;
}

} // namespace baton::gateway
