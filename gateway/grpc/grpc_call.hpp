// One open call of gRPC: what comes in becomes requests, what they bring goes out a message at a
// time, and it ends once. What its client does not read stays in the requests' streams, which are
// bounded. The loop of the door calls it, and nobody else.
//
//   open --the answer's end, an error, all said and done--> ending --all is written--> finished
//   any  --the client or its deadline cancels--> finished, its tickets cancelled
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

// What all calls share; outlives them.
struct grpc_world {
  reception& desk;
  const grpc_codec& codec;
};

class grpc_call {
public:
  using clock = reply_times::clock;

  // `wake` is called from any thread when its requests have something: look() is due then.
  grpc_call(grpc_world& world, grpc_service service, grpc_began began, std::function<void()> wake);
  ~grpc_call();
  grpc_call(const grpc_call&) = delete;
  grpc_call& operator=(const grpc_call&) = delete;

  void read(std::optional<std::string> message);
  void unread(); // in place of read: memory did not suffice
  void written();
  void cancelled();
  void look();
  // What was thrown at one of these: the call ends with it.
  void break_off(const error& why);
  // Says how the service that it watches stands, if that has changed.
  void watch();
  // A client that says nothing holds a place.
  void expire(clock::time_point now);

private:
  struct telling {
    std::unique_ptr<grpc_answer> answer;
    std::string busy_model;
    std::function<void(const reply_times&)> ended_well;
    reply_times when;
  };
  struct member {
    open_requests open;
    telling how;
  };
  bool is_many() const noexcept { return method_->shape == grpc_shape::both_streams; }
  board& facts() const noexcept { return world_.desk.facts(); }
  void take(std::string_view message);
  void take_health(std::string_view message);
  void open(grpc_generate what);
  void open(grpc_ask_worker what);
  void open(grpc_ask_root what);
  void enter(openings opened, telling how);
  // By the client's own, if that is sooner.
  void limit(std::chrono::milliseconds& deadline, clock::time_point now) const;
  // The next events of one request. False: there are none.
  bool step();
  void take(std::size_t place, stream_event& event);
  void fail(grpc_answer& answer, const std::string& busy_model, rejected why);
  void go_on();
  void note(const open_requests& open);
  void log() const;
  void end(grpc_status with); // once what is to be written is

  grpc_world& world_;
  const grpc_service service_;
  const grpc_head head_;
  grpc_line* line_; // null once it is finished
  const std::function<void()> wake_;
  const clock::time_point began_ = clock::now();
  const std::string request_id_;
  // For its line in the access log.
  std::string model_;
  std::optional<request_usage> usage_;
  std::uint64_t bytes_ = 0;
  const grpc_method* method_ = nullptr;
  caller who_;
  std::vector<member> requests_;
  std::size_t turn_ = 0;           // which of them is asked next
  std::deque<std::string> outbox_; // what one event has brought
  std::optional<grpc_status> ending_;
  std::optional<std::string> watched_; // of grpc.health.v1
  std::optional<health_status> told_;  // of it, last
  bool has_heard_ = false;             // a message
  bool has_said_all_ = false;
  bool is_reading_ = false;
  bool is_writing_ = false;
  bool is_cancelled_ = false;
};

} // namespace baton::gateway
