// The client of doors_bench for gRPC: reads streams of KServe's ModelStreamInfer and does nothing
// else. It runs in a process of its own, whose processor time nobody counts.
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
  std::uint32_t tokens = 0; // of each stream
  std::chrono::seconds silence_max{0};
};

// Asks the model "bench" for so many answers, each over a connection of its own as with SSE, and
// reads them to their end. `read` counts pieces, `ended` streams, as they come; several pieces
// may come in one response. Ensures: each stream has a piece for each token and ends well.
void read_grpc_streams(const grpc_load& load, std::atomic<std::uint64_t>& read,
                       std::atomic<std::uint64_t>& ended);

} // namespace baton::bench
