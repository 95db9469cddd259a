#include "gateway/api/anthropic/anthropic_request.hpp"

#include "gateway/api/anthropic/anthropic_input.hpp"
#include "gateway/api/openai/request/openai_constraint.hpp"
#include "gateway/api/openai/request/openai_fields.hpp"
#include "gateway/api/openai/request/openai_reasoning.hpp"
#include "gateway/api/openai/request/openai_tools.hpp"
#include "gateway/base/json_text.hpp"
#include "gateway/request/model_defaults.hpp"
#include "gateway/request/translated_fields.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

constexpr std::size_t type_bytes_max = 64; // of a tool, a choice, `thinking`
constexpr real_range anthropic_temperature_range{0, 1};

constexpr unsupported_field unsupported_in_anthropic[] = {
    {"container", ""},
    {"context_management", "{}"},
    {"context_management", R"({"edits":[]})"},
    {"context_management", R"({"edits":[{"type":"clear_thinking_20251015","keep":"all"}]})"},
    {"diagnostics", ""},
    {"inference_geo", ""},
    {"mcp_servers", "[]"},
    {"service_tier", "\"auto\""},
    {"service_tier", "\"standard_only\""},
    {"speed", "\"standard\""},
    {"thread", ""},
    {"user_profile_id", ""},
    {"workspace_id", ""},
};

// Members of a tool that change when or by whom it is called, with the value of no effect.
constexpr unsupported_field tool_switches[] = {
    {"allowed_callers", R"(["direct"])"}, {"defer_loading", "false"},
    {"eager_input_streaming", "false"}, // arguments are streamed as they are drawn anyway
    {"eager_input_streaming", "true"},    {"input_examples", "[]"},
};

error in_anthropic_names(error e) {
  static constexpr path_rename renames[] = {
      {"].function.parameters", "].input_schema"},
      {"].function.", "]."},
      {"function.name", "name"},
      {"tool_choice.function.", "tool_choice."},
      {"'tool_choice' 'required'", "'tool_choice' of the type 'any'"},
  };
  return with_renamed_paths(renames, std::move(e));
}

// `constraint`: the field that constrains the answer.
field_names anthropic_field_names(std::string constraint = "tools") {
  return {{"prompt", "messages"},
          {"stop", "stop_sequences"},
          {constraint_param, std::move(constraint)}};
}

// The body of either route.
class anthropic_reader {
public:
  anthropic_reader(field_reader& fields, std::string_view source, const request_limits& limits)
      : fields_(fields), text_(source), source_(fields.in_order(source)), limits_(limits) {}

  void read(openai_generate& out) {
    auto& request = out.request;
    read_prompt(out);
    fields_.require("max_tokens");
    request.terms.max_tokens_given = true;
    request.terms.stop.max_tokens = static_cast<std::uint32_t>(
        fields_.integer("max_tokens", 1, 1, static_cast<std::int64_t>(limits_.max_tokens)));
    read_stops(request.terms.stop);
    read_drawing(request);
    fields_.object("metadata",
                   [](field_reader& data) { data.text("user_id", {}, label_bytes_max); });
    out.shape.is_stream = fields_.boolean("stream", false);
  }

  void read_prompt(openai_generate& out) {
    fields_.require("model");
    out.request.model = out.shape.model = read_model(fields_);
    auto input = read_anthropic_input(fields_, source_, limits_);
    out.request.input = std::move(input.chat);
    out.request.template_options.continues_final = input.continues_final;
    out.add_generation_prompt = !input.continues_final;
    read_asked_tools(out);
    read_thinking(out);
    read_output(out);
    fields_.object("cache_control", [](field_reader& control) { // prefixes are always cached
      control.text("type", {}, type_bytes_max);
      control.text("ttl", {}, type_bytes_max);
    });
  }

private:
  void read_stops(stopping& out) {
    const auto* list = fields_.find("stop_sequences");
    if (!list) {
      return;
    }
    if (!list->is_array()) {
      return fields_.refuse_type("stop_sequences", "an array of strings", *list);
    }
    for (const auto& text : *list) {
      if (!text.is_string()) {
        return fields_.refuse_type("stop_sequences", "an array of strings", text);
      }
      out.stop_texts.push_back(text.get<std::string>());
    }
  }

  void read_drawing(generate& request) {
    auto& s = request.terms.sampling;
    s.temperature =
        static_cast<float>(fields_.real("temperature", s.temperature, anthropic_temperature_range));
    s.top_p = static_cast<float>(fields_.real("top_p", s.top_p, top_p_range));
    s.top_k = static_cast<std::int32_t>(fields_.integer("top_k", s.top_k, 0, top_k_max));
    const auto nothing = json::object();
    field_reader no_seed(nothing);
    s.seed = read_seed(no_seed, {});
    constexpr auto named = bit_of(sampling_field::temperature) | bit_of(sampling_field::top_p) |
                           bit_of(sampling_field::top_k);
    request.unspecified = (all_sampling_fields & ~named & ~bit_of(sampling_field::max_tokens)) |
                          unspecified_among(fields_, named);
  }

  // As at Anthropic, a model only thinks if it is asked to.
  void read_thinking(openai_generate& out) {
    auto& asked = out.reasoning;
    asked.is_on = false;
    fields_.object("thinking", [&](field_reader& thinking) {
      thinking.require("type");
      const auto type = thinking.text("type", {}, type_bytes_max);
      asked.is_on = type != "disabled";
      asked.param = "thinking";
      out.shape.includes_reasoning = thinking.text("display", {}, type_bytes_max) != "omitted";
      constexpr auto most = std::numeric_limits<std::int32_t>::max();
      const auto tokens = static_cast<std::int32_t>(thinking.integer("budget_tokens", -1, 1, most));
      if (type == "enabled") {
        asked.tokens_max = tokens;
      } else if (type == "adaptive") { // the model decides
        asked.is_optional = true;
      } else if (type != "disabled" && !thinking.has_failed()) {
        thinking.refuse(errc::invalid_value, "type",
                        "'thinking.type' must be 'enabled', 'adaptive' or 'disabled'");
      }
    });
  }

  // `output_config`, and the older `output_format`.
  void read_output(openai_generate& out) {
    out.client_names = anthropic_field_names();
    fields_.object("output_config", [&](field_reader& config) {
      if (config.find("effort")) {
        read_effort(config, out.reasoning);
      }
      read_format(config, "format", {"output_config", "format", "schema"}, out);
    });
    read_format(fields_, "output_format", {"output_format", "schema"}, out);
  }

  static void read_effort(field_reader& config, asked_reasoning& asked) {
    static constexpr std::array<std::string_view, 5> efforts{"low", "medium", "high", "xhigh",
                                                             "max"};
    const auto effort = config.text("effort", {}, type_bytes_max);
    if (std::find(efforts.begin(), efforts.end(), effort) == efforts.end()) {
      config.refuse(errc::invalid_value, "effort",
                    "'output_config.effort' must be 'low', 'medium', 'high', 'xhigh' or 'max'");
      return;
    }
    asked.effort = effort == "max" ? "xhigh" : effort; // the largest that templates know
    if (effort != "high") {
      asked.param = "output_config.effort";
    }
  }

  void read_format(field_reader& from, std::string_view name,
                   std::initializer_list<std::string_view> where, openai_generate& out) {
    from.object(name, [&](field_reader& format) {
      if (out.request.terms.sampling.constraint) {
        return format.refuse(
            errc::invalid_value, "schema",
            "'output_format' is the older name of 'output_config.format': give one");
      }
      format.require("type");
      const auto type = format.text("type", {}, type_bytes_max);
      if (!format.has_failed() && type != "json_schema") {
        format.refuse(errc::invalid_value, "type", "the type of a format must be 'json_schema'");
      }
      format.require("schema");
      const std::vector<std::string_view> path(where);
      if (auto schema = read_schema(format, "schema", path, text_)) {
        out.request.terms.sampling.constraint = *std::move(schema);
        out.client_names = anthropic_field_names(fmt::format("{}", fmt::join(path, ".")));
      }
    });
  }

  // One of `tools` in OpenAI's form.
  ordered tool_of(const json& tool, const ordered& source, const std::string& path) {
    field_reader given(tool, path);
    const auto type = given.text("type", "custom", type_bytes_max);
    if (!given.has_failed() && type != "custom") {
      given.refuse(errc::unsupported_parameter, "type",
                   fmt::format("tools of the type '{}' are not supported by this server", type));
    }
    const auto* schema = given.require("input_schema");
    if (schema && !schema->is_object()) {
      given.refuse_type("input_schema", "a JSON schema, an object", *schema);
    }
    auto function = ordered::object();
    for (const auto* name : {"name", "description", "input_schema", "strict"}) {
      if (given.find(name)) {
        function[name == std::string_view("input_schema") ? "parameters" : name] = source.at(name);
      }
    }
    if (auto ok = given.finish(tool_switches, object_kind::tool); !ok) {
      fields_.refuse(ok.error());
    }
    return {{"type", "function"}, {"function", std::move(function)}};
  }

  // `tool_choice` as OpenAI's two fields.
  void add_choice(ordered& chat) {
    fields_.object("tool_choice", [&](field_reader& choice) {
      choice.require("type");
      const auto type = choice.text("type", {}, type_bytes_max);
      const auto* name = choice.find("name");
      if (type == "tool" && choice.require("name")) {
        chat["tool_choice"] = {{"type", "function"}, {"function", {{"name", *name}}}};
      } else if (name) {
        choice.refuse(errc::invalid_value, "name", "'tool_choice.name' needs the type 'tool'");
      } else if (type == "auto" || type == "none") {
        chat["tool_choice"] = type;
      } else if (type == "any") {
        chat["tool_choice"] = "required";
      } else if (!choice.has_failed()) {
        choice.refuse(errc::invalid_value, "type",
                      "'tool_choice.type' must be 'auto', 'any', 'tool' or 'none'");
      }
      chat["parallel_tool_calls"] = !choice.boolean("disable_parallel_tool_use", false);
    });
  }

  void read_asked_tools(openai_generate& out) {
    auto chat = ordered::object();
    if (const auto* tools = fields_.find("tools")) {
      if (!tools->is_array()) {
        return fields_.refuse_type("tools", "an array", *tools);
      }
      chat["tools"] = ordered::array();
      for (std::size_t i = 0; i < tools->size(); ++i) {
        const auto path = fmt::format("tools[{}]", i);
        if (!(*tools)[i].is_object()) {
          return fields_.refuse_type(path, "an object", (*tools)[i]);
        }
        chat["tools"].push_back(tool_of((*tools)[i], source_.at("tools").at(i), path + "."));
      }
    }
    add_choice(chat);
    read_translated(fields_, chat, in_anthropic_names,
                    [&](field_reader& inner, const std::string& source) {
                      out.tools = read_tools(inner, source, limits_);
                    });
    if (out.tools) {
      out.request.tools = out.tools->text;
    }
  }

  field_reader& fields_;
  std::string_view text_; // of the body
  ordered source_;        // members in the client's order
  const request_limits& limits_;
};

ordered anthropic_properties(const std::set<std::string, std::less<>>& names,
                             const request_limits& l) {
  const ordered object = type_schema("object");
  const ordered text_or_blocks = any_schema({type_schema("string"), list_schema(object)});
  auto messages = list_schema(
      {{"type", "object"},
       {"required", {"role", "content"}},
       {"properties",
        {{"role", {{"enum", {"user", "assistant", "system"}}}}, {"content", text_or_blocks}}}},
      l.messages_max);
  messages["minItems"] = 1;
  ordered known{{"model", type_schema("string")},
                {"messages", std::move(messages)},
                {"max_tokens", integer_schema(1, l.max_tokens)},
                {"system", text_or_blocks},
                {"stop_sequences", list_schema(type_schema("string"), l.stop_texts_max)},
                {"temperature", range_schema(anthropic_temperature_range)},
                {"top_p", range_schema(top_p_range)},
                {"top_k", integer_schema(0, top_k_max)},
                {"stream", type_schema("boolean")},
                {"tools", list_schema({{"type", "object"}, {"required", {"name", "input_schema"}}},
                                      l.tools_max)},
                {"tool_choice", {{"type", "object"}, {"required", ordered::array({"type"})}}},
                {"thinking", {{"type", "object"}, {"required", ordered::array({"type"})}}},
                {"output_config", object},
                {"output_format", {{"type", "object"}, {"required", {"type", "schema"}}}},
                {"metadata", object},
                {"cache_control", object}};
  auto out = ordered::object();
  for (const auto& name : names) {
    const bool is_required = name == "model" || name == "messages" || name == "max_tokens";
    out[name] = is_required ? known[name] : or_null(known[name]);
  }
  return out;
}

} // namespace

result<openai_generate> parse_anthropic(std::string_view body, const request_limits& limits) {
  const auto parsed = parse_body(body, limits.json_depth_max);
  if (!parsed) {
    return parsed.error();
  }
  field_reader fields(*parsed);
  openai_generate out;
  anthropic_reader(fields, body, limits).read(out);
  if (auto ok = fields.finish(unsupported_in_anthropic); !ok) {
    return ok.error();
  }
  if (auto ok = check_ranges(out.request, limits); !ok) {
    return in_client_terms(out.client_names, ok.error());
  }
  return out;
}

result<tokenize_call> parse_anthropic_count(std::string_view body, const request_limits& limits) {
  const auto parsed = parse_body(body, limits.json_depth_max);
  if (!parsed) {
    return parsed.error();
  }
  field_reader fields(*parsed);
  openai_generate asked;
  anthropic_reader(fields, body, limits).read_prompt(asked);
  if (auto ok = fields.finish(unsupported_in_anthropic); !ok) {
    return ok.error();
  }
  tokenize_call out;
  out.model = std::move(asked.request.model);
  out.input = std::move(asked.request.input);
  out.add_generation_prompt = asked.add_generation_prompt;
  out.tools = std::move(asked.request.tools);
  out.template_options = std::move(asked.request.template_options);
  // A template that does not know these variables is unchanged, so the model need not be known.
  put_reasoning_kwargs(asked.reasoning, out.template_options.kwargs);
  out.client_names = asked.client_names;
  return out;
}

// An empty body asks for every field; the errors about missing ones are ignored.
ordered anthropic_schema(const gateway_config& config) {
  const auto nothing = json::object();
  field_reader fields(nothing);
  openai_generate out;
  anthropic_reader(fields, "{}", config.request).read(out);
  return {{"type", "object"},
          {"required", {"model", "messages", "max_tokens"}},
          {"properties", anthropic_properties(fields.asked(), config.request)}};
}

ordered anthropic_count_schema(const gateway_config& config) {
  const auto nothing = json::object();
  field_reader fields(nothing);
  openai_generate out;
  anthropic_reader(fields, "{}", config.request).read_prompt(out);
  return {{"type", "object"},
          {"required", {"model", "messages"}},
          {"properties", anthropic_properties(fields.asked(), config.request)}};
}

} // namespace baton::gateway
