// How a door opens requests: checks what can be known at once (draining, model, room), makes the
// stream and hands both to the desk. The open_request it gives back tells the desk when the door
// leaves, whatever the reason.
#pragma once

#include "gateway/board.hpp"
#include "gateway/desk.hpp"
#include "gateway/stream_position.hpp"
#include "gateway/streams.hpp"
#include "schema/result.hpp"

#include <functional>
#include <memory>
#include <string>

namespace baton::gateway {

// Owns a door's end of a stream. Dropped before the end: the ticket is cancelled at once, or kept
// for a while if the client has said that it would come back.
class open_request {
public:
  // `if_lost`: what dropping it says of the client.
  open_request(desk_actor desk, std::shared_ptr<stream> out, std::string model,
               cancel_reason if_lost = cancel_reason::client_gone);
  ~open_request();
  open_request(open_request&& other) noexcept;
  open_request& operator=(open_request&& other) noexcept;

  std::optional<stream_event> next(std::uint32_t tokens_max = UINT32_MAX) {
    return stream_->next(tokens_max);
  }
  bool is_cut() const noexcept { return stream_->is_cut(); }
  const std::string& model() const noexcept { return model_; } // the card's name
  // Its last event was seen: nothing is left to cancel.
  void ended() noexcept { is_ended_ = true; }
  // The client no longer wants it. Idempotent.
  void close(cancel_reason why) noexcept;

private:
  desk_actor desk_;
  std::shared_ptr<stream> stream_;
  std::string model_;
  cancel_reason if_lost_ = cancel_reason::client_gone;
  bool is_ended_ = false;
};

class reception {
public:
  // `door` is a label of /metrics: "http", "websocket" or "zmq".
  reception(desk_actor desk, std::shared_ptr<board> facts, std::string door);

  // Errors of all three: draining, not_ready, overloaded, model_not_found; of open also
  // invalid_value and template_failed. Each is counted.
  // The request's model becomes the name of its card.
  // `is_stream`: the client takes tokens as they come, and can go on behind them.
  result<open_request> open(generate request, bool add_generation_prompt, bool is_stream,
                            std::function<void()> wake);
  // A client that comes back. `is_resumable`: it may do so again.
  result<open_request> resume(std::string_view model, stream_position from, bool is_resumable,
                              std::function<void()> wake);
  result<open_request> tokenize(std::string_view model, prompt input, bool add_generation_prompt,
                                std::function<void()> wake);
  result<open_request> detokenize(std::string_view model, std::vector<token_id> ids,
                                  std::function<void()> wake);

  board& facts() noexcept { return *facts_; }
  metrics& counts() noexcept { return facts_->metrics(); }
  const std::string& door() const noexcept { return door_; }

private:
  // `request` is looked at if there is one.
  result<model_card> admit(std::string_view model, const generate* request);
  // Counts it.
  error refuse(error why);
  std::shared_ptr<stream> new_stream(std::function<void()> wake);

  desk_actor desk_;
  std::shared_ptr<board> facts_;
  std::string door_;
};

} // namespace baton::gateway
