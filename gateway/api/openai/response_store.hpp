// Responses that are kept to be asked for later, and those that are made meanwhile in the
// background. In this process's memory and nowhere else; bounded by response_limits. Any thread.
#pragma once

#include "gateway/api/openai/responses_reply.hpp"
#include "gateway/config/config.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace baton::gateway {

// One of them. What it was asked never changes; its answer grows until it is over.
class kept_response {
public:
  kept_response(std::string owner, response_shape shape, reply_identity who, chat_prompt asked);

  const std::string id;
  const std::string owner; // name of the key that it belongs to; empty: nobody's
  const response_shape shape;
  const reply_identity who;
  const chat_prompt asked; // the conversation without instructions and answer

  // Of whoever makes it. Nothing is added once it is over.
  void add(const chunk& c);
  void fail(const error& e);
  void set_log(answer_log log); // all at once
  // `stop` is called when it is to be cancelled, from any thread.
  void on_cancel(std::function<void()> stop);

  bool is_over() const;
  bool has_failed() const;
  std::size_t bytes() const;
  std::string body() const;
  // The conversation with its answer.
  chat_prompt conversation() const;
  // No effect on one that is over.
  void cancel();

  struct news {
    std::vector<chunk> pieces;
    std::optional<error> failure; // behind them
  };
  // Pieces from this one on, at most pieces_at_once.
  news since(std::size_t piece) const;
  static constexpr std::size_t pieces_at_once = 256;
  // `wake` is called at each change, under a lock: it must return at once and not call back.
  void watch(const void* watcher, std::function<void()> wake);
  void unwatch(const void* watcher);

private:
  void wake_all(); // under the lock

  mutable std::mutex mutex_;
  answer_log log_;
  std::optional<error> failure_;
  std::function<void()> stop_;
  std::map<const void*, std::function<void()>> watchers_;
};

class response_store {
public:
  using instant = std::chrono::steady_clock::time_point;
  explicit response_store(const response_limits& limits) : limits_(limits) {}

  // Errors: overloaded (background_max run already, or nothing that could go is over).
  result<void> enter(std::shared_ptr<kept_response> one, instant now);
  // Null: there is none such of this owner's.
  std::shared_ptr<kept_response> find(std::string_view id, std::string_view owner, instant now);
  // True: it was there. One that still runs is cancelled.
  bool remove(std::string_view id, std::string_view owner, instant now);
  // Whether it is, or was not long ago, here for anybody: then nobody else may take it up.
  bool knows(std::string_view id, instant now);
  std::size_t size() const;

private:
  struct entry {
    std::shared_ptr<kept_response> one;
    std::uint64_t number = 0;          // in the order in which they came
    std::optional<instant> kept_until; // known once it is over
  };
  using entries = std::map<std::string, entry, std::less<>>;
  void sweep(instant now);
  std::size_t drop_oldest(instant now); // of those that are over; its bytes, 0: there is none
  void forget(entries::iterator which, instant now);

  const response_limits limits_;
  mutable std::mutex mutex_;
  entries entries_;
  std::map<std::string, instant, std::less<>> forgotten_; // and until when that is known
  std::uint64_t last_number_ = 0;
};

} // namespace baton::gateway
