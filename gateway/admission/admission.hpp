// Opens requests for the servers: checks what is known at once (draining, model, room, the key's
// quotas), makes the stream, and sends both to the router. The open_request that it returns
// notifies the router when the server drops it, for whatever reason.
#pragma once

#include "gateway/base/stream_position.hpp"
#include "gateway/base/streams.hpp"
#include "gateway/dispatch/pipeline_client.hpp"
#include "gateway/state/gateway_state.hpp"
#include "schema/result.hpp"

#include <functional>
#include <memory>
#include <string>
#include <variant>

namespace baton::gateway {

// Owns the server's end of a stream. If it is dropped before the end, the ticket is cancelled at
// once, or kept for a while if the client announced that it may resume.
class open_request {
public:
  // `owner` is notified if it is closed: the router, or a worker model's pool. `if_lost`: the
  // reason if it is dropped.
  open_request(actors::takes<close_request> owner, std::shared_ptr<stream> out, std::string model,
               cancel_reason if_lost = cancel_reason::client_gone);
  ~open_request();
  open_request(open_request&& other) noexcept;
  open_request& operator=(open_request&& other) noexcept;

  std::optional<stream_event> next(std::uint32_t max_tokens = UINT32_MAX) {
    return stream_->next(max_tokens);
  }
  bool is_cut() const noexcept { return stream_->is_cut(); }
  // When a worker began it. Before that, and without a worker: the epoch of the clock.
  stream::instant begun_at() const noexcept { return stream_->begun_at(); }
  const std::string& model() const noexcept { return model_; } // the card's name
  // Its last event was seen: nothing is left to cancel.
  void ended() noexcept { is_ended_ = true; }
  // The client no longer wants it. Idempotent.
  void close(cancel_reason why) noexcept;

private:
  actors::takes<close_request> owner_;
  std::shared_ptr<stream> stream_;
  std::string model_;
  cancel_reason if_lost_ = cancel_reason::client_gone;
  bool is_ended_ = false;
};

// The result of opening a request: the open request, or the refusal for its client.
template <class Open>
class open_result_of {
public:
  open_result_of(Open open) : state_(std::in_place_index<0>, std::move(open)) {}
  open_result_of(rejected no) : state_(std::in_place_index<1>, std::move(no)) {}
  explicit operator bool() const noexcept { return state_.index() == 0; }
  Open& operator*() & { return std::get<0>(state_); }
  Open&& operator*() && { return std::get<0>(std::move(state_)); }
  Open* operator->() { return &std::get<0>(state_); }
  const rejected& refusal() const { return std::get<1>(state_); }

private:
  std::variant<Open, rejected> state_;
};
using open_result = open_result_of<open_request>;

// The bound of a worker model's unread answer: many small pieces, or few large ones.
inline constexpr std::size_t worker_answer_bytes_max = 8u << 20;

class admission {
public:
  // `protocol` is a label of /metrics: "http", "websocket", "zmq" or "grpc".
  admission(request_router_actor router, std::shared_ptr<gateway_state> facts,
            std::string protocol);

  // Refusals of all four: draining, not_ready, overloaded, model_not_found, unauthorized (the key
  // was revoked); except for resume also rate_limit_exceeded; for open also invalid_value. Each is
  // counted.
  // The request's model becomes the name of its card. Principals do not share cached prefixes or
  // request ids: the time of an answer would reveal what others asked.
  // `is_stream`: the client takes tokens as they come, and can resume after them.
  open_result open(const principal& who, generate request, bool add_generation_prompt,
                   bool is_stream, std::function<void()> wake);
  // For a client that resumes. `is_resumable`: it may do so again.
  open_result resume(const principal& who, std::string_view model, stream_position from,
                     bool is_resumable, std::function<void()> wake);
  // The number and the gateway of `what` are set later.
  open_result tokenize(const principal& who, std::string_view model, baton::tokenize what,
                       std::function<void()> wake);
  open_result detokenize(const principal& who, std::string_view model, std::vector<token_id> ids,
                         std::function<void()> wake);
  // For a worker model: `inferred` events up to `is_last`, or one rejected or failed instead.
  // Refusals: draining, model_not_found, payload_too_large, invalid_value, overloaded,
  // unauthorized, rate_limit_exceeded. A client that leaves more than worker_answer_bytes_max
  // unread is cut. `goes_alone`: its batch has no other request.
  open_result infer(const principal& who, baton::infer request, std::function<void()> wake,
                    bool goes_alone = false);
  // For a model of the repository: one model_changed, or failed instead. Refusals: draining,
  // conflict (there is no repository).
  open_result change(const change_model& what, std::function<void()> wake);

  // Traces a request that a server refuses unread: one span, if it is traced. `route` has a method
  // and a path of the table, or is empty.
  void trace_refusal(const principal& who, std::string route, int http_status);
  void trace_refusal(const principal& who, errc reason);

  gateway_state& facts() noexcept { return *facts_; }
  metrics& counts() noexcept { return facts_->metrics(); }
  const std::string& protocol() const noexcept { return protocol_; }

private:
  // An open request, counted in the gateway's state.
  struct admitted_request {
    model_card card;
    std::shared_ptr<quota_lease> lease;
  };
  // Checks `request`, if there is one, and gives it the model's defaults. `is_new`: not resumed.
  std::variant<admitted_request, rejected> admit(const principal& who, bool is_new,
                                                 std::string_view model, generate* request);
  // Null: anonymous. Refused if a quota is used up, or the key was revoked.
  std::variant<std::shared_ptr<quota_lease>, rejected> lease_for(const principal& who, bool is_new);
  // Counts it. `model`: the requested name.
  rejected refuse(error why, std::string_view model = {});
  rejected refuse_full(std::string_view model);
  std::shared_ptr<stream> new_stream(std::function<void()> wake);
  // Null: not traced.
  trace_handle trace_of(const principal& who);
  trace_handle trace_for(const principal& who, request_trace::operation asks,
                         std::string_view model);

  request_router_actor router_;
  std::shared_ptr<gateway_state> facts_;
  std::string protocol_;
};

} // namespace baton::gateway
