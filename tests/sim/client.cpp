#include "tests/sim/client.hpp"

#include "schema/result.hpp"

#include <algorithm>

namespace baton::sim {

client::client(std::uint64_t number, client_plan plan, const engine::toy_model& toy,
               const text::tokenizer& words)
    : number_(number), plan_(std::move(plan)),
      stream_(std::make_shared<gateway::stream>(number, plan_.buffer_bytes, [] {})),
      choices_(plan_.choices), choices_left_(plan_.choices) {
  if (plan_.wants_embedding) {
    embedding_ = toy_embedding(toy, plan_.input, pooling::mean);
    choices_[0].how_expected = finish::stop;
    return;
  }
  if (plan_.prompt_logprobs >= 0)
    scores_ = toy_scores(toy, plan_.input, static_cast<std::uint32_t>(plan_.prompt_logprobs));
  const auto masker =
      plan_.looks_like ? std::make_shared<grammar::masker>(grammar::texts_of(words)) : nullptr;
  for (std::uint32_t c = 0; c < plan_.choices; ++c)
    choices_[c].expected = toy_continuation(toy, plan_.input, sampling(c), plan_.max_tokens,
                                            /*banned=*/{}, /*min_tokens=*/0, masker);
  if (plan_.stops_at && *plan_.stops_at < plan_.max_tokens)
    stop_ids_.push_back(choices_[0].expected[*plan_.stops_at]);
  for (auto& c : choices_) {
    c.how_expected = finish::length;
    if (stop_ids_.empty())
      continue;
    const auto end = std::find(c.expected.begin(), c.expected.end(), stop_ids_[0]);
    if (end == c.expected.end())
      continue;
    c.expected.erase(end + 1, c.expected.end());
    c.how_expected = finish::stop;
  }
}

sampling_params client::sampling(std::uint32_t of_choice) const {
  sampling_params s;
  s.temperature = plan_.seed == 0 ? 0.0F : 1.0F;
  s.seed = plan_.seed + of_choice;
  if (plan_.seed % 3 == 1)
    s.frequency_penalty = 0.5F; // history travels with the step
  if (plan_.seed % 3 == 2) {    // and the token before the one to draw
    s.watermark_gamma = 0.5F;
    s.watermark_delta = 3;
  }
  if (plan_.looks_like)
    s.constraint = *plan_.looks_like; // the output has that form too
  s.prompt_logprobs = plan_.prompt_logprobs;
  return s;
}

gateway::open_generate client::request() const {
  generate g;
  g.request = number_;
  g.model = "toy";
  g.input = plan_.input;
  if (plan_.wants_embedding) {
    g.terms.wants_embedding = g.terms.max_tokens_given = true;
    g.terms.stop.max_tokens = 1;
    return {stream_, g, false, false};
  }
  g.terms.choices = plan_.choices;
  g.terms.sampling = sampling(0);
  g.terms.stop.max_tokens = plan_.max_tokens;
  g.terms.stop.ignore_eos = true;
  g.terms.stop.stop_ids = stop_ids_;
  g.terms.max_tokens_given = true;
  g.priority = plan_.priority;
  g.request_id = plan_.request_id;
  return {stream_, g, true, true};
}

bool client::lose_gateway(bool reads_rest) {
  if (reads_rest)
    read();
  stream_->detach();
  is_back_ = false;
  return is_orphan_ = (ticket_ || !plan_.request_id.empty()) && !has_ended();
}

void client::begin_again(std::uint64_t number) {
  is_orphan_ = false;
  number_ = number;
  stream_ = std::make_shared<gateway::stream>(number, plan_.buffer_bytes, [] {});
  choices_left_ = plan_.choices;
}

gateway::open_generate client::ask_again(std::uint64_t number) {
  begin_again(number);
  return request();
}

gateway::open_resume client::come_back(std::uint64_t number) {
  begin_again(number);
  gateway::open_resume m{stream_, "toy", ticket_->ticket, ticket_->resume_key, {}};
  for (auto& c : choices_) {
    c.had_end = c.how != finish::none;
    m.from.push_back({static_cast<std::uint32_t>(c.ids.size()), c.had_end});
  }
  return m;
}

std::size_t client::tokens() const {
  std::size_t all = 0;
  for (const auto& c : choices_)
    all += c.ids.size();
  return all;
}

void client::fail_stream(const error& why) {
  if (why.code == errc::slow_reader && !plan_.reads_slowly)
    report("was cut as slow and reads at once");
  is_over_ = true;
  failure_ = why;
}

void client::take(const chunk& c) {
  if (c.choice >= choices_.size())
    return report("a chunk of choice {}", c.choice);
  auto& of = choices_[c.choice];
  if (std::exchange(of.had_end, false) && c.count == 0 && c.finish != finish::none) {
    is_over_ = --choices_left_ == 0; // delivered again, for API servers that count ends
    return;
  }
  if (of.how != finish::none)
    report("text after the end of choice {}", c.choice);
  if (c.index != of.ids.size() + c.count || c.ids.size() != c.count)
    report("tokens up to {} after {}, {} ids", c.index, of.ids.size(), c.ids.size());
  of.ids.insert(of.ids.end(), c.ids.begin(), c.ids.end());
  check_embedding(c);
  take_prompt(c);
  if (c.finish == finish::none)
    return;
  of.how = c.finish;
  if (c.failure && !failure_)
    failure_ = c.failure;
  if (--choices_left_ == 0)
    is_over_ = true;
}

// Delivered with the only end, if it is a success. Compared bit for bit.
void client::check_embedding(const chunk& c) {
  const bool is_due = plan_.wants_embedding && c.finish == finish::stop;
  if (c.embedding != (is_due ? embedding_ : std::vector<float>()))
    report("an embedding of {} values that is not the fault-free run's", c.embedding.size());
}

// Delivered before all text, partly twice if a head has restarted. Compared bit for bit.
void client::take_prompt(const chunk& c) {
  auto& of = choices_[c.choice];
  if (c.prompt_from > of.scored)
    report("the prompt goes on with token {} after {}", c.prompt_from, of.scored);
  std::size_t place = c.prompt_from;
  for (const auto& d : c.prompt_details) {
    sample scored_token{d.chosen.token, d.chosen.logprob, {}};
    for (const auto& t : d.top)
      scored_token.top.push_back({t.token, t.logprob});
    if (place >= scores_.size() || scored_token != scores_[place])
      report("token {} of the prompt is scored otherwise than in the fault-free run", place);
    ++place;
  }
  of.scored = std::max(of.scored, place);
  const bool is_good_end = c.finish == finish::stop || c.finish == finish::length;
  if ((c.count > 0 || is_good_end) && of.scored != scores_.size())
    report("text behind {} of {} tokens of the prompt", of.scored, scores_.size());
}

void client::check_choice(const choice& c) {
  if (c.ids.size() > c.expected.size() ||
      !std::equal(c.ids.begin(), c.ids.end(), c.expected.begin()))
    report("other tokens than the fault-free run: {} of {}", c.ids.size(), c.expected.size());
  if (c.how != finish::stop && c.how != finish::length)
    return;
  if (c.ids.size() != c.expected.size())
    report("{} of {} tokens at the end", c.ids.size(), c.expected.size());
  if (c.how != c.how_expected)
    report("ended as {} instead of {}", static_cast<int>(c.how), static_cast<int>(c.how_expected));
}

void client::read() {
  std::size_t bytes = 0, events = 0;
  while (auto event = stream_->next()) {
    bytes += bytes_of(*event);
    ++events;
    if (is_over_)
      report("something after the last event");
    if (auto* c = std::get_if<chunk>(&*event)) {
      take(*c);
    } else if (auto* g = std::get_if<granted>(&*event)) {
      is_back_ = ticket_.has_value();
      ticket_ = *g;
    } else if (auto* r = std::get_if<rejected>(&*event)) {
      fail_stream(r->reason);
    } else if (auto* f = std::get_if<gateway::failed>(&*event)) {
      fail_stream(f->reason);
    }
  }
  if (events > 1 && bytes > plan_.buffer_bytes)
    report("{} bytes were kept for it, the bound is {}", bytes, plan_.buffer_bytes);
  if (events == 0)
    return;
  for (const auto& c : choices_)
    check_choice(c);
}

} // namespace baton::sim
