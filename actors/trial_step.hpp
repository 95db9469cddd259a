// The head's own request of one token, while epochs keep failing and there is no other request.
// Only a successful step shows that the pipeline works again. Its answer is dropped. Pure.
#pragma once

#include "runtime/schedule/scheduler.hpp"

#include <optional>
#include <string>

namespace baton::actors {

class trial_step {
public:
  // Requires: an epoch is open, and `core` is idle.
  void begin(schedule::scheduler& core, const std::string& model, schedule::time_point now);
  bool is_of(std::optional<ticket_id> ticket) const { return ticket_ && ticket == ticket_; }
  // Drops its tokens, and forgets it once it has ended.
  void drop_tokens(std::vector<tokens>& all) const;
  void forget_ended(const schedule::scheduler& core);

private:
  std::optional<ticket_id> ticket_;
};

} // namespace baton::actors
