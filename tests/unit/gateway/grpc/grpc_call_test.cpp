// The events of a gRPC call: one end each, no read beyond its capacity, tickets cancelled at once.
// No threads, no connection.
#include "gateway/grpc/grpc_call.hpp"
#include "gateway/grpc/library/codec.hpp"
#include "tests/unit/gateway/dispatch/request_router_world.hpp"

#include "health.pb.h"
#include "kserve.pb.h"
#include <doctest/doctest.h>

using namespace baton;
using namespace baton::gateway;

namespace {

struct fake_line final : grpc_call_handle {
  int reads = 0, cancels = 0, ends = 0;
  std::vector<std::string> writes;
  grpc_status end;
  grpc_metadata initial;
  void greet(const grpc_metadata& with) override { initial = with; }
  void read() override { ++reads; }
  void write(std::string bytes) override { writes.push_back(std::move(bytes)); }
  void finish(const grpc_status& with) override {
    ++ends;
    end = with;
  }
  void cancel() override { ++cancels; }
  bool ended_with(grpc_code code) const { return ends == 1 && end.code == static_cast<int>(code); }
};

// "m" is ready, at a head that sends nothing by itself.
struct grpc_call_world : at_pipeline_client::request_router_world {
  admission opener;
  grpc_world shared;
  int wakes = 0;

  grpc_call_world()
      : request_router_world({"m"}),
        opener(all.router, facts, "grpc"), shared{opener, protobuf_codec()} {}

  std::unique_ptr<grpc_call> begin(fake_line& handle, std::string_view name,
                                   std::chrono::milliseconds time_left = {}) {
    grpc_head head;
    head.method = name.starts_with('/') ? std::string(name)
                                        : fmt::format("/inference.GRPCInferenceService/{}", name);
    head.time_left = time_left;
    return std::make_unique<grpc_call>(shared, grpc_service::kserve, grpc_began{head, &handle},
                                       [this] { ++wakes; });
  }
  void grant(ticket_id ticket) {
    time.run();
    REQUIRE_FALSE(logs[0]->reserves.empty());
    const auto& asked = logs[0]->reserves.back();
    deliver(0, granted{asked.request, ticket, epoch_id{1}, asked.resume_key});
  }
  void send_chunk(std::string text, ticket_id ticket, std::uint32_t index,
                  finish how = finish::none) {
    chunk c;
    c.request = logs[0]->reserves.back().request;
    c.ticket = ticket;
    c.index = index;
    c.count = 1;
    c.text = std::move(text);
    c.finish = how;
    deliver(0, chunks{{c}, {}});
  }
  std::size_t cancels() {
    time.run();
    return logs[0]->cancels.size();
  }
};

inference::ModelInferRequest call_request(const std::string& text, bool is_stream = false) {
  inference::ModelInferRequest r;
  r.set_model_name("m");
  auto& input = *r.add_inputs();
  input.set_name("text_input");
  input.set_datatype("BYTES");
  input.add_shape(1);
  input.mutable_contents()->add_bytes_contents(text);
  if (is_stream) {
    auto& stream = *r.add_inputs();
    stream.set_name("stream");
    stream.set_datatype("BOOL");
    stream.add_shape(1);
    stream.mutable_contents()->add_bool_contents(true);
  }
  return r;
}

std::string wrong_request() {
  auto r = call_request("x");
  r.set_model_name("other");
  return r.SerializeAsString();
}

constexpr ticket_id call_ticket{77};

} // namespace

TEST_CASE_FIXTURE(grpc_call_world, "a call without a message, or of no method, ends once") {
  fake_line handle;
  auto call = begin(handle, "ModelInfer");
  CHECK(handle.reads == 1);
  call->read(std::nullopt);
  CHECK(handle.ended_with(grpc_code::invalid_argument));
  call->cancelled();
  call->look();
  CHECK(handle.ends == 1);
  fake_line other;
  auto none = begin(other, "Nope");
  CHECK(other.reads == 0);
  CHECK(other.ended_with(grpc_code::unimplemented));
  none->cancelled();
  CHECK(other.ends == 1);
  fake_line missing;
  auto memory = begin(missing, "SystemSharedMemoryStatus");
  CHECK(missing.ended_with(grpc_code::unimplemented));
  CHECK(missing.end.message.find("SystemSharedMemoryStatus") != std::string::npos);
}

TEST_CASE_FIXTURE(grpc_call_world, "a silent call times out, a stream does not") {
  fake_line handle, stream;
  auto call = begin(handle, "ModelInfer");
  auto many = begin(stream, "ModelStreamInfer");
  const auto late = grpc_call::clock::now() + std::chrono::hours(1);
  call->expire(grpc_call::clock::now());
  CHECK(handle.ends == 0);
  call->expire(late);
  many->expire(late);
  CHECK(handle.ended_with(grpc_code::deadline_exceeded));
  CHECK(stream.ends == 0);
  many->read(std::nullopt);
  CHECK(stream.ended_with(grpc_code::ok));
}

TEST_CASE_FIXTURE(grpc_call_world, "an immediate answer is one message and the end") {
  fake_line handle;
  auto call = begin(handle, "ServerLive");
  call->read(std::string());
  REQUIRE(handle.writes.size() == 1);
  CHECK(handle.ends == 0);
  call->written();
  CHECK(handle.ended_with(grpc_code::ok));
}

TEST_CASE_FIXTURE(grpc_call_world, "an answer is written once complete, and the call ends") {
  fake_line handle;
  auto call = begin(handle, "ModelInfer", std::chrono::seconds(5));
  call->read(call_request("hello").SerializeAsString());
  grant(call_ticket);
  REQUIRE(logs[0]->submits.size() == 1);
  CHECK(logs[0]->submits[0].terms.deadline > std::chrono::milliseconds(0)); // the client's
  CHECK(logs[0]->submits[0].terms.deadline <= std::chrono::seconds(5));
  send_chunk("a", call_ticket, 1);
  call->look();
  CHECK(handle.writes.empty());
  send_chunk("b", call_ticket, 2, finish::stop);
  CHECK(wakes > 0);
  call->look();
  CHECK(handle.writes.size() == 1);
  call->written();
  CHECK(handle.ended_with(grpc_code::ok));
  CHECK(cancels() == 0);
}

TEST_CASE_FIXTURE(grpc_call_world,
                  "a stream has one write in flight, and reads the next request meanwhile") {
  fake_line handle;
  auto call = begin(handle, "ModelStreamInfer");
  call->read(call_request("hello", /*is_stream=*/true).SerializeAsString());
  CHECK(handle.reads == 2);
  grant(call_ticket);
  send_chunk("a", call_ticket, 1);
  call->look();
  send_chunk("b", call_ticket, 2, finish::stop);
  call->look();
  CHECK(handle.writes.size() == 1);
  call->read(std::nullopt); // all is produced, not all is written
  call->written();
  CHECK(handle.writes.size() == 2);
  CHECK(handle.ends == 0);
  call->written();
  CHECK(handle.ended_with(grpc_code::ok));
}

TEST_CASE_FIXTURE(grpc_call_world, "pieces that arrive during a write go out together") {
  fake_line handle;
  auto call = begin(handle, "ModelStreamInfer");
  call->read(call_request("hello", /*is_stream=*/true).SerializeAsString());
  grant(call_ticket);
  send_chunk("a", call_ticket, 1);
  call->look();
  for (std::uint32_t index = 2; index < 6; ++index)
    send_chunk("b", call_ticket, index);
  call->look();
  CHECK(handle.writes.size() == 1);
  call->written();
  CHECK(handle.writes.size() == 2);
  CHECK(handle.writes[1].find("bbbb") != std::string::npos);
  call->written();
  send_chunk("c", call_ticket, 6, finish::stop);
  call->look();
  CHECK(handle.writes.size() == 3);
}

TEST_CASE_FIXTURE(grpc_call_world,
                  "a cancelled call cancels its ticket at once, and ends after its write") {
  fake_line handle;
  auto call = begin(handle, "ModelStreamInfer");
  call->read(call_request("hello", /*is_stream=*/true).SerializeAsString());
  grant(call_ticket);
  send_chunk("a", call_ticket, 1);
  call->look();
  REQUIRE(handle.writes.size() == 1);
  call->cancelled();
  CHECK(cancels() == 1);
  CHECK(handle.ends == 0);
  call->written();
  CHECK(handle.ended_with(grpc_code::cancelled));
  call->read(std::nullopt);
  CHECK(handle.ends == 1);
}

TEST_CASE_FIXTURE(grpc_call_world, "a refusal ends a call, but is a message of a stream") {
  fake_line handle;
  auto call = begin(handle, "ModelInfer");
  call->read(wrong_request());
  CHECK(handle.ended_with(grpc_code::not_found));
  fake_line other;
  auto stream = begin(other, "ModelStreamInfer");
  stream->read(wrong_request());
  CHECK(other.writes.size() == 1);
  stream->read(wrong_request());
  CHECK(other.writes.size() == 1);
  CHECK(other.reads == 2); // no further reads while an error waits
  stream->written();
  CHECK(other.writes.size() == 2);
  CHECK(other.reads == 3);
  CHECK(other.ends == 0);
}

TEST_CASE_FIXTURE(grpc_call_world, "a failure after the ticket ends the call with its status") {
  fake_line handle;
  auto call = begin(handle, "ModelInfer");
  call->read(call_request("hello").SerializeAsString());
  grant(call_ticket);
  chunk c;
  c.request = logs[0]->reserves.back().request;
  c.ticket = call_ticket;
  c.finish = finish::failed;
  c.failure = fail(errc::quarantined, "poison");
  deliver(0, chunks{{c}, {}});
  call->look();
  CHECK(handle.writes.empty());
  CHECK(handle.ended_with(grpc_code::internal));
  CHECK(handle.end.message == "poison");
}

TEST_CASE_FIXTURE(grpc_call_world,
                  "a client that does not read is cut off, with the current write") {
  fake_line handle;
  auto call = begin(handle, "ModelStreamInfer");
  call->read(call_request("hello", /*is_stream=*/true).SerializeAsString());
  grant(call_ticket);
  send_chunk("a", call_ticket, 1);
  call->look();
  const std::string much(facts->config().stream_buffer_max_bytes / 2, 'x');
  for (std::uint32_t i = 2; i < 6; ++i) {
    send_chunk(much, call_ticket, i);
  }
  call->look();
  CHECK(handle.cancels == 1);
  CHECK(handle.writes.size() == 1);
}

TEST_CASE_FIXTURE(grpc_call_world, "the open requests of one call are limited") {
  fake_line handle;
  auto call = begin(handle, "ModelStreamInfer");
  const auto most = facts->config().grpc_bounds.requests_per_call_max;
  for (std::size_t i = 0; i < most; ++i) {
    CHECK(handle.reads == static_cast<int>(i) + 1);
    call->read(call_request("hello").SerializeAsString());
  }
  CHECK(handle.reads == static_cast<int>(most)); // until one of them has ended
  CHECK(facts->requests_open() == most);
}

TEST_CASE_FIXTURE(grpc_call_world,
                  "a watcher of a service gets each change once, and the call does not end") {
  using grpc::health::v1::HealthCheckResponse;
  const auto read_chunk = [](const std::string& bytes) {
    HealthCheckResponse m;
    REQUIRE(m.ParseFromString(bytes));
    return m.status();
  };
  fake_line handle;
  auto call = begin(handle, "/grpc.health.v1.Health/Watch");
  grpc::health::v1::HealthCheckRequest asked;
  asked.set_service("m");
  call->read(asked.SerializeAsString());
  REQUIRE(handle.writes.size() == 1);
  CHECK(read_chunk(handle.writes[0]) == HealthCheckResponse::SERVING);
  lose(0); // while the client does not read
  report_ready(0);
  lose(0);
  call->watch();
  CHECK(handle.writes.size() == 1);
  call->written();
  call->watch();
  REQUIRE(handle.writes.size() == 2);
  CHECK(read_chunk(handle.writes[1]) == HealthCheckResponse::NOT_SERVING);
  call->written();
  call->watch();
  call->expire(grpc_call::clock::now() + std::chrono::hours(1));
  CHECK(handle.writes.size() == 2);
  CHECK(handle.ends == 0);
  call->cancelled();
  CHECK(handle.ended_with(grpc_code::cancelled));
  report_ready(0);
  call->watch();
  CHECK(handle.writes.size() == 2);
}

TEST_CASE_FIXTURE(grpc_call_world,
                  "a health check is answered once, and an unknown service is not found") {
  for (const auto* name : {"", "inference.GRPCInferenceService", "m", "nope"}) {
    CAPTURE(name);
    fake_line handle;
    auto call = begin(handle, "/grpc.health.v1.Health/Check");
    grpc::health::v1::HealthCheckRequest asked;
    asked.set_service(name);
    call->read(asked.SerializeAsString());
    if (std::string_view(name) == "nope") {
      CHECK(handle.ended_with(grpc_code::not_found));
    } else {
      REQUIRE(handle.writes.size() == 1);
      call->written();
      CHECK(handle.ended_with(grpc_code::ok));
    }
  }
}
