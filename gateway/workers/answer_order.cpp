#include "gateway/workers/answer_order.hpp"

#include "schema/ensure.hpp"

#include <utility>

namespace baton::gateway {

void answer_order::enter(std::uint64_t request) {
  const bool is_new = places_.emplace(request, ++entered_).second;
  ENSURE(is_new, "request {} comes twice", request);
  line_.try_emplace(entered_);
}

bool answer_order::is_turn(std::uint64_t request) const {
  const auto first = line_.begin();
  return first != line_.end() && first->second.empty() && first->first == places_.at(request);
}

bool answer_order::hold(held piece) {
  const auto bytes = bytes_of(piece.event);
  if (bytes_ + bytes > held_answer_bytes_max)
    return false;
  bytes_ += bytes;
  line_.at(places_.at(piece.request)).push_back(std::move(piece));
  return true;
}

void answer_order::leave(std::uint64_t request) {
  const auto it = places_.find(request);
  if (it == places_.end())
    return;
  const auto at = line_.find(it->second);
  for (const auto& one : at->second)
    bytes_ -= bytes_of(one.event);
  line_.erase(at);
  places_.erase(it);
}

std::optional<answer_order::held> answer_order::next() {
  if (line_.empty() || line_.begin()->second.empty())
    return std::nullopt;
  auto& first = line_.begin()->second;
  auto piece = std::move(first.front());
  bytes_ -= bytes_of(piece.event);
  first.pop_front();
  return piece;
}

} // namespace baton::gateway
