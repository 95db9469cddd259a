#include "gateway/api/kserve/calls/kserve_request.hpp"

#include "gateway/api/openai/request/openai_fields.hpp"
#include "gateway/base/json_text.hpp"
#include "schema/limits.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace baton::gateway {
namespace {

enum class value_kind : std::uint8_t { any, number, boolean, document };

// Parameters that differ from a completion's in name or type. Triton also passes numbers as
// strings.
struct parameter_row {
  std::string_view name;
  value_kind kind;
  std::string_view completion_name{}; // the completion's name; empty: the same
};
constexpr std::array llm_parameters{
    parameter_row{"n", value_kind::number},
    parameter_row{"num_return_sequences", value_kind::number, "n"},
    parameter_row{"temperature", value_kind::number},
    parameter_row{"top_p", value_kind::number},
    parameter_row{"top_k", value_kind::number},
    parameter_row{"min_p", value_kind::number},
    parameter_row{"typical_p", value_kind::number},
    parameter_row{"presence_penalty", value_kind::number},
    parameter_row{"frequency_penalty", value_kind::number},
    parameter_row{"repetition_penalty", value_kind::number},
    parameter_row{"length_penalty", value_kind::number},
    parameter_row{"max_tokens", value_kind::number},
    parameter_row{"min_tokens", value_kind::number},
    parameter_row{"min_length", value_kind::number, "min_tokens"},
    parameter_row{"logprobs", value_kind::number},
    parameter_row{"prompt_logprobs", value_kind::number},
    parameter_row{"truncate_prompt_tokens", value_kind::number},
    parameter_row{"num_speculative_tokens", value_kind::number},
    parameter_row{"seed", value_kind::number},
    parameter_row{"random_seed", value_kind::number, "seed"},
    parameter_row{"end_id", value_kind::number, "stop_token_ids"},
    parameter_row{"ignore_eos", value_kind::boolean},
    parameter_row{"include_stop_str_in_output", value_kind::boolean},
    parameter_row{"skip_special_tokens", value_kind::boolean},
    parameter_row{"spaces_between_special_tokens", value_kind::boolean},
    parameter_row{"early_stopping", value_kind::boolean},
    parameter_row{"stop_words", value_kind::any, "stop"},
    parameter_row{"structured_outputs", value_kind::document},
    parameter_row{"guided_decoding", value_kind::document, "structured_outputs"},
};

// Completion parameters that here come from an input, the path or a header, or do not exist.
constexpr std::array<std::string_view, 17> given_elsewhere{"model",
                                                           "prompt",
                                                           "stream",
                                                           "stream_options",
                                                           "echo",
                                                           "best_of",
                                                           "suffix",
                                                           "request_id",
                                                           "resumable",
                                                           "user",
                                                           "safety_identifier",
                                                           "prompt_cache_key",
                                                           "session_id",
                                                           "lora_name",
                                                           "priority",
                                                           "return_token_ids",
                                                           "return_tokens_as_token_ids"};

const parameter_row* find_parameter(std::string_view name) noexcept {
  const auto it = std::find_if(llm_parameters.begin(), llm_parameters.end(),
                               [&](const parameter_row& r) { return r.name == name; });
  return it == llm_parameters.end() ? nullptr : &*it;
}

// Unwraps a string such as "0.5", "True" or "{...}". Other text stays, to be refused later.
std::string unquoted(value_kind kind, std::string text, std::size_t depth_max) {
  if (kind == value_kind::any || !text.starts_with('"')) {
    return text;
  }
  const auto parsed = parse_json(text, depth_max);
  if (!parsed || !parsed->is_string()) {
    return text;
  }
  auto inner = parsed->get<std::string>();
  if (kind == value_kind::boolean) {
    std::transform(inner.begin(), inner.end(), inner.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  }
  const auto value = parse_json(inner, depth_max);
  const bool fits = value && (kind == value_kind::number    ? value->is_number()
                              : kind == value_kind::boolean ? value->is_boolean()
                                                            : value->is_object());
  return fits ? inner : text;
}

// An empty word list as TensorRT-LLM clients send it: "", [] or [""].
bool is_empty_list(std::string_view text) noexcept {
  return text == R"("")" || text == "[]" || text == R"([""])";
}

// Collects a completion's fields from Triton's inputs and parameters.
class completion_text {
public:
  explicit completion_text(std::size_t depth_max) : depth_max_(depth_max) {}

  result<void> set(std::string_view name, std::string text) {
    if (std::find(given_elsewhere.begin(), given_elsewhere.end(), name) != given_elsewhere.end()) {
      return fail_param(errc::unsupported_parameter, name,
                        "'{}' is not supported by this server as a parameter", name);
    }
    const auto* row = find_parameter(name);
    if (row) {
      text = unquoted(row->kind, std::move(text), depth_max_);
    }
    if ((name == "bad_words" || name == "stop_words") && is_empty_list(text)) {
      return {};
    }
    if (name == "pad_id" || name == "beam_width") { // neither padding nor beams exist here
      return check_idle(name, unquoted(value_kind::number, std::move(text), depth_max_));
    }
    if (name == "end_id") {
      text = "[" + text + "]";
    }
    if (!row || row->completion_name.empty()) {
      return put(name, std::move(text));
    }
    client_names_.push_back({row->completion_name, std::string(name)});
    return put(row->completion_name, std::move(text));
  }

  result<void> put(std::string_view name, std::string text) {
    const auto [at, is_new] = values_.try_emplace(std::string(name), std::move(text));
    if (!is_new && at->second != text) {
      return in_client_terms(
          client_names_,
          fail_param(errc::invalid_value, name, "'{}' is given twice with different values", name));
    }
    return {};
  }

  // The client's names of the completion's fields.
  const field_names& client_names() const noexcept { return client_names_; }

  std::string text() const {
    std::string out = "{";
    for (const auto& [name, value] : values_) {
      out += out.size() > 1 ? "," : "";
      out += json_text(json(name));
      out += ':';
      out += value;
    }
    return out + "}";
  }

private:
  static result<void> check_idle(std::string_view name, const std::string& text) {
    const bool is_number = !text.empty() && text.find_first_not_of("-0123456789") == text.npos;
    if (!is_number || (name == "beam_width" && text != "1")) {
      return fail_param(errc::unsupported_parameter, name,
                        "'{}' {} is not supported by this server", name, text.substr(0, 32));
    }
    return {};
  }

  std::size_t depth_max_;
  std::map<std::string, std::string, std::less<>> values_; // JSON
  field_names client_names_{{"prompt", "text_input"}};
};

class kserve_reader {
public:
  kserve_reader(kserve_route route, kserve_call call, std::string_view model,
                const gateway_config& config)
      : call_(std::move(call)), config_(config), text_(config.request.json_depth_max) {
    out_.shape.route = route;
    out_.shape.id = std::move(call_.id);
    out_.shape.model = model;
  }

  result<kserve_generate> read() {
    for (auto step :
         {&kserve_reader::read_inputs, &kserve_reader::read_shape, &kserve_reader::read_parameters,
          &kserve_reader::read_completion, &kserve_reader::read_outputs}) {
      if (auto ok = (this->*step)(); !ok) {
        return ok.error();
      }
    }
    return std::move(out_);
  }

private:
  const json* input(std::string_view name) const noexcept {
    for (const auto& i : call_.inputs) {
      if (i.row->name == name && !i.values.empty()) {
        return &i.values.front();
      }
    }
    return nullptr;
  }

  bool flag(std::string_view name, bool otherwise = false) const {
    const auto* value = input(name);
    return value ? value->get<bool>() : otherwise;
  }

  // Inputs that are not sampling parameters are read by name elsewhere.
  result<void> read_inputs() {
    for (const auto& [row, values] : call_.inputs) {
      if (!row->is_parameter) {
        continue;
      }
      const auto text = row->is_list ? json(values) : values.front();
      if (auto ok = text_.set(row->name, json_text(text)); !ok) {
        return ok;
      }
    }
    if (!input("text_input")) {
      return fail_param(errc::invalid_request, "text_input", "input 'text_input' is required");
    }
    return text_.put("prompt", R"("")"); // placeholder: a long prompt is not parsed twice
  }

  // As in the vLLM backend: the answer includes the prompt unless it is streamed.
  result<void> read_shape() {
    auto& shape = out_.shape;
    shape.is_stream = flag("stream");
    if (shape.is_stream && shape.route == kserve_route::infer) {
      return fail_param(errc::invalid_value, "stream",
                        "'stream' needs generate_stream, or ModelStreamInfer of gRPC");
    }
    if (shape.is_stream && shape.route == kserve_route::generate) {
      return fail_param(errc::invalid_value, "stream",
                        "generate expects exactly 1 response: with 'stream' use generate_stream");
    }
    if (!flag("exclude_input_in_output", shape.is_stream)) {
      if (shape.is_stream) {
        return fail_param(errc::invalid_value, "exclude_input_in_output",
                          "when streaming, 'exclude_input_in_output' = false is not allowed");
      }
      shape.lead = input("text_input")->get<std::string>();
    }
    return {};
  }

  // Parameters that Triton itself reads are not passed to the model.
  result<void> read_parameters() {
    for (auto& [name, text] : call_.parameters) {
      if (auto ok = is_tritons(name) ? read_tritons(name, text) : text_.set(name, text); !ok) {
        return ok;
      }
    }
    const auto* more = input("sampling_parameters");
    if (!more) {
      return {};
    }
    const auto& source = more->get_ref<const std::string&>();
    const auto parsed = parse_json(source, config_.request.json_depth_max);
    if (!parsed || !parsed->is_object() || parsed->size() > kserve_parameters_max) {
      return fail_param(errc::invalid_value, "sampling_parameters",
                        "'sampling_parameters' must be a JSON object of at most {} members",
                        kserve_parameters_max);
    }
    for (auto it = parsed->begin(); it != parsed->end(); ++it) {
      const std::string_view path[] = {it.key()};
      if (it->is_null()) {
        continue;
      }
      auto given = it->is_object() ? raw_member(source, path) : json_text(*it);
      if (!given) {
        return given.error();
      }
      if (auto ok = text_.set(it.key(), *std::move(given)); !ok) {
        return ok;
      }
    }
    return {};
  }

  static bool is_tritons(std::string_view name) noexcept {
    return name == "timeout" || name == "priority" || name.starts_with("sequence_") ||
           name.starts_with("triton_");
  }

  // `timeout` is in microseconds and bounds the whole answer. Sequences and priorities belong to a
  // model's own scheduler; values that disable them are accepted.
  result<void> read_tritons(const std::string& name, const std::string& text) {
    if (name == "timeout") {
      const auto micros = parse_json(text, 1);
      if (!micros || !micros->is_number_unsigned()) {
        return fail_param(errc::invalid_value, name,
                          "'timeout' must be a number of microseconds, not {}", text.substr(0, 32));
      }
      const auto most =
          std::chrono::duration_cast<std::chrono::microseconds>(limits::duration_max).count();
      const auto bounded = std::min(micros->get<std::uint64_t>(), static_cast<std::uint64_t>(most));
      out_.request.terms.deadline = std::chrono::ceil<std::chrono::milliseconds>(
          std::chrono::microseconds(static_cast<std::int64_t>(bounded)));
      return {};
    }
    const bool is_off = text == "0" || text == "false" || text == R"("")";
    if (!is_off) {
      return fail_param(errc::unsupported_parameter, name, "'{}' is not supported by this server",
                        name.substr(0, 64));
    }
    return {};
  }

  result<void> read_completion() {
    const auto deadline = out_.request.terms.deadline;
    const auto text = text_.text();
    auto parsed = parse_body(text, config_.request.json_depth_max);
    if (!parsed) {
      return parsed.error();
    }
    field_reader fields(*parsed);
    auto read = read_generation(fields, text, openai_api::completions, config_.request);
    if (!read) {
      return in_client_terms(text_.client_names(), read.error());
    }
    if (auto ok = refuse_no_limit(*parsed, config_.request); !ok) {
      return ok.error();
    }
    out_.client_names = text_.client_names();
    out_.client_names.insert(out_.client_names.end(), read->client_names.begin(),
                             read->client_names.end());
    out_.request = std::move(read->request);
    out_.request.input = input("text_input")->get<std::string>();
    out_.request.model = out_.shape.model;
    out_.request.terms.deadline = deadline;
    out_.shape.choices = out_.request.terms.choices;
    out_.shape.has_logprobs = out_.request.terms.sampling.logprobs >= 0;
    return {};
  }

  // An output requested by name needs no return_ flag.
  result<void> read_outputs() {
    auto& outputs = out_.shape.outputs;
    outputs = std::move(call_.outputs);
    if (outputs.empty()) {
      for (const auto& row : kserve_outputs()) {
        const auto which = static_cast<kserve_output>(&row - kserve_outputs().data());
        if (which == kserve_output::text_output || flag("return_" + std::string(row.name))) {
          outputs.push_back({which, call_.is_binary});
        }
      }
    }
    const bool needs_logprobs = std::any_of(outputs.begin(), outputs.end(), [](const auto& o) {
      return o.which == kserve_output::cumulative_logprob;
    });
    if (needs_logprobs) {
      auto& wanted = out_.request.terms.sampling.logprobs;
      wanted = std::max(0, wanted);
    }
    return {};
  }

  kserve_call call_;
  const gateway_config& config_;
  completion_text text_;
  kserve_generate out_;
};

} // namespace

result<kserve_generate> read_kserve(kserve_route route, kserve_call call, std::string_view model,
                                    const gateway_config& config) {
  return kserve_reader(route, std::move(call), model, config).read();
}

std::set<std::string, std::less<>> kserve_parameters(const gateway_config& config) {
  const auto nothing = json::object();
  field_reader fields(nothing);
  static_cast<void>(read_generation(fields, "{}", openai_api::completions, config.request));
  auto names = fields.asked();
  for (const auto& row : llm_parameters) {
    names.emplace(row.name);
  }
  for (const auto name : given_elsewhere) {
    names.erase(std::string(name));
  }
  for (const auto* refused : {"length_penalty", "prompt_logprobs", "skip_special_tokens",
                              "spaces_between_special_tokens", "early_stopping"}) {
    names.erase(refused);
  }
  names.insert({"timeout", "pad_id"});
  return names;
}

} // namespace baton::gateway
