// The requests that one call is made of, one for each of its prompts, as one: their choices are
// counted on through all of them. Any that is refused refuses the call, and whoever drops this
// before the end cancels all that still run.
#pragma once

#include "gateway/admission/reception.hpp"
#include "gateway/base/access_log.hpp"
#include "gateway/base/field_words.hpp"

#include <functional>
#include <optional>
#include <vector>

namespace baton::gateway {

class open_requests {
public:
  // `choices`: of each of them. All are of the same model. `words`: what the client calls fields of
  // this one.
  open_requests(open_request first, std::uint32_t choices, field_words words = {});
  // Requires: nothing has been taken yet.
  void add(open_request further, field_words words = {});

  // The next event of any of them; the grants, or a refusal, before all others. Errors have the
  // client's words.
  std::optional<stream_event> next();
  bool is_cut() const noexcept; // any of them
  // Nobody wants those that still run, whoever could come back to them.
  void close(cancel_reason why) noexcept;
  const std::string& model() const noexcept { return all_.front().open.model(); }
  stream::instant begun_at() const noexcept { return all_.front().open.begun_at(); }
  // Of what next() has given; none: no language model was asked.
  const std::optional<request_usage>& usage() const noexcept { return usage_; }

private:
  struct member {
    open_request open;
    bool is_told = false; // that it is granted, or is not
    std::uint32_t choices_left = 0;
    field_words words;
  };
  // What the event says of the member's life; its choice becomes one of the call's.
  void take_note(std::size_t place, stream_event& e);

  std::vector<member> all_;
  std::optional<request_usage> usage_;
  std::uint32_t choices_;
  std::size_t untold_ = 0;
};

using openings = opening_of<open_requests>;
// One alone, or its refusal.
openings one_of(opening first, std::uint32_t choices, field_words words = {});
// What is refused or has failed, in the client's words.
rejected said_in(const field_words& words, rejected no);
void say_in(const field_words& words, stream_event& e);

} // namespace baton::gateway
