#include "gateway/api/tgi/tgi_request.hpp"

#include "gateway/api/openai/request/openai_constraint.hpp"
#include "gateway/api/openai/request/openai_fields.hpp"
#include "gateway/request/model_defaults.hpp"
#include "runtime/text/unicode/utf8.hpp"

#include <span>

namespace baton::gateway {
namespace {

constexpr std::size_t grammar_name_bytes_max = 256; // a kind of grammar or a schema's name

// TGI rejects 0 for these: to disable them, clients omit them.
constexpr real_range warm_range{0, temperature_range.most, true};
constexpr real_range share_range{0, 1, true};

constexpr std::string_view schema_path[] = {"parameters", "grammar", "value", "schema"};

constexpr unsupported_field unsupported_parameters[] = {
    {"adapter_id", ""},
};

std::string read_inputs(field_reader& fields) {
  const auto* value = fields.require("inputs");
  if (!value) {
    return {};
  }
  if (!value->is_string()) {
    fields.refuse_type("inputs", "a string", *value);
    return {};
  }
  auto text = value->get<std::string>();
  if (text.empty()) {
    fields.refuse(errc::invalid_value, "inputs", "'inputs' must not be empty");
  }
  return text;
}

class parameter_reader {
public:
  parameter_reader(field_reader& fields, std::string_view source, const gateway_config& config,
                   tgi_generate& out)
      : fields_(fields), source_(source), config_(config), out_(out) {}

  // `are_given`: TGI samples a request without parameters, but is greedy for an empty object.
  void read(bool are_given) {
    read_sampling(are_given);
    read_watermark();
    read_stopping();
    read_details();
    read_best_of();
    read_grammar();
    out_.request.prompt_tokens_max = static_cast<std::uint32_t>(fields_.integer(
        "truncate", 0, 1, static_cast<std::int64_t>(config_.request.prompt_ids_max)));
  }

private:
  void read_sampling(bool are_given) {
    auto& s = out_.request.terms.sampling;
    const auto real = [this](const char* name, float otherwise, const real_range& range) {
      return static_cast<float>(fields_.real(name, otherwise, range));
    };
    s.temperature = real("temperature", 1, warm_range);
    s.top_k = static_cast<std::int32_t>(fields_.integer("top_k", 0, 1, top_k_max));
    s.top_p = real("top_p", 1, share_range);
    s.typical_p = real("typical_p", 1, share_range);
    s.repetition_penalty = real("repetition_penalty", 1, repetition_penalty_range);
    s.frequency_penalty = real("frequency_penalty", 0, penalty_range);
    s.seed = read_seed(fields_, {}, seed_kind::unsigned_seed);
    const bool is_sampled = fields_.boolean("do_sample", !are_given) || s.temperature != 1 ||
                            s.top_k > 0 || s.top_p < 1 || s.typical_p < 1;
    if (is_sampled) {
      out_.shape.seed = s.seed;
    } else {
      s.temperature = 0;
    }
    note_unsaid(is_sampled);
  }

  // A request without sampling parameters is greedy, as TGI documents, whatever the model's
  // temperature.
  void note_unsaid(bool is_sampled) {
    using enum sampling_field;
    constexpr auto named =
        bit_of(temperature) | bit_of(top_k) | bit_of(top_p) | bit_of(repetition_penalty);
    auto& unspecified = out_.request.unspecified;
    unspecified = unspecified_among(fields_, named) | bit_of(min_p);
    if (!is_sampled) {
      unspecified &= bit_of(repetition_penalty);
    }
  }

  void read_watermark() {
    auto& s = out_.request.terms.sampling;
    if (fields_.boolean("watermark", false)) {
      s.watermark_gamma = config_.watermark_gamma;
      s.watermark_delta = config_.watermark_delta;
    }
  }

  // As in TGI, a stop text is part of the answer that it ends.
  void read_stopping() {
    auto& request = out_.request;
    const auto most = static_cast<std::int64_t>(config_.request.max_tokens);
    request.terms.max_tokens_given = fields_.find("max_new_tokens") != nullptr;
    request.unspecified |= request.terms.max_tokens_given ? 0 : bit_of(sampling_field::max_tokens);
    request.terms.stop.max_tokens =
        static_cast<std::uint32_t>(fields_.integer("max_new_tokens", most, 1, most));
    read_stop_texts(fields_, request.terms.stop);
    request.terms.stop.include_stop_text = true;
    out_.shape.has_stops = !request.terms.stop.stop_texts.empty();
  }

  void read_details() {
    auto& shape = out_.shape;
    shape.has_details = fields_.boolean("details", false);
    shape.top_n_tokens = static_cast<std::uint32_t>(
        fields_.integer("top_n_tokens", 0, 0, config_.request.logprobs_max));
    if (shape.has_details || shape.is_stream) {
      out_.request.terms.sampling.logprobs = static_cast<std::int32_t>(shape.top_n_tokens);
    } else if (shape.top_n_tokens > 0) {
      fields_.refuse(errc::invalid_value, "top_n_tokens",
                     "'parameters.top_n_tokens' needs 'details' to be true, or a stream");
    }
    if (fields_.boolean("decoder_input_details", false)) {
      if (shape.is_stream || !shape.has_details) {
        fields_.refuse(errc::invalid_value, "decoder_input_details",
                       "'parameters.decoder_input_details' needs 'details' to be true, and no "
                       "stream");
      }
      out_.request.terms.sampling.prompt_logprobs = 0;
    }
    if (fields_.boolean("return_full_text", shape.is_list)) {
      shape.lead = std::get<std::string>(out_.request.input);
    }
  }

  void read_best_of() {
    auto& shape = out_.shape;
    shape.best_of =
        static_cast<std::uint32_t>(fields_.integer("best_of", 1, 1, config_.request.choices_max));
    if (shape.best_of == 1) {
      return;
    }
    if (!shape.seed) {
      fields_.refuse(errc::invalid_value, "best_of",
                     "'parameters.best_of' above 1 needs sampling: all answers would be the same");
    } else if (shape.is_stream) {
      fields_.refuse(errc::invalid_value, "best_of",
                     "'parameters.best_of' above 1 cannot be streamed: the best answer is known at "
                     "the end");
    }
    out_.request.terms.choices = shape.best_of;
    out_.request.terms.sampling.logprobs = static_cast<std::int32_t>(shape.top_n_tokens);
  }

  void read_grammar() {
    fields_.object("grammar", [this](field_reader& grammar) {
      const auto type = grammar.text("type", {}, grammar_name_bytes_max);
      const auto* of = grammar.require("value");
      if (of && type == "json_schema") {
        read_named_schema(grammar);
      } else if (of && (type == "json" || type == "json_object")) {
        take(read_schema(grammar, "value", std::span(schema_path).first(3), source_));
      } else if (of && type == "regex" && of->is_string()) {
        take(constraint{constraint_kind::regex, of->get<std::string>()});
      } else if (of && type == "regex") {
        grammar.refuse_type("value", "a string", *of);
      } else if (!grammar.has_failed()) {
        grammar.refuse(errc::invalid_value, "type",
                       "'parameters.grammar.type' must be 'json', 'regex' or 'json_schema'");
      }
    });
  }

  void read_named_schema(field_reader& grammar) {
    grammar.object("value", [this](field_reader& inner) {
      inner.text("name", {}, grammar_name_bytes_max);
      inner.boolean("strict", true);
      inner.require("schema");
      take(read_schema(inner, "schema", schema_path, source_));
    });
  }

  void take(std::optional<constraint> c) {
    if (c) {
      out_.request.terms.sampling.constraint = *std::move(c);
    }
  }

  field_reader& fields_;
  std::string_view source_;
  const gateway_config& config_;
  tgi_generate& out_;
};

void read_parameters(field_reader& fields, std::string_view source, const gateway_config& config,
                     tgi_generate& out) {
  static const json none = json::object();
  const auto* value = fields.find("parameters");
  if (value && !value->is_object()) {
    return fields.refuse_type("parameters", "an object", *value);
  }
  field_reader parameters(value ? *value : none, "parameters.");
  parameter_reader(parameters, source, config, out).read(value != nullptr);
  if (auto ok = parameters.finish(unsupported_parameters); !ok) {
    fields.refuse(ok.error());
  }
}

bool read_stream(field_reader& fields, tgi_route route) {
  const bool otherwise = route == tgi_route::generate_stream;
  const bool is_stream = fields.boolean("stream", otherwise);
  if (route != tgi_route::root && is_stream != otherwise) {
    fields.refuse(errc::invalid_value, "stream",
                  "/generate answers in one piece, /generate_stream as a stream: 'stream' must say "
                  "the same");
  }
  return is_stream;
}

void read_head(field_reader& fields, tgi_route route, tgi_generate& out) {
  out.request.model = read_model(fields);
  auto text = read_inputs(fields);
  out.shape.prompt_characters = text::utf8_characters(text);
  out.request.input = std::move(text);
  out.shape.is_stream = read_stream(fields, route);
  out.shape.is_list = route == tgi_route::root;
}

} // namespace

result<tgi_generate> parse_tgi(tgi_route route, std::string_view body,
                               const gateway_config& config) {
  auto parsed = parse_body(body, config.request.json_depth_max);
  if (!parsed) {
    return parsed.error();
  }
  field_reader fields(*parsed);
  tgi_generate out;
  read_head(fields, route, out);
  read_parameters(fields, body, config, out);
  if (auto ok = fields.finish(); !ok) {
    return ok.error();
  }
  if (auto ok = check_ranges(out.request, config.request); !ok) {
    return in_client_terms(tgi_field_names(), ok.error());
  }
  return out;
}

field_names tgi_field_names() {
  field_names client_names{{"prompt", "inputs"},
                           {"max_tokens", "parameters.max_new_tokens"},
                           {"n", "parameters.best_of"},
                           {"logprobs", "parameters.top_n_tokens"},
                           {"prompt_logprobs", "parameters.decoder_input_details"},
                           {constraint_param, "parameters.grammar"}};
  for (const auto* same : {"temperature", "top_k", "top_p", "typical_p", "repetition_penalty",
                           "frequency_penalty", "seed", "stop", "truncate"}) {
    client_names.push_back({same, fmt::format("parameters.{}", same)});
  }
  return client_names;
}

// An empty body requests every field; the error about missing ones is ignored.
tgi_fields tgi_fields_of(const gateway_config& config) {
  const auto nothing = json::object();
  field_reader fields(nothing), parameters(nothing);
  tgi_generate out;
  read_head(fields, tgi_route::root, out);
  read_parameters(fields, "{}", config, out);
  parameter_reader(parameters, "{}", config, out).read(/*are_given=*/true);
  return {fields.asked(), parameters.asked()};
}

std::optional<result<tokenize_call>> parse_tgi_tokenize(std::string_view body,
                                                        const request_limits& limits) {
  if (body.find("\"inputs\"") == body.npos) {
    return std::nullopt;
  }
  auto parsed = parse_body(body, limits.json_depth_max);
  if (!parsed || !parsed->contains("inputs")) {
    return std::nullopt;
  }
  static constexpr unsupported_field unsupported[] = {{"parameters", "{}"}};
  field_reader fields(*parsed);
  tokenize_call out;
  out.model = read_model(fields);
  out.input = read_inputs(fields);
  out.client_names = {{"prompt", "inputs"}};
  if (auto ok = fields.finish(unsupported); !ok) {
    return ok.error();
  }
  return out;
}

} // namespace baton::gateway
