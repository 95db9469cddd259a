#include "gateway/api/kserve/calls/kserve_response.hpp"

#include "gateway/api/kserve/calls/kserve_error.hpp"
#include "gateway/api/openai/reply/openai_response.hpp"
#include "gateway/base/json_text.hpp"
#include "schema/ensure.hpp"

#include <cmath>
#include <limits>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

// vLLM's format: an object for each token, keyed by ids. Only top tokens have a rank.
std::string logprobs_text(const std::vector<token_detail>& details) {
  auto tokens = ordered::array();
  for (const auto& d : details) {
    auto one = ordered::object();
    const auto put = [&one](const logprob_entry& e, ordered rank) {
      one[std::to_string(e.token)] = {
          {"logprob", std::isfinite(e.logprob) ? ordered(e.logprob) : ordered(nullptr)},
          {"rank", std::move(rank)},
          {"decoded_token", e.text}};
    };
    put(d.chosen, nullptr);
    for (std::size_t i = 0; i < d.top.size(); ++i) {
      put(d.top[i], i + 1);
    }
    tokens.push_back(std::move(one));
  }
  return json_text(tokens);
}

ordered json_head_of(const kserve_shape& shape) {
  auto head = ordered::object();
  if (!shape.id.empty()) {
    head["id"] = shape.id;
  }
  head["model_name"] = shape.model;
  head["model_version"] = kserve_version;
  return head;
}

// A single value is not wrapped in a list.
std::string generate_body(const kserve_shape& shape, const std::vector<kserve_tensor>& tensors) {
  auto body = json_head_of(shape);
  for (const auto& t : tensors) {
    body[std::string(t.row->name)] =
        t.values.size() == 1 ? ordered(t.values.front()) : ordered(t.values);
  }
  return json_text(body);
}

http_reply infer_reply(const kserve_shape& shape, const std::vector<kserve_tensor>& tensors) {
  http_reply r;
  auto outputs = ordered::array();
  std::string bytes;
  for (const auto& t : tensors) {
    ordered one{{"name", t.row->name},
                {"datatype", datatype_of(t.row->type)},
                {"shape", ordered::array({t.values.size()})}};
    if (t.is_binary) {
      const auto before = bytes.size();
      append_bytes(bytes, t.row->type, t.values);
      one["parameters"] = {{"binary_data_size", bytes.size() - before}};
    } else {
      one["data"] = t.values;
    }
    outputs.push_back(std::move(one));
  }
  auto body = json_head_of(shape);
  body["outputs"] = std::move(outputs);
  r.body = json_text(body);
  if (!bytes.empty()) {
    r.content_type = "application/octet-stream";
    r.headers.emplace_back("Inference-Header-Content-Length", std::to_string(r.body.size()));
    r.body += bytes;
  }
  return r;
}

} // namespace

kserve_gatherer::kserve_gatherer(kserve_shape shape)
    : shape_(std::move(shape)), choices_(shape_.choices), choices_left_(shape_.choices) {
  for (auto& choice : choices_) {
    choice.text = shape_.lead;
  }
}

void kserve_gatherer::add(const chunk& c) {
  ENSURE(c.choice < choices_.size(), "chunk of choice {} of {}", c.choice, choices_.size());
  auto& choice = choices_[c.choice];
  if (choice.how != finish::none) {
    return;
  }
  choice.text += c.text;
  choice.tokens += c.count;
  for (const auto& d : c.details) {
    choice.logprob_sum += static_cast<double>(d.chosen.logprob);
  }
  choice.details.insert(choice.details.end(), c.details.begin(), c.details.end());
  prompt_tokens_ = std::max(prompt_tokens_, c.prompt_tokens);
  choice.how = c.finish;
  choices_left_ -= c.finish != finish::none ? 1 : 0;
}

json kserve_gatherer::value_of(kserve_output which, const choice_text& choice) const {
  switch (which) {
  case kserve_output::text_output:
    return choice.text;
  case kserve_output::finish_reason: // as the vLLM backend, which prints Python's None
    return choice.how == finish::none ? std::string("None") : std::string(finish_name(choice.how));
  case kserve_output::cumulative_logprob: // -inf becomes the lowest float
    return std::max(static_cast<float>(choice.logprob_sum), std::numeric_limits<float>::lowest());
  case kserve_output::logprobs:
    return shape_.has_logprobs ? logprobs_text(choice.details) : std::string("null");
  case kserve_output::num_input_tokens:
    return prompt_tokens_;
  case kserve_output::num_output_tokens:
    return choice.tokens;
  }
  return nullptr;
}

std::vector<kserve_tensor> kserve_gatherer::take() {
  std::vector<kserve_tensor> tensors;
  for (const auto& [which, is_binary] : shape_.outputs) {
    const auto& row = row_of(which);
    kserve_tensor t{&row, {}, is_binary};
    for (const auto& choice : choices_) {
      if (row.is_list || t.values.empty()) {
        t.values.push_back(value_of(which, choice));
      }
    }
    tensors.push_back(std::move(t));
  }
  for (auto& choice : choices_) {
    choice.text.clear();
    choice.details.clear();
    choice.tokens = 0;
  }
  return tensors;
}

http_reply kserve_unary::reply(const reply_identity& /*who*/, const reply_times& /*when*/) const {
  auto all = gatherer_;
  const auto tensors = all.take();
  if (all.shape().route == kserve_route::infer) {
    return infer_reply(all.shape(), tensors);
  }
  http_reply r;
  r.body = generate_body(all.shape(), tensors);
  return r;
}

void kserve_events::add(const chunk& c, std::string& out) {
  if (has_ended_) {
    return;
  }
  gatherer_.add(c);
  has_ended_ = gatherer_.is_complete();
  const bool brings = c.count > 0 || !c.text.empty() || c.finish != finish::none;
  if (has_ended_ || (gatherer_.shape().is_stream && brings)) {
    out += "data: ";
    out += generate_body(gatherer_.shape(), gatherer_.take());
    out += "\n\n";
  }
}

void kserve_events::fail(const error& e, std::string& out) {
  if (has_ended_) {
    return;
  }
  has_ended_ = true;
  out += "data: ";
  out += kserve_error_body(e);
  out += "\n\n";
}

} // namespace baton::gateway
