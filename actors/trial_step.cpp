#include "actors/trial_step.hpp"

#include <variant>

namespace baton::actors {

void trial_step::begin(schedule::scheduler& core, const std::string& model,
                       schedule::time_point now) {
  reserve ask;
  ask.model = model;
  ask.tokens_estimate = 2;
  ask.was_admitted = true; // exempt from drain
  const auto answer = core.reserve(ask, now);
  const auto* to = std::get_if<granted>(&answer);
  if (to == nullptr)
    return;
  ticket_ = to->ticket;
  admit trial;
  trial.ticket = to->ticket;
  trial.prompt_ids = {0};
  trial.terms.sampling.temperature = 0;
  trial.terms.stop.max_tokens = 1;
  trial.terms.max_tokens_given = true;
  core.admit(trial, now);
}

void trial_step::drop_tokens(std::vector<tokens>& all) const {
  if (ticket_)
    std::erase_if(all, [&](const tokens& t) { return t.ticket == *ticket_; });
}

void trial_step::forget_ended(const schedule::scheduler& core) {
  if (ticket_ && !core.is_known(*ticket_))
    ticket_.reset();
}

} // namespace baton::actors
