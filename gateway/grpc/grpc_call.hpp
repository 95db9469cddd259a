// One open gRPC call: messages become requests, their events become messages, and it ends once.
// Output that the client does not read stays in the bounded streams of the requests. Only the event
// loop of the gRPC server calls it.
//
//   open --answer ended, an error, all input and output done--> ending --all written--> finished
//   any  --cancelled by the client or its deadline--> finished, tickets cancelled
#pragma once

#include "gateway/admission/open_requests.hpp"
#include "gateway/grpc/grpc_api.hpp"
#include "gateway/grpc/grpc_health.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace baton::gateway {

// State shared by all calls; outlives them.
struct grpc_world {
  admission& opener;
  const grpc_codec& codec;
};

class grpc_call {
public:
  using clock = reply_times::clock;

  // `wake` is called from any thread when the requests have events; look() must follow.
  grpc_call(grpc_world& world, grpc_service service, grpc_began began, std::function<void()> wake);
  ~grpc_call();
  grpc_call(const grpc_call&) = delete;
  grpc_call& operator=(const grpc_call&) = delete;

  void read(std::optional<std::string> message);
  void unread(); // in place of read: out of memory
  void written();
  void cancelled();
  void look();
  // Ends the call after one of these functions threw.
  void break_off(const error& why);
  // Sends the status of the service that the call watches, if it has changed.
  void watch();
  // Ends a call whose first message does not arrive in time.
  void expire(clock::time_point now);

private:
  struct answering {
    std::unique_ptr<grpc_answer> answer;
    std::string busy_model;
    std::function<void(const reply_times&)> ended_well;
    reply_times when;
  };
  struct member {
    open_requests open;
    answering how;
  };
  bool is_many() const noexcept { return method_->shape == grpc_shape::both_streams; }
  gateway_state& facts() const noexcept { return world_.opener.facts(); }
  void take(std::string_view message);
  void take_health(std::string_view message);
  void open(grpc_generate what);
  void open(grpc_worker_request what);
  void open(grpc_root_request what);
  void enter(open_results opened, answering how);
  // Limits `deadline` to the client's own, if that is sooner.
  void limit(std::chrono::milliseconds& deadline, clock::time_point now) const;
  // Handles the next events of one request. False: there are none.
  bool step();
  void take(std::size_t index, stream_event& event);
  void fail(grpc_answer& answer, const std::string& busy_model, rejected why);
  void advance();
  void note(const open_requests& open);
  void log() const;
  void end(grpc_status with); // after the pending output is written

  grpc_world& world_;
  const grpc_service service_;
  const grpc_head head_;
  grpc_call_handle* handle_; // null after finish
  const std::function<void()> wake_;
  const clock::time_point began_ = clock::now();
  const std::string request_id_;
  // For its record in the access log.
  std::string model_;
  std::optional<request_usage> usage_;
  std::uint64_t bytes_ = 0;
  const grpc_method* method_ = nullptr;
  principal who_;
  std::vector<member> requests_;
  std::size_t next_request_ = 0;   // the request to serve next
  std::deque<std::string> outbox_; // messages of the last events
  std::optional<grpc_status> ending_;
  std::optional<std::string> watched_;       // the service watched through grpc.health.v1
  std::optional<health_status> last_health_; // the last status sent for it
  bool has_received_ = false;                // a message
  bool is_input_complete_ = false;
  bool is_reading_ = false;
  bool is_writing_ = false;
  bool is_cancelled_ = false;
};

} // namespace baton::gateway
