#include "gateway/admission/open_requests.hpp"

#include <algorithm>
#include <utility>

namespace baton::gateway {

void say_in(const field_words& words, stream_event& e) {
  if (auto* no = std::get_if<rejected>(&e)) {
    no->reason = said_in(words, std::move(no->reason));
  } else if (auto* f = std::get_if<failed>(&e)) {
    f->reason = said_in(words, std::move(f->reason));
  } else if (auto* c = std::get_if<chunk>(&e); c && c->failure) {
    c->failure = said_in(words, *std::move(c->failure));
  }
}

rejected said_in(const field_words& words, rejected no) {
  no.reason = said_in(words, std::move(no.reason));
  return no;
}

open_requests::open_requests(open_request first, std::uint32_t choices, field_words words)
    : choices_(choices) {
  add(std::move(first), std::move(words));
}

void open_requests::add(open_request further, field_words words) {
  all_.push_back({std::move(further), false, choices_, std::move(words)});
  ++untold_;
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
  for (std::size_t place = 0; place < all_.size(); ++place) {
    auto& one = all_[place];
    if (untold_ > 0 && one.is_told) {
      continue;
    }
    if (auto event = one.open.next()) {
      take_note(place, *event);
      say_in(one.words, *event);
      return event;
    }
  }
  return std::nullopt;
}

void open_requests::take_note(std::size_t place, stream_event& e) {
  auto& one = all_[place];
  if (!std::exchange(one.is_told, true)) {
    --untold_;
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
    c->choice += static_cast<std::uint32_t>(place) * choices_;
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

openings one_of(opening first, std::uint32_t choices, field_words words) {
  if (!first) {
    return said_in(words, first.refusal());
  }
  return open_requests(*std::move(first), choices, std::move(words));
}

} // namespace baton::gateway
