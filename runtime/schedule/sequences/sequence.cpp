#include "runtime/schedule/sequences/sequence.hpp"

#include "schema/ensure.hpp"

#include <algorithm>

namespace baton::schedule {

void count_as_output(draw& d, token_id token) {
  if (d.sampling.has_watermark())
    d.previous = token;
  if (d.sampling.constraint)
    d.output.push_back(token);
  if (!d.sampling.needs_history())
    return;
  const auto it = std::find_if(d.history.begin(), d.history.end(),
                               [&](const token_count& c) { return c.token == token; });
  if (it == d.history.end())
    d.history.push_back({token, 0, 1});
  else
    ++it->in_output;
}

sequence::sequence(schedule::service_order when, std::span<const token_id> prompt_ids,
                   request_terms asked)
    : id(when.id), priority(when.priority), prompt_count(prompt_ids.size()),
      ids(prompt_ids.begin(), prompt_ids.end()), terms(std::move(asked)) {
  ENSURE(prompt_count > 0, "ticket {} has an empty prompt", id.ticket.value);
  for (const token_id token : ids)
    count(token, /*in_prompt=*/true);
}

void sequence::clear_if_computed() noexcept {
  if (computed < suspect_until)
    return;
  deaths = 0;
  is_isolated = false;
}

void sequence::append(token_id drawn) {
  ids.push_back(drawn);
  count(drawn, /*in_prompt=*/false);
}

void sequence::count(token_id token, bool in_prompt) {
  if (!terms.sampling.needs_history())
    return;
  const auto [known, is_new] = history_index_.try_emplace(token, history_.size());
  if (is_new)
    history_.push_back({token, 0, 0});
  token_count& c = history_[known->second];
  ++(in_prompt ? c.in_prompt : c.in_output);
}

draw sequence::next_draw(std::span<const token_id> eos_ids, std::size_t drafted) const {
  draw d;
  d.token_index = output_count() + drawing + static_cast<std::uint32_t>(drafted);
  d.sampling = terms.sampling;
  d.history = history_;
  if (terms.sampling.has_watermark())
    d.previous = ids.back();
  if (terms.sampling.constraint)
    d.output.assign(ids.begin() + static_cast<std::ptrdiff_t>(prompt_count), ids.end());
  for (const token_id token : std::span(drafts).first(drafted))
    count_as_output(d, token);
  if (d.token_index < terms.stop.min_tokens) {
    d.banned = terms.stop.stop_ids;
    if (!terms.stop.ignore_eos)
      d.banned.insert(d.banned.end(), eos_ids.begin(), eos_ids.end());
  }
  return d;
}

bool sequence::is_end(token_id token, std::uint32_t index,
                      std::span<const token_id> eos_ids) const {
  const auto has = [token](std::span<const token_id> set) {
    return std::find(set.begin(), set.end(), token) != set.end();
  };
  return index >= terms.stop.min_tokens &&
         (has(terms.stop.stop_ids) || (!terms.stop.ignore_eos && has(eos_ids)));
}

} // namespace baton::schedule
