#include "gateway/api/openai/reply/openai_response.hpp"

#include "gateway/api/openai/reply/best_of.hpp"
#include "gateway/api/openai/reply/call_reply.hpp"
#include "gateway/api/openai/reply/openai_parts.hpp"
#include "gateway/base/json_text.hpp"
#include "runtime/text/unicode/utf8.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

// The answer as a message: what the model thought, its text and its tool calls.
ordered message_json(const call_delta& answer, const call_owner& owner, bool includes_reasoning) {
  ordered out{{"role", "assistant"}, {"content", answer.text}, {"refusal", nullptr}};
  if (!answer.reasoning.empty() && includes_reasoning) {
    put_reasoning(out, answer.reasoning);
  }
  if (answer.text.empty() && !(answer.calls.empty() && answer.reasoning.empty())) {
    out["content"] = nullptr;
  }
  if (!answer.calls.empty()) {
    out["tool_calls"] = calls_json(owner, answer.calls);
  }
  return out;
}

ordered card_json(const model_card& card, std::string_view id) {
  return {{"id", id},
          {"object", "model"},
          {"created", card.created},
          {"owned_by", "baton"},
          {"root", card.name},
          {"parent", nullptr},
          {"max_model_len", card.max_model_len}};
}

} // namespace

std::string tokenize_body(const tokenized& answer, bool with_pieces) {
  ordered out{{"count", answer.ids.size()},
              {"max_model_len", answer.max_model_len},
              {"tokens", answer.ids}};
  out["token_strs"] = with_pieces ? ordered(answer.pieces) : ordered(nullptr);
  return json_text(out);
}

std::string detokenize_body(const detokenized& answer) {
  return json_text({{"prompt", answer.text}});
}

std::string model_body(const model_card& card, std::string_view id) {
  return json_text(card_json(card, id));
}

std::string models_body(const std::vector<model_card>& cards,
                        const std::vector<std::string>& aliases) {
  auto data = ordered::array();
  for (const auto& card : cards) {
    data.push_back(card_json(card, card.name));
  }
  for (const auto& alias : aliases) {
    if (!cards.empty()) {
      data.push_back(card_json(cards.front(), alias));
    }
  }
  return json_text({{"object", "list"}, {"data", std::move(data)}});
}

openai_unary::openai_unary(const reply_shape& shape)
    : shape_(shape), drawn_(std::max(shape.choices, shape.best_of)),
      choices_left_(shape.prompts * drawn_), prompts_(shape.prompts) {
  for (std::uint32_t i = 0; i < choices_left_; ++i) {
    choices_.push_back({.parser = answer_parser(shape.calls, shape.reads_reasoning)});
  }
}

std::vector<std::uint32_t> openai_unary::given() const {
  std::vector<std::uint32_t> all(choices_.size());
  std::iota(all.begin(), all.end(), 0U);
  if (shape_.choices == drawn_) {
    return all;
  }
  all.clear();
  for (std::uint32_t first = 0; first < choices_.size(); first += drawn_) {
    std::vector<double> means;
    for (auto i = first; i < first + drawn_; ++i) {
      means.push_back(mean_logprob(choices_[i].details));
    }
    for (const auto position : likeliest(means, shape_.choices)) {
      all.push_back(first + position);
    }
  }
  return all;
}

void openai_unary::add(chunk c) {
  ENSURE(c.choice < choices_.size(), "chunk of choice {} of {}", c.choice, choices_.size());
  auto& choice = choices_[c.choice];
  add_prompt(choice.prompt, c);
  choice.parser.collect(c, choice.read);
  choice.details.insert(choice.details.end(), std::make_move_iterator(c.details.begin()),
                        std::make_move_iterator(c.details.end()));
  if (shape_.has_token_ids) {
    choice.ids.insert(choice.ids.end(), c.ids.begin(), c.ids.end());
  }
  choice.output_tokens = c.output_tokens;
  note_prompt(c, drawn_, prompts_);
  if (c.finish != finish::none && choice.how == finish::none) {
    choice.how = c.finish;
    --choices_left_;
  }
}

http_reply openai_unary::reply(const reply_identity& who, const reply_times& /*when*/) const {
  http_reply r;
  r.body = body(who);
  return r;
}

std::string openai_unary::body(const reply_identity& who) const {
  const bool is_chat = shape_.api == openai_api::chat;
  auto choices = ordered::array();
  auto usage = sum_of(prompts_);
  for (const auto& c : choices_) { // all drawn ones, including those not returned
    usage.output_tokens += c.output_tokens;
    usage.reasoning_tokens += c.parser.reasoning_tokens();
  }
  for (const auto position : given()) {
    const auto& c = choices_[position];
    const auto index = static_cast<std::uint32_t>(choices.size());
    ordered one{{"index", index}};
    const call_owner owner{shape_.calls ? shape_.calls->format : call_format::hermes, who.ticket,
                           index};
    if (is_chat) {
      one["message"] = message_json(c.read, owner, shape_.includes_reasoning);
    } else {
      one["text"] = shape_.echo.empty()
                        ? c.read.text
                        : echo_text(shape_.echo[position / drawn_], c.prompt) + c.read.text;
    }
    one["logprobs"] =
        shape_.has_logprobs
            ? logprobs_of(style_of(shape_), c.details, 0,
                          shape_.echo.empty() ? std::vector<token_detail>() : c.prompt)
            : ordered(nullptr);
    one["finish_reason"] = finish_reason_name(c.how, !c.read.calls.empty());
    if (shape_.has_token_ids) {
      one["token_ids"] = c.ids;
    }
    if (shape_.has_token_ids && !is_chat) {
      one["prompt_token_ids"] = ids_of_prompt(c.prompt);
    }
    choices.push_back(std::move(one));
  }
  ordered out{{"id", reply_id(shape_.api, who.ticket)},
              {"object", is_chat ? "chat.completion" : "text_completion"},
              {"created", who.created},
              {"model", shape_.model},
              {"system_fingerprint", who.fingerprint},
              {"choices", std::move(choices)},
              {"usage", openai_usage(usage, shape_)}};
  if (shape_.has_token_ids && is_chat) {
    out["prompt_token_ids"] = ids_of_prompt(choices_.front().prompt);
  }
  return json_text(out);
}

} // namespace baton::gateway
