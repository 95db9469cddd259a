// Combines the requests of one call, one for each of its prompts, into one. Their choices are
// numbered through. A refusal of one refuses the call. Dropping this before the end cancels all
// that still run.
#pragma once

#include "gateway/admission/admission.hpp"
#include "gateway/base/access_log.hpp"
#include "gateway/request/field_names.hpp"

#include <functional>
#include <optional>
#include <vector>

namespace baton::gateway {

class open_requests {
public:
  // `choices`: per request. All have the same model. `names`: the client's names for fields of this
  // one.
  open_requests(open_request first, std::uint32_t choices, field_names names = {});
  // Requires: no event has been taken yet.
  void add(open_request further, field_names names = {});

  // The next event of any of them. Grants, or a refusal, come first. Errors have the client's
  // names.
  std::optional<stream_event> next();
  bool is_cut() const noexcept; // any of them
  // Cancels all that still run, even if their client could resume.
  void close(cancel_reason why) noexcept;
  const std::string& model() const noexcept { return all_.front().open.model(); }
  stream::instant begun_at() const noexcept { return all_.front().open.begun_at(); }
  // The usage in the events so far; empty: no language model was asked.
  const std::optional<request_usage>& usage() const noexcept { return usage_; }

private:
  struct member {
    open_request open;
    bool is_answered = false; // by a grant or a refusal
    std::uint32_t choices_left = 0;
    field_names names;
  };
  // Updates the member by the event; its choice becomes one of the call's.
  void record(std::size_t index, stream_event& e);

  std::vector<member> all_;
  std::optional<request_usage> usage_;
  std::uint32_t choices_;
  std::size_t unanswered_ = 0;
};

using open_results = open_result_of<open_requests>;
// A single request, or its refusal.
open_results one_of(open_result first, std::uint32_t choices, field_names names = {});
// Puts the client's field names into a refusal or a failure.
rejected in_client_terms(const field_names& names, rejected no);
void use_client_terms(const field_names& names, stream_event& e);

} // namespace baton::gateway
