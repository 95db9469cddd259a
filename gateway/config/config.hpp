// Settings of one gateway process: addresses, keys and every limit of its servers, each with the
// reason for its default. Filled in cluster/; nothing here is read from a file.
#pragma once

#include "gateway/auth/key_ring.hpp"
#include "schema/ids.hpp"
#include "schema/limits.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace baton::gateway {

// Bounds of one request's fields. Numbers without another source are OpenAI's, if it has one.
struct request_limits {
  std::uint32_t choices_max = 16;         // n: each choice holds KV blocks of its own
  std::uint32_t answers_max = 256;        // per request: its prompts times n
  std::uint32_t max_tokens = 1u << 24;    // max_tokens; the model's context bounds it further
  std::size_t stop_texts_max = 16;        // OpenAI takes 4; each costs a search per token
  std::size_t stop_text_bytes_max = 1024; // held back per stream while it may still match
  std::size_t stop_ids_max = 256;         // compared with every token
  std::size_t logit_biases_max = 1024;    // OpenAI's 300 and some reserve; carried in every draw
  std::uint32_t logprobs_max = 20;        // OpenAI's top_logprobs
  std::size_t messages_max = 4096;        // a conversation; bounds the template's steps
  std::size_t tools_max = 128;            // OpenAI's; also calls in one message
  std::size_t prompt_ids_max = 1u << 20;  // 1 Mi ids of at least two JSON bytes fit the body
  std::size_t json_depth_max = 128;       // JSONTestSuite's deepest sane document is 100
  std::uint32_t completion_tokens_default = 16; // OpenAI's max_tokens of /v1/completions
};

struct http_limits {
  std::size_t header_bytes_max = 16 * 1024; // CVE-2025-48956: huge headers
  std::size_t header_lines_max = 100;
  std::size_t body_bytes_max = 4u << 20;
  std::size_t chunk_extension_bytes_max = 256; // CVE-2025-23310: abuse of chunk headers
  std::size_t connections_max = 1024;          // a connection costs up to body_bytes_max
  std::size_t admin_connections_extra = 16; // beyond them: a flood must not lock the operator out
  std::chrono::milliseconds handshake_timeout{10'000}; // of TLS, from the accept on
  std::chrono::milliseconds header_timeout{10'000};    // Apache's reqtimeout: 20 to 40 s
  std::chrono::milliseconds body_timeout{20'000};
  std::chrono::milliseconds idle_timeout{75'000};      // between requests, as nginx keep-alive
  std::chrono::milliseconds write_timeout{30'000};     // of one write of at most a stream's buffer
  std::chrono::milliseconds cut_grace{1'000};          // for a slow reader's last write
  std::chrono::milliseconds sse_ping_interval{15'000}; // below the usual proxy time-out of 30 s
  std::size_t send_buffer_bytes = 128 * 1024; // kernel memory per slow reader (auto-tuning: 4 MiB)
};

struct websocket_limits {
  std::size_t message_bytes_max = 4u << 20;       // as an HTTP body
  std::size_t requests_per_socket_max = 64;       // several conversations, not a load balancer
  std::size_t id_bytes_max = 128;                 // echoed in every message
  std::uint32_t bad_json_in_row_max = 3;          // then the client is broken
  std::chrono::milliseconds idle_timeout{30'000}; // pings go out at half of it
};

struct zmq_limits {
  std::size_t clients_max = 1024;
  std::size_t requests_per_client_max = 256;
  std::size_t message_bytes_max = limits::client_body_bytes_max; // ZMQ_MAXMSGSIZE
  std::uint64_t window_bytes = 1u << 20; // unacknowledged data bytes, both ways, per client
  std::chrono::milliseconds heartbeat_interval{1'000};
  std::chrono::milliseconds silence_max{5'000}; // then the client's streams are cancelled
};

struct grpc_limits {
  std::size_t calls_max = 1024;               // open ones of all connections
  std::size_t requests_per_call_max = 64;     // as of a WebSocket
  std::size_t message_bytes_max = 4u << 20;   // of incoming messages, as an HTTP body; gRPC's own
  std::size_t metadata_bytes_max = 16 * 1024; // as HTTP's header
  std::size_t memory_bytes_max = 256u << 20;  // gRPC's, of all connections together
  int calls_per_connection_max = 256;         // the client holds back further ones
  std::chrono::milliseconds message_timeout{10'000}; // for a call's first one
  std::chrono::milliseconds ping_interval{30'000};
  std::chrono::milliseconds ping_timeout{10'000};
  std::chrono::milliseconds idle_timeout{300'000}; // of a connection without calls
};

// gRPC's listeners, written and shared as `http` is; empty: there is none.
struct grpc_addresses {
  std::string kserve, torchserve_inference, torchserve_management;
};

// TorchServe's three listeners, written as `http` is; empty: there is none. The first two are
// shared with other gateways as `http` is; the third belongs to one gateway.
struct torchserve_addresses {
  std::string inference, management, metrics;
};

// A pipeline: its head, with shards of its own, and its model. Several may serve the same one.
struct pipeline_config {
  process_id head; // the process that has the log of its streams
  std::string model;
  std::uint32_t queue_max = 0;  // requests that may wait there; 0: unknown
  bool uses_job_ticket = false; // no request waits
};

// Stored responses of /v1/responses; each process has its own.
struct response_limits {
  std::size_t responses_max = 1024;  // as many as requests; the oldest ended one is evicted first
  std::size_t bytes_max = 64u << 20; // of their conversations and answers
  std::size_t background_max = 64;   // running without a client
  std::chrono::milliseconds kept_for{3'600'000}; // from their end; OpenAI keeps its own for 30 days
};

struct gateway_config {
  // The identity of this process.
  process_id self;
  incarnation_id incarnation;
  std::string build = "baton"; // version; /version, system_fingerprint, hello_ack
  // The pipelines, by number (see pipeline_of); at most pipelines_max. Empty: worker models only.
  std::vector<pipeline_config> pipelines{pipeline_config{}};
  // Servers.
  std::string http = "127.0.0.1:8000"; // address:port; [v6]:port; port 0 takes a free one
  bool shares_http = false;            // other gateways listen there too
  std::uint32_t threads = 1;           // io threads: compute needs the cores more
  std::string zmq;                     // ipc:// or tcp:// on loopback; empty: no ZeroMQ server
  std::string admin;                   // the operator's routes without a key, on loopback
  std::string ollama; // Ollama's API at an address of its own, shared as `http` is; empty: none
  torchserve_addresses torchserve;
  grpc_addresses grpc;
  std::string tls_certificate; // chain, PEM; with its key: HTTPS in place of HTTP
  std::string tls_key;
  std::optional<std::vector<api_key>> keys; // none: no key is needed, and `http` is loopback
  bool allow_unauthenticated = false;       // beyond loopback even without keys
  std::vector<std::string> model_aliases;   // further names of the served model
  // Names that mean the served model if there is only one (is_placeholder).
  std::vector<std::string> placeholder_models{"dummy", "tgi"};
  std::string access_log;    // a file with a line per request; empty: none
  std::string crash_record;  // a file for crash_record.hpp; empty: none
  int overload_status = 503; // HTTP's, of refusals for load; other servers use 429 and 529
  // Streams and requests.
  std::size_t requests_max = 1024;                  // open requests of all servers
  std::size_t stream_buffer_max_bytes = 256 * 1024; // of one stream that its client does not read
  std::chrono::milliseconds answer_timeout{30'000}; // reserve, tokenize and detokenize
  std::chrono::milliseconds request_deadline{0};    // of a whole request; 0: none
  float watermark_gamma = 0.5F; // for watermarks: the share of green tokens, TGI's default
  float watermark_delta = 2.0F; // and the bias of their logits, also TGI's
  // For prompts that are text, in all APIs: special tokens that they spell out become these tokens,
  // as in vLLM, TGI, Triton and llama.cpp. Never in the contents of a chat.
  bool parses_special_tokens = true;
  // Traces.
  std::string otlp_endpoint;         // otlp_endpoint.hpp; empty: nothing is traced
  double trace_sampling_ratio = 1.0; // of traces that begin here; a caller decides for its own
  request_limits request;
  http_limits http_bounds;
  response_limits responses;
  websocket_limits websocket;
  zmq_limits zmq_bounds;
  grpc_limits grpc_bounds;
};

} // namespace baton::gateway
