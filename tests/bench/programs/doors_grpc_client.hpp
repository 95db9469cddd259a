// The client of doors_bench for gRPC: reads streams of KServe's ModelStreamInfer and does nothing
// else. It runs in a separate process, whose CPU time is not counted.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace baton::bench {

inline constexpr std::string_view piece_text = " word"; // of each token

struct grpc_load {
  std::uint16_t port = 0;
  std::size_t streams = 0;
  std::uint32_t tokens = 0; // per stream
  std::chrono::seconds silence_max{0};
};

// Requests that many answers of the model "bench", each over its own connection as with SSE, and
// reads them to the end. `read` counts pieces, `ended` counts streams; one response may hold
// several pieces. Ensures: each stream has a piece for each token and ends without an error.
void read_grpc_streams(const grpc_load& load, std::atomic<std::uint64_t>& read,
                       std::atomic<std::uint64_t>& ended);

} // namespace baton::bench
