#include "gateway/api/responses/response_store.hpp"

#include <algorithm>
#include <utility>

namespace baton::gateway {

kept_response::kept_response(std::string o, response_shape s, reply_identity w, chat_prompt a)
    : id(response_id(s, w)), owner(std::move(o)), shape(std::move(s)), who(std::move(w)),
      asked(std::move(a)) {}

void kept_response::wake_all() {
  for (const auto& [watcher, wake] : watchers_) {
    wake();
  }
}

void kept_response::add(const chunk& c) {
  const std::lock_guard lock(mutex_);
  if (!failure_) {
    log_.add(c);
    wake_all();
  }
}

void kept_response::fail(const error& e) {
  const std::lock_guard lock(mutex_);
  if (!failure_ && !log_.has_ended()) {
    failure_ = e;
    wake_all();
  }
}

void kept_response::set_log(answer_log log) {
  const std::lock_guard lock(mutex_);
  log_ = std::move(log);
  wake_all();
}

void kept_response::on_cancel(std::function<void()> stop) {
  const std::lock_guard lock(mutex_);
  stop_ = std::move(stop);
}

bool kept_response::is_over() const {
  const std::lock_guard lock(mutex_);
  return failure_ || log_.has_ended();
}

bool kept_response::has_failed() const {
  const std::lock_guard lock(mutex_);
  return failure_.has_value();
}

std::size_t kept_response::bytes() const {
  auto bytes = sizeof(kept_response) + shape.asked.size();
  for (const auto& m : asked) {
    bytes += sizeof m + m.role.size() + m.content.size() + m.tool_calls.size();
  }
  const std::lock_guard lock(mutex_);
  return bytes + log_.bytes();
}

std::string kept_response::body() const {
  const auto [log, failure] = [this] {
    const std::lock_guard lock(mutex_);
    return std::pair(log_, failure_);
  }();
  return response_body(shape, who, log, failure);
}

chat_prompt kept_response::conversation() const {
  const auto log = [this] {
    const std::lock_guard lock(mutex_);
    return log_;
  }();
  auto all = asked;
  all.push_back(answer_message(shape, who, log));
  return all;
}

void kept_response::cancel() {
  const std::lock_guard lock(mutex_);
  if (failure_ || log_.has_ended()) {
    return;
  }
  failure_ = baton::fail(errc::cancelled, "the response was cancelled");
  if (stop_) {
    stop_();
  }
  wake_all();
}

kept_response::news kept_response::since(std::size_t piece) const {
  const std::lock_guard lock(mutex_);
  news out;
  const auto end = std::min(log_.size(), piece + pieces_at_once);
  for (auto i = piece; i < end; ++i) {
    out.pieces.push_back(log_.piece(i));
  }
  if (end == log_.size()) {
    out.failure = failure_;
  }
  return out;
}

void kept_response::watch(const void* watcher, std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  watchers_[watcher] = std::move(wake);
}

void kept_response::unwatch(const void* watcher) {
  const std::lock_guard lock(mutex_);
  watchers_.erase(watcher);
}

void response_store::sweep(instant now) {
  for (auto it = entries_.begin(); it != entries_.end();) {
    auto& until = it->second.kept_until;
    if (!until && it->second.one->is_over()) {
      until = now + limits_.kept_for;
    }
    it = until && *until <= now ? entries_.erase(it) : std::next(it);
  }
  for (auto it = forgotten_.begin(); it != forgotten_.end();) {
    it = it->second <= now ? forgotten_.erase(it) : std::next(it);
  }
}

void response_store::forget(entries::iterator which, instant now) {
  if (forgotten_.size() >= limits_.responses_max) {
    forgotten_.erase(
        std::min_element(forgotten_.begin(), forgotten_.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; }));
  }
  forgotten_[which->first] = now + limits_.kept_for;
  entries_.erase(which);
}

bool response_store::knows(std::string_view id, instant now) {
  const std::lock_guard lock(mutex_);
  sweep(now);
  return entries_.contains(id) || forgotten_.contains(id);
}

std::size_t response_store::drop_oldest(instant now) {
  auto oldest = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    const bool is_older = oldest == entries_.end() || it->second.number < oldest->second.number;
    if (it->second.kept_until && is_older) {
      oldest = it;
    }
  }
  if (oldest == entries_.end()) {
    return 0;
  }
  const auto bytes = oldest->second.one->bytes();
  forget(oldest, now);
  return bytes;
}

result<void> response_store::enter(std::shared_ptr<kept_response> one, instant now) {
  const std::lock_guard lock(mutex_);
  sweep(now);
  std::size_t bytes = one->bytes();
  std::size_t running = 0;
  for (const auto& [id, e] : entries_) {
    bytes += e.one->bytes();
    running += e.kept_until ? 0 : 1;
  }
  if (!one->is_over() && running >= limits_.background_max) {
    return baton::fail(errc::overloaded, "{} responses are made in the background, the limit",
                       running);
  }
  while (!entries_.empty() &&
         (entries_.size() >= limits_.responses_max || bytes > limits_.bytes_max)) {
    const auto freed = drop_oldest(now);
    if (freed == 0) {
      return baton::fail(errc::overloaded,
                         "there is no room for one more response: the {} that are stored are still "
                         "made",
                         entries_.size());
    }
    bytes -= std::min(bytes, freed);
  }
  const auto id = one->id;
  entries_[id] = {std::move(one), ++last_number_, std::nullopt};
  return {};
}

std::shared_ptr<kept_response> response_store::find(std::string_view id, std::string_view owner,
                                                    instant now) {
  const std::lock_guard lock(mutex_);
  sweep(now);
  const auto it = entries_.find(id);
  return it != entries_.end() && it->second.one->owner == owner ? it->second.one : nullptr;
}

bool response_store::remove(std::string_view id, std::string_view owner, instant now) {
  const auto one = find(id, owner, now);
  if (!one) {
    return false;
  }
  one->cancel();
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(id);
  if (it == entries_.end() || it->second.one != one) {
    return false;
  }
  forget(it, now);
  return true;
}

std::size_t response_store::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

} // namespace baton::gateway
