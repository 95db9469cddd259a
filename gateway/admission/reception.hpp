// How a door opens requests: checks what can be known at once (draining, model, room), makes the
// stream and hands both to the front. The open_request it gives back tells it when the door
// leaves, whatever the reason. Whoever comes through whichever door, its key's quotas are asked
// here.
#pragma once

#include "gateway/base/stream_position.hpp"
#include "gateway/base/streams.hpp"
#include "gateway/dispatch/desk.hpp"
#include "gateway/state/board.hpp"
#include "schema/result.hpp"

#include <functional>
#include <memory>
#include <string>
#include <variant>

namespace baton::gateway {

// Owns a door's end of a stream. Dropped before the end: the ticket is cancelled at once, or kept
// for a while if the client has said that it would come back.
class open_request {
public:
  // `desk` hears if it is closed: the front, or a worker model's pool. `if_lost`: what dropping it
  // says of the client.
  open_request(actors::takes<close_request> desk, std::shared_ptr<stream> out, std::string model,
               cancel_reason if_lost = cancel_reason::client_gone);
  ~open_request();
  open_request(open_request&& other) noexcept;
  open_request& operator=(open_request&& other) noexcept;

  std::optional<stream_event> next(std::uint32_t tokens_max = UINT32_MAX) {
    return stream_->next(tokens_max);
  }
  bool is_cut() const noexcept { return stream_->is_cut(); }
  // When a worker had it; the epoch of the clock before, and of what no worker does.
  stream::instant begun_at() const noexcept { return stream_->begun_at(); }
  const std::string& model() const noexcept { return model_; } // the card's name
  // Its last event was seen: nothing is left to cancel.
  void ended() noexcept { is_ended_ = true; }
  // The client no longer wants it. Idempotent.
  void close(cancel_reason why) noexcept;

private:
  actors::takes<close_request> desk_;
  std::shared_ptr<stream> stream_;
  std::string model_;
  cancel_reason if_lost_ = cancel_reason::client_gone;
  bool is_ended_ = false;
};

// What a door gets that asks for one: the open request, or the refusal to tell its client.
template <class Open>
class opening_of {
public:
  opening_of(Open open) : state_(std::in_place_index<0>, std::move(open)) {}
  opening_of(rejected no) : state_(std::in_place_index<1>, std::move(no)) {}
  explicit operator bool() const noexcept { return state_.index() == 0; }
  Open& operator*() & { return std::get<0>(state_); }
  Open&& operator*() && { return std::get<0>(std::move(state_)); }
  Open* operator->() { return &std::get<0>(state_); }
  const rejected& refusal() const { return std::get<1>(state_); }

private:
  std::variant<Open, rejected> state_;
};
using opening = opening_of<open_request>;

// Of a worker model's answer that its client does not read: many small pieces, or few large ones.
inline constexpr std::size_t worker_answer_bytes_max = 8u << 20;

class reception {
public:
  // `door` is a label of /metrics: "http", "websocket", "zmq" or "grpc".
  reception(front_actor front, std::shared_ptr<board> facts, std::string door);

  // Refusals of all four: draining, not_ready, overloaded, model_not_found, unauthorized (the key
  // was taken away meanwhile); of all but resume rate_limit_exceeded; of open also invalid_value.
  // Each is counted.
  // The request's model becomes the name of its card. What one caller's requests leave in the
  // prefix cache, and how they are named, another's do not find: how long an answer takes would
  // tell what others asked.
  // `is_stream`: the client takes tokens as they come, and can go on behind them.
  opening open(const caller& who, generate request, bool add_generation_prompt, bool is_stream,
               std::function<void()> wake);
  // A client that comes back. `is_resumable`: it may do so again.
  opening resume(const caller& who, std::string_view model, stream_position from, bool is_resumable,
                 std::function<void()> wake);
  // Of `what` number and gateway are set here.
  opening tokenize(const caller& who, std::string_view model, baton::tokenize what,
                   std::function<void()> wake);
  opening detokenize(const caller& who, std::string_view model, std::vector<token_id> ids,
                     std::function<void()> wake);
  // A worker model: `inferred`, the last of which says so; or one rejected or failed in its place.
  // Refusals: draining, model_not_found, payload_too_large, invalid_value, overloaded,
  // unauthorized, rate_limit_exceeded. Unanswered beyond worker_answer_bytes_max, its client is
  // cut. `goes_alone`: its worker is given no other request with it.
  opening infer(const caller& who, baton::infer request, std::function<void()> wake,
                bool goes_alone = false);
  // A model of the repository: one model_changed, or failed in its place. Refusals: draining,
  // conflict (there is no repository), overloaded.
  opening change(const change_model& what, std::function<void()> wake);

  // What a door refuses itself, before it is a request: one span, if it is to be traced. `route`
  // has a method and a path of the table, or is empty.
  void trace_refusal(const caller& who, std::string route, int http_status);
  void trace_refusal(const caller& who, errc reason);

  board& facts() noexcept { return *facts_; }
  metrics& counts() noexcept { return facts_->metrics(); }
  const std::string& door() const noexcept { return door_; }

private:
  // Of an open request, entered at the board.
  struct admission {
    model_card card;
    std::shared_ptr<quota_lease> lease;
  };
  // `request` is looked at if there is one, and gets the model's defaults. `is_new`: no client that
  // comes back.
  std::variant<admission, rejected> admit(const caller& who, bool is_new, std::string_view model,
                                          generate* request);
  // Null for nobody. Refused if a quota is used up, or the key was taken away.
  std::variant<std::shared_ptr<quota_lease>, rejected> lease_for(const caller& who, bool is_new);
  // Counts it. `model`: as it was asked for.
  rejected refuse(error why, std::string_view model = {});
  rejected refuse_full(std::string_view model);
  std::shared_ptr<stream> new_stream(std::function<void()> wake);
  // Null: it is not traced.
  trace_handle trace_of(const caller& who);
  trace_handle trace_for(const caller& who, request_trace::operation asks, std::string_view model);

  front_actor front_;
  std::shared_ptr<board> facts_;
  std::string door_;
};

} // namespace baton::gateway
