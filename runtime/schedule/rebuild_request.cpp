// Rebuilds reserve and submit of a ticket, for a gateway that did not create it: the gateway that
// did may be gone.
#include "runtime/schedule/scheduler.hpp"

#include <algorithm>
#include <limits>

namespace baton::schedule {

std::optional<scheduler::recovered> scheduler::rebuild_request(const baton::resume& to,
                                                               time_point now) {
  const ticket* const found = tickets_.find(to.ticket);
  if (!found || !found->is_admitted)
    return std::nullopt;
  const ticket& t = *found;
  recovered all;
  auto& r = all.reserve;
  r.request = to.request;
  r.gateway = to.gateway;
  r.choices = t.choices;
  r.tokens_estimate = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(t.tokens_estimate, std::numeric_limits<std::uint32_t>::max()));
  r.priority = t.priority;
  r.resume_key = t.resume_key;
  r.is_resumable = t.is_resumable;
  r.ticket = to.ticket;
  auto& s = all.submit;
  s.request = to.request;
  s.gateway = to.gateway;
  s.ticket = to.ticket;
  s.begins_text = !t.continues_prompt;
  s.reasoning = t.reasoning;
  s.begins_in_reasoning = t.begins_in_reasoning;
  s.delivered.assign(t.choices, {{}, /*is_over=*/true});
  bool is_any_open = false;
  sequences_.for_choices(t.priority, to.ticket, [&](const sequence& of) {
    if (of.state == sequence_state::ended)
      return;
    const auto prompt_end = of.ids.begin() + static_cast<std::ptrdiff_t>(of.prompt_count);
    if (!std::exchange(is_any_open, true)) {
      s.input = ids_prompt(of.ids.begin(), prompt_end);
      s.terms = of.terms;
      s.terms.sampling.seed -= of.id.choice;
    }
    const auto had = std::min(to.from[of.id.choice].index, of.output_count());
    s.delivered[of.id.choice] = {{prompt_end, prompt_end + had}, false};
  });
  if (t.deadline)
    s.terms.deadline =
        std::max(std::chrono::milliseconds(1),
                 std::chrono::duration_cast<std::chrono::milliseconds>(*t.deadline - now));
  return is_any_open ? std::optional(std::move(all)) : std::nullopt;
}

} // namespace baton::schedule
