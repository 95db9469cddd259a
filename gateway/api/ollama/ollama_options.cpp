#include "gateway/api/ollama/ollama_options.hpp"

#include "gateway/api/openai/request/openai_fields.hpp"
#include "gateway/request/model_defaults.hpp"
#include "gateway/request/openapi_schema.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

constexpr float temperature_default = 0.8F;
constexpr std::int32_t top_k_default = 40;
constexpr float top_p_default = 0.9F;
constexpr std::int64_t fill_context = -2; // num_predict; -1 and 0: no limit, which is the same here
constexpr std::int64_t whole_context = -1; // repeat_last_n

// They set up Ollama's runner: where its layers are, its memory and its threads.
constexpr std::array runner_options{"num_gpu", "main_gpu",  "num_thread", "num_batch",
                                    "numa",    "use_mmap",  "use_mlock",  "low_vram",
                                    "f16_kv",  "logits_all"};

// The value that has no effect in Ollama.
constexpr unsupported_field unsupported_options[] = {
    {"tfs_z", "1"},          {"mirostat", "0"},           {"penalize_newline", "true"},
    {"vocab_only", "false"}, {"embedding_only", "false"},
};

// An integer, also as 8192.0: clients with forms write such numbers, and Ollama takes them.
std::int64_t read_whole(field_reader& options, std::string_view name, std::int64_t otherwise,
                        std::int64_t least, std::int64_t most) {
  constexpr double exact_max = 9007199254740992.0; // 2^53
  const auto* value = options.find(name);
  if (!value || !value->is_number_float()) {
    return options.integer(name, otherwise, least, most);
  }
  const auto number = value->get<double>();
  if (std::trunc(number) != number || std::abs(number) > exact_max) {
    options.refuse_type(name, "an integer", *value);
    return otherwise;
  }
  const json whole{{name, static_cast<std::int64_t>(number)}};
  field_reader inner(whole, "options.");
  const auto read = inner.integer(name, otherwise, least, most);
  if (auto ok = inner.finish(); !ok) {
    options.refuse(ok.error());
  }
  return read;
}

void read_options_sampling(field_reader& options, generate& out) {
  auto& s = out.terms.sampling;
  const auto real = [&](const char* name, float otherwise, const real_range& range) {
    return static_cast<float>(options.real(name, otherwise, range));
  };
  s.temperature = real("temperature", temperature_default, temperature_range);
  s.top_p = real("top_p", top_p_default, top_p_range);
  s.min_p = real("min_p", s.min_p, min_p_range);
  s.typical_p = real("typical_p", s.typical_p, typical_p_range);
  s.top_k = static_cast<std::int32_t>(
      std::max<std::int64_t>(0, read_whole(options, "top_k", top_k_default, -1, top_k_max)));
  s.repetition_penalty = real("repeat_penalty", s.repetition_penalty, repetition_penalty_range);
  s.presence_penalty = real("presence_penalty", s.presence_penalty, penalty_range);
  s.frequency_penalty = real("frequency_penalty", s.frequency_penalty, penalty_range);
  constexpr auto same_names = bit_of(sampling_field::temperature) | bit_of(sampling_field::top_k) |
                              bit_of(sampling_field::top_p) | bit_of(sampling_field::min_p);
  out.unspecified |= unspecified_among(options, same_names);
  if (!options.find("repeat_penalty")) {
    out.unspecified |= bit_of(sampling_field::repetition_penalty);
  }
  s.seed = read_seed(options, {});
}

// The penalties here count the whole text; no other number of tokens can be had, except none.
void read_penalized(field_reader& options, generate& out) {
  auto& s = out.terms.sampling;
  const auto last = read_whole(options, "repeat_last_n", whole_context, -1,
                               std::numeric_limits<std::int32_t>::max());
  if (last == whole_context) {
    return;
  }
  if (last == 0) {
    s.repetition_penalty = 1;
    s.presence_penalty = s.frequency_penalty = 0;
    out.unspecified &= ~bit_of(sampling_field::repetition_penalty);
  } else if (s.needs_history()) {
    options.refuse(errc::unsupported_parameter, "repeat_last_n",
                   "'options.repeat_last_n' must be -1 or 0 here: penalties count all tokens of "
                   "the prompt and the answer, or none");
  }
}

void read_options_end(field_reader& options, const request_limits& limits, generate& out) {
  auto& stop = out.terms.stop;
  const auto most = static_cast<std::int64_t>(limits.max_tokens);
  const auto asked = read_whole(options, "num_predict", -1, fill_context, most);
  out.terms.max_tokens_given = asked > 0;
  stop.max_tokens =
      asked > 0 ? static_cast<std::uint32_t>(asked) : limits.completion_tokens_default;
  if (!options.find("num_predict")) {
    out.unspecified |= bit_of(sampling_field::max_tokens);
  }
  read_stop_texts(options, stop);
}

void read_options_context(field_reader& options, bool cuts_prompt, generate& out) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const auto context = read_whole(options, "num_ctx", 0, 0, most);
  const auto kept = read_whole(options, "num_keep", 0, -1, most);
  if (!cuts_prompt) {
    return; // nothing is cut: the context is the model's
  }
  out.prompt_tokens_max =
      context > 0 ? static_cast<std::uint32_t>(context) : prompt_tokens_of_context;
  if (kept != 0) {
    options.refuse(errc::unsupported_parameter, "num_keep",
                   "'options.num_keep' is not supported by this server together with 'truncate': "
                   "the oldest tokens are cut");
  }
}

} // namespace

void read_ollama_options(field_reader& fields, bool cuts_prompt, const request_limits& limits,
                         generate& out) {
  const auto read = [&](field_reader& options) {
    read_options_sampling(options, out);
    read_penalized(options, out);
    read_options_end(options, limits, out);
    read_options_context(options, cuts_prompt, out);
    for (const auto* name : runner_options) {
      options.find(name);
    }
    for (const auto* name : {"mirostat_tau", "mirostat_eta"}) { // `mirostat` itself is judged
      options.find(name);
    }
  };
  if (fields.find("options")) {
    return fields.object("options", read, unsupported_options);
  }
  const auto nothing = json::object();
  field_reader defaults(nothing);
  read(defaults);
}

field_names ollama_option_names() {
  return {{"stop", "options.stop"},
          {"max_tokens", "options.num_predict"},
          {"repetition_penalty", "options.repeat_penalty"},
          {"temperature", "options.temperature"},
          {"top_k", "options.top_k"},
          {"top_p", "options.top_p"},
          {"min_p", "options.min_p"},
          {"typical_p", "options.typical_p"},
          {"presence_penalty", "options.presence_penalty"},
          {"frequency_penalty", "options.frequency_penalty"}};
}

ordered ollama_options_schema(const request_limits& l) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const auto any_value = any_schema({type_schema("number"), type_schema("boolean")});
  ordered all{
      {"temperature", range_schema(temperature_range)},
      {"top_k", integer_schema(-1, top_k_max)},
      {"top_p", range_schema(top_p_range)},
      {"min_p", range_schema(min_p_range)},
      {"typical_p", range_schema(typical_p_range)},
      {"repeat_penalty", range_schema(repetition_penalty_range)},
      {"presence_penalty", range_schema(penalty_range)},
      {"frequency_penalty", range_schema(penalty_range)},
      {"repeat_last_n", integer_schema(-1, most)},
      {"seed", type_schema("integer")},
      {"num_predict", integer_schema(fill_context, l.max_tokens)},
      {"stop",
       any_schema({type_schema("string"), list_schema(type_schema("string"), l.stop_texts_max)})},
      {"num_ctx", integer_schema(0, most)},
      {"num_keep", integer_schema(-1, most)},
  };
  for (const auto* name : runner_options) {
    all[name] = any_value;
  }
  auto properties = ordered::object();
  for (const auto& [name, schema] : all.items()) {
    properties[name] = or_null(schema);
  }
  return {{"type", "object"}, {"properties", std::move(properties)}};
}

} // namespace baton::gateway
