#include "gateway/api/tgi/tgi_response.hpp"

#include "gateway/api/openai/reply/best_of.hpp"
#include "gateway/api/openai/reply/openai_logprobs.hpp"
#include "gateway/api/openai/reply/openai_response.hpp"
#include "gateway/api/tgi/tgi_error.hpp"
#include "gateway/base/json_text.hpp"
#include "schema/ensure.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

std::string_view reason_of(const chunk& last) noexcept {
  if (last.finish == finish::length) {
    return "length";
  }
  return last.stop_text.empty() ? "eos_token" : "stop_sequence";
}

// JSON has no infinity; TGI also writes null.
ordered shown(float logprob) {
  return std::isfinite(logprob) ? ordered(static_cast<double>(logprob)) : ordered(nullptr);
}

ordered token_json(const tgi_token& t) {
  return {{"id", t.id}, {"text", t.text}, {"logprob", shown(t.logprob)}, {"special", t.is_special}};
}

ordered top_json(const std::vector<logprob_entry>& top) {
  auto out = ordered::array();
  for (const auto& e : top) {
    out.push_back(token_json({.id = e.token,
                              .text = e.text,
                              .logprob = e.logprob,
                              .is_special = e.is_control,
                              .top = {}}));
  }
  return out;
}

// The answers of one request have consecutive seeds.
ordered seed_json(const tgi_shape& shape, std::uint32_t choice) {
  return shape.seed ? ordered(*shape.seed + choice) : ordered(nullptr);
}

// TGI writes null for the first token.
ordered prefill_json(const std::vector<token_detail>& prompt) {
  auto out = ordered::array();
  for (const auto& d : prompt) {
    const auto& [text, id, logprob, is_control] = d.chosen;
    out.push_back({{"id", id},
                   {"text", text},
                   {"logprob", &d == &prompt.front() ? ordered(nullptr) : shown(logprob)}});
  }
  return out;
}

ordered details_json(const tgi_shape& shape, const chunk& answer) {
  auto tokens = ordered::array();
  auto tops = ordered::array();
  for (const auto& t : tokens_of(answer)) {
    tokens.push_back(token_json(t));
    tops.push_back(top_json(t.top));
  }
  ordered details{{"finish_reason", reason_of(answer)},
                  {"generated_tokens", answer.output_tokens},
                  {"seed", seed_json(shape, answer.choice)},
                  {"prefill", prefill_json(answer.prompt_details)},
                  {"tokens", std::move(tokens)}};
  if (shape.top_n_tokens > 0) {
    details["top_tokens"] = std::move(tops);
  }
  return details;
}

void append_token(std::string& out, const tgi_token& t) {
  fmt::format_to(std::back_inserter(out), R"({{"id":{},"text":)", t.id);
  append_json_string(out, t.text);
  out += R"(,"logprob":)";
  if (std::isfinite(t.logprob)) {
    fmt::format_to(std::back_inserter(out), "{}", t.logprob);
  } else {
    out += "null";
  }
  out += t.is_special ? R"(,"special":true})" : R"(,"special":false})";
}

// TGI names the hardware here; a gateway does not know that of the shards.
constexpr std::string_view compute_type = "baton";

std::string millis(reply_times::clock::duration d) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(d).count());
}

} // namespace

header_list tgi_headers(const tgi_shape& shape) {
  return {{"x-compute-type", std::string(compute_type)},
          {"x-compute-characters", std::to_string(shape.prompt_characters)}};
}

std::vector<tgi_token> tokens_of(const chunk& c) {
  std::vector<tgi_token> tokens;
  std::size_t begin = 0;
  for (const auto& d : c.details) {
    const auto end = std::clamp<std::size_t>(d.text_end, begin, c.text.size());
    const auto& [text, id, logprob, is_control] = d.chosen;
    tokens.push_back({.id = id,
                      .text = is_control ? text : c.text.substr(begin, end - begin),
                      .logprob = logprob,
                      .is_special = is_control,
                      .top = d.top});
    begin = end;
  }
  return tokens;
}

void tgi_unary::add(chunk c) {
  ENSURE(c.choice < answers_.size(), "chunk of choice {} of {}", c.choice, answers_.size());
  auto& answer = answers_[c.choice];
  if (answer.finish != finish::none) {
    return;
  }
  for (auto& d : c.details) {
    d.text_end += static_cast<std::uint32_t>(answer.text.size());
    answer.details.push_back(std::move(d));
  }
  add_prompt(answer.prompt_details, c);
  answer.text += c.text;
  answer.choice = c.choice;
  answer.finish = c.finish;
  answer.stop_text = std::move(c.stop_text);
  answer.prompt_tokens = c.prompt_tokens;
  answer.output_tokens = c.output_tokens;
  answers_left_ -= c.finish != finish::none ? 1 : 0;
}

std::uint32_t tgi_unary::best() const {
  std::vector<double> means;
  for (const auto& answer : answers_) {
    means.push_back(mean_logprob(answer.details));
  }
  return likeliest(means, 1).front();
}

http_reply tgi_unary::reply(const reply_identity& /*who*/, const reply_times& when) const {
  const auto& given = answers_[best()];
  ordered body{{"generated_text", shape_.lead + given.text}};
  if (shape_.has_details) {
    auto details = details_json(shape_, given);
    if (shape_.best_of > 1) {
      auto others = ordered::array();
      for (const auto& answer : answers_) {
        if (&answer != &given) {
          ordered one{{"generated_text", shape_.lead + answer.text}};
          one.update(details_json(shape_, answer));
          others.push_back(std::move(one));
        }
      }
      details["best_of_sequences"] = std::move(others);
    }
    body["details"] = std::move(details);
  }
  http_reply r;
  r.body = json_text(shape_.is_list ? ordered::array({std::move(body)}) : std::move(body));
  r.headers = tgi_headers(shape_);
  const auto total = when.ended - when.read;
  const auto inference = when.ended - when.granted;
  r.headers.emplace_back("x-compute-time",
                         fmt::format("{}", std::chrono::duration<double>(total).count()));
  r.headers.emplace_back("x-total-time", millis(total));
  r.headers.emplace_back("x-validation-time", millis(when.opened - when.read));
  r.headers.emplace_back("x-queue-time", millis(when.granted - when.opened));
  r.headers.emplace_back("x-inference-time", millis(inference));
  r.headers.emplace_back("x-time-per-token",
                         millis(inference / std::max<std::uint32_t>(1, given.output_tokens)));
  r.headers.emplace_back("x-prompt-tokens", std::to_string(given.prompt_tokens));
  r.headers.emplace_back("x-generated-tokens", std::to_string(given.output_tokens));
  return r;
}

void tgi_events::flush(std::string& out) {
  if (open_.empty()) {
    return;
  }
  out += open_;
  out += "\"generated_text\":null,\"details\":null}\n\n";
  open_.clear();
}

void tgi_events::add_token(const tgi_token& t, std::string& out) {
  flush(out);
  last_id_ = t.id;
  fmt::format_to(std::back_inserter(open_), R"(data:{{"index":{},"token":)", ++index_);
  append_token(open_, t);
  if (shape_.top_n_tokens > 0) {
    open_ += ",\"top_tokens\":" + json_text(top_json(t.top));
  }
  open_ += ',';
}

void tgi_events::add_end(const chunk& c, std::string& out) {
  if (open_.empty()) { // all tokens are sent: an empty one carries the end
    add_token({.id = last_id_, .text = {}, .logprob = 0, .is_special = true, .top = {}}, out);
  }
  out += open_;
  open_.clear();
  out += "\"generated_text\":";
  append_json_string(out, shape_.lead + text_);
  out += ",\"details\":";
  out += shape_.has_details ? json_text({{"finish_reason", reason_of(c)},
                                         {"generated_tokens", c.output_tokens},
                                         {"seed", seed_json(shape_, c.choice)},
                                         {"input_length", c.prompt_tokens}})
                            : "null";
  out += "}\n\n";
  has_ended_ = true;
}

void tgi_events::add(const chunk& c, std::string& out) {
  if (has_ended_) {
    return;
  }
  for (const auto& t : tokens_of(c)) {
    add_token(t, out);
  }
  text_ += c.text;
  if (c.finish != finish::none) {
    add_end(c, out);
  } else if (!shape_.has_stops) {
    flush(out);
  }
}

void tgi_events::fail(const error& e, std::string& out) {
  if (has_ended_) {
    return;
  }
  flush(out);
  has_ended_ = true;
  out += "data:";
  out += tgi_error_body(e);
  out += "\n\n";
}

std::string tgi_tokenize_body(const tokenized& answer, std::string_view text) {
  // The start of each character, and the end of the text.
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) {
      begins.push_back(i);
    }
  }
  const auto character_at = [&](std::size_t byte) {
    return static_cast<std::size_t>(std::upper_bound(begins.begin(), begins.end(), byte) -
                                    begins.begin()) -
           1;
  };
  const auto begin_of = [&](std::size_t character) {
    return character < begins.size() ? begins[character] : text.size();
  };
  auto out = ordered::array();
  std::size_t at = 0; // in bytes
  for (std::size_t i = 0; i < answer.ids.size(); ++i) {
    std::string_view piece = i < answer.pieces.size() ? answer.pieces[i] : std::string_view();
    // A space that the tokenizer prepended is not part of the text.
    if (piece.starts_with(' ') && !text.substr(at).starts_with(piece)) {
      piece.remove_prefix(1);
    }
    if (piece.empty() || !text.substr(at).starts_with(piece)) { // a special token without text
      out.push_back({{"id", answer.ids[i]}, {"text", ""}, {"start", 0}, {"stop", 0}});
      continue;
    }
    const auto start = character_at(at);
    const auto stop = character_at(at + piece.size() - 1) + 1;
    at += piece.size();
    out.push_back({{"id", answer.ids[i]},
                   {"text", text.substr(begin_of(start), begin_of(stop) - begin_of(start))},
                   {"start", start},
                   {"stop", stop}});
  }
  return json_text(out);
}

std::string tgi_info_body(const model_card& card, const gateway_config& config) {
  return json_text({{"model_id", card.name},
                    {"model_sha", nullptr},
                    {"model_pipeline_tag", "text-generation"},
                    {"max_concurrent_requests", config.requests_max},
                    {"max_best_of", config.request.choices_max},
                    {"max_stop_sequences", config.request.stop_texts_max},
                    {"max_input_tokens", std::max(1U, card.max_model_len) - 1},
                    {"max_total_tokens", card.max_model_len},
                    {"validation_workers", 1},
                    {"max_client_batch_size", 1},
                    {"router", "baton"},
                    {"version", config.build},
                    {"sha", nullptr},
                    {"docker_label", nullptr}});
}

} // namespace baton::gateway
