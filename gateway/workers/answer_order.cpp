#include "gateway/workers/answer_order.hpp"

#include "schema/ensure.hpp"

#include <utility>

namespace baton::gateway {

void answer_order::enter(std::uint64_t request) {
  const bool is_new = positions_.emplace(request, ++entered_).second;
  ENSURE(is_new, "request {} comes twice", request);
  queue_.try_emplace(entered_);
}

bool answer_order::can_deliver(std::uint64_t request) const {
  const auto first = queue_.begin();
  return first != queue_.end() && first->second.empty() && first->first == positions_.at(request);
}

bool answer_order::hold(held piece) {
  const auto bytes = bytes_of(piece.event);
  if (bytes_ + bytes > held_answer_bytes_max)
    return false;
  bytes_ += bytes;
  queue_.at(positions_.at(piece.request)).push_back(std::move(piece));
  return true;
}

void answer_order::leave(std::uint64_t request) {
  const auto it = positions_.find(request);
  if (it == positions_.end())
    return;
  const auto at = queue_.find(it->second);
  for (const auto& one : at->second)
    bytes_ -= bytes_of(one.event);
  queue_.erase(at);
  positions_.erase(it);
}

std::optional<answer_order::held> answer_order::next() {
  if (queue_.empty() || queue_.begin()->second.empty())
    return std::nullopt;
  auto& first = queue_.begin()->second;
  auto piece = std::move(first.front());
  bytes_ -= bytes_of(piece.event);
  first.pop_front();
  return piece;
}

} // namespace baton::gateway
