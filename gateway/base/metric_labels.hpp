// Label values that are known in advance. Their series begin at 0, so that increase() sees the
// first event. metrics_test.cpp compares them with the values that the sources count. Pure.
#pragma once

#include "schema/error.hpp"
#include "schema/inference.hpp"
#include "schema/messages.hpp"

#include <string_view>

namespace baton::gateway {

inline constexpr std::string_view protocol_labels[] = {"http", "websocket", "zmq", "grpc"};
inline constexpr std::string_view resume_reasons[] = {"client", "link", "head", "request_id"};
inline constexpr std::string_view drop_kinds[] = {"answer",
                                                  "chunk",
                                                  "chunk_after_gap",
                                                  "duplicate_chunk",
                                                  "granted",
                                                  "inferred",
                                                  "rejected",
                                                  "slow_reader",
                                                  "tls_handshake",
                                                  "worker_bad_frame",
                                                  "worker_stranger",
                                                  "worker_unexpected",
                                                  "worker_unknown_kind",
                                                  "worker_unreachable",
                                                  "zmq_bad_credit",
                                                  "zmq_bad_frame",
                                                  "zmq_duplicate_request",
                                                  "zmq_stranger",
                                                  "zmq_unexpected"};
inline constexpr std::string_view route_reasons[] = {"load", "prefix", "request_id", "resume",
                                                     "moved"};
inline constexpr finish counted_ends[] = {finish::stop, finish::length, finish::cancelled,
                                          finish::failed};

// Whether the error refuses a request. The others end one.
constexpr bool is_refusal(errc code) noexcept {
  return code < errc::cancelled;
}

} // namespace baton::gateway
