// Stored responses, and those generated in the background. In this process's memory only; bounded
// by response_limits. Any thread.
#pragma once

#include "gateway/api/responses/responses_reply.hpp"
#include "gateway/config/config.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace baton::gateway {

// One response. Its request is constant; its answer grows until it is complete.
class kept_response {
public:
  kept_response(std::string owner, response_shape shape, reply_identity who, chat_prompt asked);

  const std::string id;
  const std::string owner; // name of its key; empty: anonymous
  const response_shape shape;
  const reply_identity who;
  const chat_prompt asked; // the conversation without instructions and answer

  // For the producer of the answer. No effect once it is complete.
  void add(const chunk& c);
  void fail(const error& e);
  void set_log(answer_log log); // the whole answer at once
  // `stop` is called on a cancel, from any thread.
  void on_cancel(std::function<void()> stop);

  bool is_over() const;
  bool has_failed() const;
  std::size_t bytes() const;
  std::string body() const;
  // The conversation including its answer.
  chat_prompt conversation() const;
  // No effect on a complete response.
  void cancel();

  struct news {
    std::vector<chunk> pieces;
    std::optional<error> failure; // after the pieces
  };
  // Pieces from index `piece` on, at most pieces_at_once.
  news since(std::size_t piece) const;
  static constexpr std::size_t pieces_at_once = 256;
  // `wake` is called at each change, under a lock: it must return at once and must not call back.
  void watch(const void* watcher, std::function<void()> wake);
  void unwatch(const void* watcher);

private:
  void wake_all(); // requires the lock

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

  // Errors: overloaded (background_max already run, or no complete response can be dropped).
  result<void> enter(std::shared_ptr<kept_response> one, instant now);
  // Null: this owner has no such response.
  std::shared_ptr<kept_response> find(std::string_view id, std::string_view owner, instant now);
  // True: it existed. A running response is cancelled.
  bool remove(std::string_view id, std::string_view owner, instant now);
  // True if any owner has, or recently had, this id: no other client may reconnect to it.
  bool knows(std::string_view id, instant now);
  std::size_t size() const;

private:
  struct entry {
    std::shared_ptr<kept_response> one;
    std::uint64_t number = 0;          // order of arrival
    std::optional<instant> kept_until; // set once it is complete
  };
  using entries = std::map<std::string, entry, std::less<>>;
  void sweep(instant now);
  std::size_t drop_oldest(instant now); // among complete ones; returns its bytes, 0: none
  void forget(entries::iterator which, instant now);

  const response_limits limits_;
  mutable std::mutex mutex_;
  entries entries_;
  std::map<std::string, instant, std::less<>> forgotten_; // ids, known until then
  std::uint64_t last_number_ = 0;
};

} // namespace baton::gateway
