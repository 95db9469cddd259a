#include "gateway/admission/open_requests.hpp"

#include <algorithm>
#include <utility>

namespace baton::gateway {

void use_client_terms(const field_names& names, stream_event& e) {
  if (auto* no = std::get_if<rejected>(&e)) {
    no->reason = in_client_terms(names, std::move(no->reason));
  } else if (auto* f = std::get_if<failed>(&e)) {
    f->reason = in_client_terms(names, std::move(f->reason));
  } else if (auto* c = std::get_if<chunk>(&e); c && c->failure) {
    c->failure = in_client_terms(names, *std::move(c->failure));
  }
}

rejected in_client_terms(const field_names& names, rejected no) {
  no.reason = in_client_terms(names, std::move(no.reason));
  return no;
}

open_requests::open_requests(open_request first, std::uint32_t choices, field_names names)
    : choices_(choices) {
  add(std::move(first), std::move(names));
}

void open_requests::add(open_request further, field_names names) {
  all_.push_back({std::move(further), false, choices_, std::move(names)});
  ++unanswered_;
}

bool open_requests::is_cut() const noexcept {
  return std::any_of(all_.begin(), all_.end(), [](const member& m) { return m.open.is_cut(); });
}

void open_requests::close(cancel_reason why) noexcept {
  for (auto& one : all_) {
    one.open.close(why);
  }
}

// Until all have answered, only the others are read. Further events stay in their streams, which
// are bounded.
std::optional<stream_event> open_requests::next() {
  for (std::size_t index = 0; index < all_.size(); ++index) {
    auto& one = all_[index];
    if (unanswered_ > 0 && one.is_answered) {
      continue;
    }
    if (auto event = one.open.next()) {
      record(index, *event);
      use_client_terms(one.names, *event);
      return event;
    }
  }
  return std::nullopt;
}

void open_requests::record(std::size_t index, stream_event& e) {
  auto& one = all_[index];
  if (!std::exchange(one.is_answered, true)) {
    --unanswered_;
  }
  if (auto* c = std::get_if<chunk>(&e)) {
    auto& used = usage_ ? *usage_ : usage_.emplace();
    used.output_tokens += c->count;
    if (c->finish != finish::none && c->choice == 0) {
      used.prompt_tokens += c->prompt_tokens;
    }
    if (c->finish != finish::none && one.choices_left > 0 && --one.choices_left == 0) {
      one.open.ended();
    }
    c->choice += static_cast<std::uint32_t>(index) * choices_;
  } else if (const auto* piece = std::get_if<inferred>(&e)) {
    if (piece->is_last) {
      one.open.ended();
    }
  } else if (const auto* g = std::get_if<granted>(&e)) {
    if (!usage_) {
      usage_.emplace().ticket = g->ticket;
    }
  } else { // refused or failed
    one.open.ended();
  }
}

open_results one_of(open_result first, std::uint32_t choices, field_names names) {
  if (!first) {
    return in_client_terms(names, first.refusal());
  }
  return open_requests(*std::move(first), choices, std::move(names));
}

} // namespace baton::gateway
