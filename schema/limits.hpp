// Bounds of everything that crosses a process boundary, with reasons. The codec enforces them on
// both ends. API servers call check_limits first, to name the exceeded bound to the client.
#pragma once

#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <chrono>
#include <cstddef>

namespace baton::limits {

// Parts of a message, and the packet they travel in: ZMQ_MAXMSGSIZE.
inline constexpr std::size_t head_bytes_max = 1024;      // an envelope has about 100
inline constexpr std::size_t body_bytes_max = 64u << 20; // 256 draws with 16k tokens of history
inline constexpr std::size_t client_body_bytes_max = 16u << 20; // twice the largest prompt
inline constexpr std::size_t bulk_bytes_max = 256u << 20;       // 4096 rows of 16384 float32
inline constexpr std::size_t packet_extra_bytes_max = 2048;     // sizes, envelope, padding
inline constexpr std::size_t packet_bytes_max =
    packet_extra_bytes_max + body_bytes_max + bulk_bytes_max;

// FlatBuffers. Our tables nest five deep; 2^20 tables verify in about 20 ms.
inline constexpr unsigned depth_max = 64;
inline constexpr unsigned tables_max = 1u << 20;

// Text.
inline constexpr std::size_t prompt_bytes_max = 8u << 20;  // twice the HTTP body's default bound
inline constexpr std::size_t chunk_bytes_max = 8u << 20;   // detokenized text, a whole answer
inline constexpr std::size_t name_bytes_max = 1024;        // names, endpoints, roles
inline constexpr std::size_t reason_bytes_max = 16u << 10; // for people: longer text is truncated
inline constexpr std::size_t stop_bytes_max = 4096;        // one stop string
inline constexpr std::size_t constraint_bytes_max = 64u << 10; // travels with each step
inline constexpr std::size_t machines_bytes_max = 16u << 20; // facts or keys of nodes_max machines

// Counts. A context of 2^20 tokens is the longest any model of today has.
inline constexpr std::size_t ids_max = 1u << 20;
inline constexpr std::size_t chat_messages_max = 16u << 10;
inline constexpr std::size_t choices_max = 128;        // OpenAI's bound of n
inline constexpr std::size_t stop_texts_max = 64;      // OpenAI allows 4, other APIs more
inline constexpr std::size_t stop_ids_max = 1024;      // ids that end a sequence
inline constexpr std::size_t biases_max = 4096;        // OpenAI allows 300
inline constexpr std::size_t top_logprobs_max = 128;   // OpenAI allows 20
inline constexpr std::size_t prompt_logprobs_max = 20; // of each token of a prompt
inline constexpr std::size_t rows_max = 64u << 10;     // of one micro_batch
inline constexpr std::size_t slices_max = 4096;        // sequences in one micro_batch
inline constexpr std::size_t draws_max = 4096;         // of one micro_batch, draft tokens included
inline constexpr std::size_t blocks_max = 64u << 10;   // of one slice: 2^20 positions by 16
inline constexpr std::size_t copies_max = 1u
                                          << 20; // of KV blocks in one micro_batch: 64 Mi positions
inline constexpr std::size_t embedding_values_max = 16u << 10; // the widest hidden row: see bulk
inline constexpr std::size_t pools_max = 256;    // of one micro_batch; all of them: 16 MiB
inline constexpr std::size_t details_max = 4096; // tokens with logprobs in one chunk
inline constexpr std::size_t stages_max = 1024;
inline constexpr std::size_t size_counts_max = 64; // of a load_report's distributions
inline constexpr std::size_t nodes_max = 4096;
inline constexpr std::size_t models_max = 1024;
inline constexpr std::size_t model_config_bytes_max = 16u << 10; // of a worker model, as TOML

// Worker models. All strings and tensors of a request or answer piece fit, with their tables, into
// one client message. A gateway that forms batches adds up their bytes.
inline constexpr std::size_t infer_bytes_max = client_body_bytes_max - (256u << 10);
inline constexpr std::size_t tensors_max = 256;   // of one request or piece
inline constexpr std::size_t dimensions_max = 32; // of one tensor; numpy has 32
inline constexpr std::size_t headers_max = 128;
inline constexpr std::size_t header_bytes_max = 8192; // one value
inline constexpr std::size_t parameters_bytes_max = 64u << 10;
inline constexpr std::size_t batch_items_max = 1024;
inline constexpr std::size_t metrics_max = 256; // of handlers, in one message
inline constexpr std::size_t metric_labels_max = 32;
inline constexpr std::size_t batch_bytes_max = body_bytes_max - (1u << 20); // room for the tables

// Longer than this means "never", and would overflow when added to a clock.
inline constexpr std::chrono::milliseconds duration_max = std::chrono::hours{24 * 366};

} // namespace baton::limits

namespace baton {

// Whether a request can be encoded. Errors, with the parameter's OpenAI name: payload_too_large
// (prompt), unsupported_parameter (not available for embeddings), invalid_value (all others,
// non-finite floats included).
result<void> check_limits(const prompt& input);
result<void> check_limits(const sampling_params& sampling);
result<void> check_limits(const stopping& stop);
result<void> check_limits(const generate& request);
result<void> check_limits(const tokenize& question);
result<void> check_limits(const infer& request);
// For an answer piece: its writer checks first.
result<void> check_limits(const inferred& piece);
// Size in a body, to within a few hundred bytes.
std::size_t bytes_of(const infer& request) noexcept;
std::size_t bytes_of(const inferred& piece) noexcept;

} // namespace baton
