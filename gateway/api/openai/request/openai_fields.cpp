#include "gateway/api/openai/request/openai_fields.hpp"

#include "gateway/api/openai/request/openai_constraint.hpp"
#include "gateway/api/openai/request/openai_prompts.hpp"
#include "gateway/api/openai/request/openai_reasoning.hpp"
#include "gateway/api/openai/request/openai_shape.hpp"
#include "gateway/api/openai/request/openai_template.hpp"
#include "gateway/api/openai/request/openai_tools.hpp"
#include "gateway/api/openai/request/openai_unsupported.hpp"
#include "gateway/request/model_defaults.hpp"
#include "schema/digest.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <random>

namespace baton::gateway {
namespace {

constexpr std::size_t model_bytes_max = 256;       // a name only
constexpr std::size_t participant_bytes_max = 256; // a participant's name
constexpr std::size_t vllm_id_bytes_max = 256;
constexpr std::int64_t token_id_max = std::numeric_limits<token_id>::max();

// Errors use the path from the root: "messages[2].content".
std::string read_parts(field_reader& message, const json& parts, const std::string& path) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto part_path = fmt::format("{}content[{}].", path, i);
    if (!parts[i].is_object()) {
      message.refuse_type(fmt::format("content[{}]", i), "an object", parts[i]);
      return {};
    }
    field_reader part(parts[i], part_path);
    const auto type = part.text("type", "text", label_bytes_max); // vLLM: inferred from its fields
    if (!part.has_failed() && type != "text") {
      part.refuse(errc::unsupported_parameter, "type",
                  fmt::format("'{}type' must be 'text': this server reads no '{}'", part_path,
                              type.substr(0, participant_bytes_max)));
    }
    const auto* body = part.require("text");
    if (body && !body->is_string()) {
      part.refuse_type("text", "a string", *body);
    }
    if (auto ok = part.finish({}, object_kind::part); !ok) {
      message.refuse(ok.error());
      return {};
    }
    text += i == 0 ? "" : "\n";
    text += body->get_ref<const std::string&>();
  }
  return text;
}

std::string read_role(field_reader& message) {
  const auto* role = message.require("role");
  if (!role) {
    return {};
  }
  if (!role->is_string()) {
    message.refuse_type("role", "a string", *role);
    return {};
  }
  const auto& name = role->get_ref<const std::string&>();
  if (name == "developer") {
    return "system";
  }
  if (name == "function") {
    message.refuse(errc::unsupported_parameter, "role",
                   "the role 'function' is not supported by this server: use 'tool'");
  } else if (name != "system" && name != "user" && name != "assistant" && name != "tool") {
    message.refuse(errc::invalid_value, "role",
                   "a role must be one of 'system', 'developer', 'user', 'assistant', 'tool'");
  }
  return name;
}

// Some clients send a message's type: only known types are accepted.
void read_message_type(field_reader& message) {
  const auto type = message.text("type", "message", label_bytes_max);
  if (!message.has_failed() && type != "message" && type != "text") {
    message.refuse(errc::unsupported_parameter, "type",
                   "the 'type' of a message must be 'message' or 'text', if there is one");
  }
}

// The reasoning of an assistant, under the names of DeepSeek and of vLLM.
std::string reasoning_of_message(field_reader& message) {
  for (const auto* name : {"reasoning_content", "reasoning"}) {
    const auto* value = message.find(name);
    if (value && value->is_string()) {
      return value->get<std::string>();
    }
  }
  return {};
}

result<chat_message> read_message(const json& value, const std::string& path,
                                  const request_limits& limits) {
  field_reader message(value, path);
  chat_message out;
  out.role = read_role(message);
  out.name = message.text("name", {}, participant_bytes_max);
  read_message_type(message);
  read_calls_of(message, path, limits, out);
  if (out.role == "assistant") {
    out.reasoning = reasoning_of_message(message);
  }
  const auto* content =
      out.tool_calls.empty() ? message.require("content") : message.find("content");
  if (content) {
    if (content->is_string()) {
      out.content = content->get<std::string>();
    } else if (content->is_array()) {
      out.content = read_parts(message, *content, path);
    } else {
      message.refuse_type("content", "a string or an array of text parts", *content);
    }
  }
  if (auto ok = message.finish(unsupported_in_message, object_kind::message); !ok) {
    return ok.error();
  }
  return out;
}

// -1 means no limit to llama.cpp and LM Studio clients, and the model's limit to vLLM's.
bool is_minus_one(const json* value) {
  return value && value->is_number_integer() && !value->is_number_unsigned() &&
         value->get<std::int64_t>() == -1;
}

void read_biases(field_reader& fields, const request_limits& limits, sampling_params& out) {
  const auto* map = fields.find("logit_bias");
  if (!map) {
    return;
  }
  if (!map->is_object()) {
    fields.refuse_type("logit_bias", "an object of token ids and numbers", *map);
    return;
  }
  if (map->size() > limits.logit_biases_max) {
    fields.refuse(errc::invalid_value, "logit_bias",
                  fmt::format("'logit_bias' has {} entries of at most {}", map->size(),
                              limits.logit_biases_max));
    return;
  }
  for (auto it = map->begin(); it != map->end(); ++it) {
    const auto& key = it.key();
    token_id id = -1;
    const auto [end, ec] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (ec != std::errc{} || end != key.data() + key.size() || id < 0) {
      fields.refuse(errc::invalid_value, "logit_bias",
                    "a key of 'logit_bias' must be a token id, an integer from 0");
      return;
    }
    if (!it->is_number()) {
      fields.refuse_type("logit_bias", "an object of token ids and numbers", *it);
      return;
    }
    const auto bias = it->get<double>();
    if (!bias_range.contains(bias)) {
      fields.refuse(out_of_range("logit_bias", bias_range, bias));
      return;
    }
    out.biases.push_back({id, static_cast<float>(bias)});
  }
}

void read_sampling(field_reader& fields, const request_limits& limits, generate& request) {
  auto& s = request.terms.sampling;
  const auto real = [&](const char* name, float otherwise, const real_range& range) {
    return static_cast<float>(fields.real(name, otherwise, range));
  };
  s.temperature = real("temperature", s.temperature, temperature_range);
  s.top_p = real("top_p", s.top_p, top_p_range);
  s.min_p = real("min_p", s.min_p, min_p_range);
  s.typical_p = real("typical_p", s.typical_p, typical_p_range);
  s.repetition_penalty = real("repetition_penalty", s.repetition_penalty, repetition_penalty_range);
  s.presence_penalty = real("presence_penalty", s.presence_penalty, penalty_range);
  s.frequency_penalty = real("frequency_penalty", s.frequency_penalty, penalty_range);
  // vLLM accepts -1 or 0 for "off".
  s.top_k = static_cast<std::int32_t>(
      std::max<std::int64_t>(0, fields.integer("top_k", s.top_k, -1, top_k_max)));
  request.unspecified |=
      unspecified_among(fields, all_sampling_fields & ~bit_of(sampling_field::max_tokens));
  s.num_speculative_tokens = static_cast<std::int32_t>(
      fields.integer("num_speculative_tokens", -1, 0, speculative_tokens_max));
  s.seed = read_seed(fields, request.request_id);
  read_biases(fields, limits, s);
}

void read_stopping(field_reader& fields, openai_api api, const request_limits& limits,
                   generate& out) {
  auto& s = out.terms.stop;
  const auto most = static_cast<std::int64_t>(limits.max_tokens);
  const bool has_old = fields.find("max_tokens") != nullptr;
  // As in vLLM: OpenAI's newer name has priority if both are given.
  const bool has_new = fields.find("max_completion_tokens") != nullptr;
  const char* name = has_new ? "max_completion_tokens" : "max_tokens";
  // 0 is valid only for a prompt with `echo` and logprobs; read_several checks that.
  const std::int64_t least = api == openai_api::completions ? 0 : 1;
  const bool has_no_limit = is_minus_one(fields.find(name));
  s.max_tokens = static_cast<std::uint32_t>(
      has_no_limit ? std::int64_t{limits.completion_tokens_default}
                   : fields.integer(name, limits.completion_tokens_default, least, most));
  // A chat may use the rest of the context; a completion has OpenAI's default.
  out.terms.max_tokens_given =
      !has_no_limit && (has_old || has_new || api == openai_api::completions);
  out.unspecified |= has_old || has_new ? 0 : bit_of(sampling_field::max_tokens);
  s.min_tokens = static_cast<std::uint32_t>(fields.integer("min_tokens", 0, 0, most));
  s.ignore_eos = fields.boolean("ignore_eos", false);
  s.include_stop_text = fields.boolean("include_stop_str_in_output", false);
  read_stop_texts(fields, s);
  if (const auto* ids = fields.find("stop_token_ids")) {
    s.stop_ids = read_ids(fields, "stop_token_ids", *ids, limits.stop_ids_max);
  }
}

// -1 in vLLM: as many as the model accepts.
std::uint32_t read_truncation(field_reader& fields, const request_limits& limits) {
  constexpr const char* name = "truncate_prompt_tokens";
  if (is_minus_one(fields.find(name))) {
    return prompt_tokens_of_context;
  }
  return static_cast<std::uint32_t>(
      fields.integer(name, 0, 1, static_cast<std::int64_t>(limits.prompt_ids_max)));
}

result<void> finish_generation(field_reader& fields, openai_api api) {
  std::vector<unsupported_field> table(std::begin(unsupported_in_both),
                                       std::end(unsupported_in_both));
  if (api == openai_api::chat) {
    table.insert(table.end(), std::begin(unsupported_in_chat), std::end(unsupported_in_chat));
  } else {
    table.insert(table.end(), std::begin(unsupported_in_completions),
                 std::end(unsupported_in_completions));
  }
  return fields.finish(table);
}

} // namespace

std::uint64_t read_seed(field_reader& fields, const std::string& request_id, seed_kind kind) {
  const auto* value = fields.find("seed");
  if (value && value->is_number_unsigned()) {
    return value->get<std::uint64_t>();
  }
  const bool is_negative = value && value->is_number_integer();
  if (is_negative && kind == seed_kind::unsigned_seed) {
    fields.refuse(errc::invalid_value, "seed", "'seed' must be an integer from 0");
  } else if (is_negative && value->get<std::int64_t>() != -1) {
    return static_cast<std::uint64_t>(value->get<std::int64_t>());
  } else if (value && !is_negative) {
    fields.refuse_type("seed", "an integer of 64 bits", *value);
  }
  if (!request_id.empty()) {
    return digest_of(request_id);
  }
  std::random_device source;
  return (std::uint64_t{source()} << 32) | source();
}

void read_stop_texts(field_reader& fields, stopping& out) {
  const auto* value = fields.find("stop");
  if (!value) {
    return;
  }
  if (value->is_string()) {
    out.stop_texts.push_back(value->get<std::string>());
    return;
  }
  if (!value->is_array()) {
    fields.refuse_type("stop", "a string or an array of strings", *value);
    return;
  }
  for (const auto& text : *value) {
    if (!text.is_string()) {
      fields.refuse_type("stop", "a string or an array of strings", text);
      return;
    }
    out.stop_texts.push_back(text.get<std::string>());
  }
}

std::string read_model(field_reader& fields) {
  return fields.text("model", {}, model_bytes_max);
}

std::vector<token_id> read_ids(field_reader& fields, std::string_view name, const json& array,
                               std::size_t count_max) {
  if (!array.is_array()) {
    fields.refuse_type(name, "an array of token ids", array);
    return {};
  }
  if (array.size() > count_max) {
    fields.refuse(errc::invalid_value, name,
                  fmt::format("'{}' has {} ids of at most {}", name, array.size(), count_max));
    return {};
  }
  std::vector<token_id> ids;
  ids.reserve(array.size());
  for (const auto& id : array) {
    // Unsigned first: a huge positive number has no signed value.
    const bool fits = id.is_number_unsigned() &&
                      id.get<std::uint64_t>() <= static_cast<std::uint64_t>(token_id_max);
    if (!fits) {
      fields.refuse(errc::invalid_value, name,
                    fmt::format("'{}' must be an array of token ids, integers from 0", name));
      return {};
    }
    ids.push_back(id.get<token_id>());
  }
  return ids;
}

chat_prompt read_messages(field_reader& fields, const request_limits& limits) {
  const auto* value = fields.require("messages");
  if (!value) {
    return {};
  }
  if (!value->is_array()) {
    fields.refuse_type("messages", "an array", *value);
    return {};
  }
  if (value->empty() || value->size() > limits.messages_max) {
    fields.refuse(errc::invalid_value, "messages",
                  fmt::format("'messages' must have 1 to {} messages, not {}", limits.messages_max,
                              value->size()));
    return {};
  }
  chat_prompt chat;
  chat.reserve(value->size());
  for (std::size_t i = 0; i < value->size(); ++i) {
    const auto& item = (*value)[i];
    if (!item.is_object()) {
      fields.refuse_type(fmt::format("messages[{}]", i), "an object", item);
      return {};
    }
    auto message = read_message(item, fmt::format("messages[{}].", i), limits);
    if (!message) {
      fields.refuse(message.error());
      return {};
    }
    chat.push_back(*std::move(message));
  }
  return chat;
}

namespace {

// Fields with several names: the token limit has two, a constraint six.
field_names client_names_of(field_reader& fields, openai_api api,
                            const std::string& constraint_field) {
  field_names client_names;
  if (api == openai_api::chat) {
    client_names.push_back({"prompt", "messages"});
  }
  if (fields.find("max_completion_tokens")) {
    client_names.push_back({"max_tokens", "max_completion_tokens"});
  }
  if (!constraint_field.empty()) {
    client_names.push_back({constraint_param, constraint_field});
  }
  return client_names;
}

} // namespace

result<void> refuse_no_limit(const json& body, const request_limits& limits) {
  for (const auto* name : {"max_tokens", "max_completion_tokens"}) {
    if (const auto at = body.find(name); at != body.end() && is_minus_one(&*at)) {
      return fail_param(errc::invalid_value, name, "'{}' must be between 1 and {}, not -1", name,
                        limits.max_tokens);
    }
  }
  return {};
}

result<openai_generate> read_generation(field_reader& fields, std::string_view source,
                                        openai_api api, const request_limits& limits) {
  openai_generate out;
  auto& request = out.request;
  std::vector<prompt> prompts;
  out.shape.api = api;
  request.model = read_model(fields);
  if (api == openai_api::chat) {
    request.input = read_messages(fields, limits);
    auto of_template = read_template_fields(fields, source);
    request.template_options = std::move(of_template.options);
    out.add_generation_prompt = of_template.add_generation_prompt;
    read_reasoning(fields, out);
    if ((out.tools = read_tools(fields, source, limits))) {
      request.tools = out.tools->text;
    }
  } else {
    prompts = read_prompts(fields, "prompt", limits);
    request.input = prompts.front();
    request.template_options.special = read_special_tokens(fields, /*is_chat=*/false);
  }
  request.terms.choices = static_cast<std::uint32_t>(
      fields.integer("n", 1, 1, static_cast<std::int64_t>(limits.choices_max)));
  request.request_id = fields.text("request_id", {}, vllm_id_bytes_max);
  read_sampling(fields, limits, request);
  read_stopping(fields, api, limits, request);
  const auto constraint = read_constraint(fields, source);
  request.terms.sampling.constraint = constraint.is;
  out.client_names = client_names_of(fields, api, constraint.field);
  read_logprobs(fields, api, limits, out);
  read_token_ids(fields, out);
  read_stream(fields, out.shape);
  out.shape.choices = request.terms.choices;
  if (api == openai_api::completions) {
    read_best_of(fields, limits, out);
  }
  for (const auto* label : {"user", "safety_identifier", "prompt_cache_key", "session_id"}) {
    fields.text(label, {}, label_bytes_max);
  }
  request.prompt_tokens_max = read_truncation(fields, limits);
  request.terms.cache_salt = fields.text("cache_salt", {}, salt_bytes_max);
  request.is_resumable = fields.boolean("resumable", false);
  request.priority = static_cast<std::int32_t>(
      fields.integer("priority", 0, std::numeric_limits<std::int32_t>::min(),
                     std::numeric_limits<std::int32_t>::max()));
  if (api == openai_api::completions) {
    read_several(fields, limits, std::move(prompts), out);
  }
  if (auto ok = finish_generation(fields, api); !ok) {
    return ok.error();
  }
  if (auto ok = check_ranges(request, limits); !ok) {
    return in_client_terms(out.client_names, ok.error());
  }
  out.shape.model = request.model;
  return out;
}

} // namespace baton::gateway
