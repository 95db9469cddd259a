// The operator's configuration, as values: what nodes.toml says. config_file.hpp reads it, and
// plan.hpp derives the layout from it.
#pragma once

#include "cluster/config/cpu_launcher.hpp"
#include "cluster/config/models_dir.hpp"
#include "gateway/state/worker_facts.hpp"
#include "runtime/cpu/kernels/kv_format.hpp"
#include "runtime/schedule/workers/request_queue.hpp"
#include "schema/result.hpp"
#include "schema/sampling_defaults.hpp"
#include "schema/served_models.hpp"
#include "schema/step.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace baton::cluster {

struct model_config {
  std::string name;                 // as clients request it
  std::vector<std::string> aliases; // further names for clients; first model only
  std::filesystem::path path;       // a GGUF file or a directory; relative to where `cluster` runs
  std::filesystem::path models_dir; // that it was found in; empty: it has a table of its own
  std::uint32_t replicas = 1;       // pipelines that serve it
  bool loads_on_demand = false;     // by its first request; else when the cluster starts
  bool is_pinned = false;           // loaded when the cluster starts, and never unloaded
  std::chrono::milliseconds idle_timeout{300'000}; // until it is unloaded; 0: never
  std::chrono::milliseconds load_timeout{300'000}; // that a request waits for it
  std::vector<std::string> nodes;                  // whose devices they may use; empty: all
  std::uint32_t pipeline_parallel_size = 1;
  std::uint32_t tensor_parallel_size = 1;     // shards that share each stage
  std::uint32_t max_num_seqs = 64;            // sequences running at once
  std::uint64_t max_batch_total_tokens = 0;   // over all running sequences; 0: the KV cache
  std::uint32_t max_num_batched_tokens = 256; // rows of one micro-batch
  std::uint32_t prefill_chunk = 128;          // rows of one sequence's prompt in one micro-batch
  std::uint32_t max_model_len = 0;            // 0: the model's own context
  std::uint32_t max_num_queued_reqs = 128;
  std::uint32_t max_num_queued_tokens = 262144;
  std::string scheduling_policy = "fcfs";   // or "priority": by the requests' priority first
  bool enable_prefix_caching = true;        // common prefixes of prompts are computed once
  bool async_scheduling = true;             // forms a step before the last one's tokens are back
  std::uint32_t num_speculative_tokens = 3; // drafts per decode row; requests may override
  std::uint32_t speculative_disable_by_batch_size = 4; // running sequences; 0: never disabled
  std::uint32_t prompt_lookup_max = 4;                 // tokens that must match to propose drafts
  std::uint32_t prompt_lookup_min = 2;
  bool use_job_ticket = false; // TorchServe's: admit only if a slot is free
  std::chrono::milliseconds queue_timeout{60000};
  std::chrono::milliseconds recovery_timeout{60000}; // 0: none
  std::chrono::milliseconds resume_window{300'000};  // for a client to reconnect to its stream
  std::optional<std::uint64_t> kv_cache_bytes = 512ull << 20; // over all stages; none: "auto"
  cpu::kv_format kv_cache_dtype = cpu::kv_format::f16;
  std::uint64_t swap_space = 0;                  // bytes over all stages; 0: recompute instead
  std::uint32_t threads_per_shard = 0;           // 0: the cores divided over the shards
  std::uint32_t activation_bits = 16;            // 8: faster; ties may break differently
  baton::pooling pooling = baton::pooling::mean; // of a prompt's hidden states, for embeddings
  // Type of weights and activations on devices with an engine of their own: "float32", "float16",
  // "bfloat16", or the device's choice. The native engine uses the types of the file.
  std::string dtype = "auto";
  // Quantization of the layers' matrices on these devices: "none", "fp8", "int4" with a group size.
  std::string quantization = "none";
  std::uint32_t quantization_group_size = 128;
  bool enforce_eager = false; // no CUDA graphs on them
  // Defaults of sampling parameters: nodes.toml, then the model's files (if generation_config is
  // "auto"), then each API's own.
  sampling_defaults sampling, sampling_of_files;
  std::string generation_config = "auto"; // or "none"

  friend bool operator==(const model_config&, const model_config&) = default;
};

inline constexpr std::uint32_t gateways_max = 8;

struct gateway_section {
  std::string http = "127.0.0.1:8000";
  std::string zmq = "tcp://127.0.0.1:8002"; // empty: no endpoint for ZeroMQ clients
  std::filesystem::path api_keys;           // api_key_file.hpp; empty: no keys needed
  bool allow_unauthenticated = false;       // beyond loopback too
  std::string admin;                        // operator routes without a key; empty: none
  std::string ollama;                       // Ollama's API at its own address; empty: none
  // TorchServe's three listeners; empty: disabled.
  std::string torchserve_inference, torchserve_management, torchserve_metrics;
  // gRPC endpoints of KServe v2 and of TorchServe; empty: disabled.
  std::string kserve_grpc, torchserve_grpc_inference, torchserve_grpc_management;
  std::uint32_t processes = 1;           // gateways that share `http`; the first has `admin`
  std::filesystem::path tls_certificate; // chain, PEM; with its key: HTTPS
  std::filesystem::path tls_key;
  std::uint32_t threads = 1;
  std::uint32_t max_connections = 1024;
  std::uint64_t stream_buffer_bytes = 256 << 10;
  std::uint32_t max_concurrent_requests = 0;    // 0: limited by the queue only
  std::chrono::milliseconds request_timeout{0}; // for a whole request; 0: none
  std::uint32_t overload_status = 503;          // HTTP status of load shedding
  float watermark_gamma = 0.5F;                 // of watermarked answers: green fraction
  float watermark_delta = 2.0F;                 // logit bias of green tokens
  bool parse_special_tokens = true;             // in prompts; never in chat contents
  // Model names that mean the served model at TGI's API, if only one model is served.
  std::vector<std::string> placeholder_models{"dummy", "tgi"};
  bool access_log = true;         // one line per request, in NAME.access.log
  std::string otlp_endpoint;      // where spans are sent; empty: no tracing
  float trace_sampling_ratio = 1; // of traces that start here

  friend bool operator==(const gateway_section&, const gateway_section&) = default;
};

inline constexpr std::uint32_t workers_of_cluster_max = 1024; // a quarter of nodes_max
inline constexpr std::uint32_t worker_queued_max = 1 << 20;   // requests per model and gateway
inline constexpr std::uint32_t parallel_level_max = 64;       // of one worker
inline constexpr std::uint32_t device_ids_max = 1024;         // listed, and the largest number
inline constexpr std::int32_t cpu_device_id = -1;             // in device_ids: no GPU
inline constexpr std::uint32_t omp_threads_max = 1024;        // hardware threads per machine

// How a worker's processes share a model: TorchServe's parallelType (worker_group.hpp).
enum class parallel_type { none, pp, tp, pptp, custom };
std::string_view name_of(parallel_type type) noexcept;

// Where a worker computes (worker_devices.hpp). "auto": on a GPU if the machine has one; "own": the
// process decides.
enum class device_kind { automatic, cpu, gpu, own };
std::string_view name_of(device_kind kind) noexcept;

// A model served by the operator's own processes on the machine of `cluster up`
// (docs/apis/workers/settings.md). Names and defaults are TorchServe's where it has them.
struct worker_config {
  std::string name; // as clients request it
  std::string version = "1";
  std::vector<std::string> command; // program and arguments; relative to where `cluster` runs
  std::uint32_t count = 1;          // processes, or groups of processes
  parallel_type parallel = parallel_type::none;
  std::uint32_t parallel_level = 0; // ranks of a group; custom: devices of a process
  device_kind device_type = device_kind::automatic;
  // GPUs its workers take in rotation, parallel_level each; not set: all of the machine.
  std::optional<std::vector<std::int32_t>> device_ids;
  std::uint32_t omp_num_threads = 0; // per process; 0: 1 in a group, else a share of the cores
  std::uint32_t batch_size = 1;
  std::chrono::microseconds max_batch_delay{100'000};
  std::vector<std::uint32_t> preferred_batch_size; // ascending
  bool preserve_ordering = false;
  std::uint32_t max_queued = 100;
  std::uint32_t priority_levels = 0; // 0: requests have no priority
  std::uint32_t default_priority_level = 0;
  schedule::queue_policy queue_policy;
  std::map<std::uint32_t, schedule::queue_policy> priority_queue_policy; // by level, from 1
  std::chrono::milliseconds response_timeout{120'000};
  std::chrono::milliseconds startup_timeout{120'000};
  bool use_job_ticket = false;
  // Metadata for clients of KServe v2 (worker_facts.hpp).
  std::string platform = "baton_worker";
  std::uint32_t max_batch_size = 0;
  bool decoupled = false;
  std::vector<gateway::worker_tensor> inputs, outputs;
  gateway::version_policy version_policy;
  std::string triton_config; // config.pbtxt as JSON (triton_config.hpp); may be empty

  // False: each worker is one process.
  bool is_group() const noexcept {
    return parallel != parallel_type::none && parallel != parallel_type::custom;
  }

  friend bool operator==(const worker_config&, const worker_config&) = default;
};

// A Triton model repository, served unchanged (docs/operate/model-repository.md).
struct repository_config {
  std::filesystem::path path; // relative to where `cluster` runs
  model_control control = model_control::none;
  std::chrono::milliseconds poll_interval{15'000};
  std::vector<std::string> load_models; // initially, in explicit mode; "*": all

  friend bool operator==(const repository_config&, const repository_config&) = default;
};

inline constexpr std::uint32_t archive_seconds_max = 86'400; // of each time of a store

// Settings of an archive that its model-config.yaml does not have: `models` of config.properties.
struct archive_settings {
  std::string model, version; // as the archive's manifest names them
  model_settings settings;

  friend bool operator==(const archive_settings&, const archive_settings&) = default;
};

// A TorchServe model store: archives that clients register (docs/operate/model-store.md). Names and
// defaults follow config.properties where it has them.
struct store_config {
  std::filesystem::path path;           // relative to where `cluster` runs
  std::vector<std::string> load_models; // initially: "all", NAME.mar or MODEL=NAME.mar, URLs
  // Regular expressions; one of them must match a whole URL, ignoring case.
  std::vector<std::string> allowed_urls{"file://.*|http(s)?://.*"};
  bool install_py_dep_per_model = false; // from an archive's requirementsFile
  std::uint32_t download_timeout = 3600; // seconds
  std::uint32_t install_timeout = 600;
  std::uint32_t default_workers_per_model = 1; // of archives
  std::uint32_t job_queue_size = 100;
  std::uint32_t default_response_timeout = 120; // seconds
  std::uint32_t default_startup_timeout = 120;
  std::vector<archive_settings> models; // at most one of a version

  friend bool operator==(const store_config&, const store_config&) = default;
};

inline constexpr std::uint32_t nodes_of_cluster_max = 1968;

struct node_config {
  std::string name;
  std::string host = "127.0.0.1";   // address for other machines
  std::vector<std::string> devices; // "cpu:0", "cpu"; one shard per device
  std::string launch;               // runs `cluster join` there: "ssh baton@10.0.0.2"; may be empty
  std::string public_key;           // of its machine (`cluster keygen`); empty: it uses a token
  bool is_elsewhere = false;        // on another machine, which joins
  bool waits = false;               // gets no layers until `cluster add-node`
  // Pipeline of each device; shared_device: of all models that are loaded on demand
  // (pipelines.hpp); empty: the first.
  std::vector<std::uint32_t> owners = {};

  std::uint32_t agent_index = 0; // of its agent: position in the file, or see membership.hpp

  std::uint32_t owner(std::size_t device) const { return owners.empty() ? 0 : owners.at(device); }
  friend bool operator==(const node_config&, const node_config&) = default;
};

// Addresses between machines; unused on a single machine.
struct network_section {
  std::string host;               // address of this machine for the others
  std::uint16_t port = 8010;      // first port: root, head, `cluster join`, one agent per node
  std::filesystem::path key_file; // empty: default_key_file()

  friend bool operator==(const network_section&, const network_section&) = default;
};

struct cluster_config {
  std::string name;                                  // default: the file's stem
  std::filesystem::path run_dir;                     // sockets, pid files, logs; 0700
  std::chrono::milliseconds shutdown_timeout{30000}; // grace period of a drain
  // How long a machine with layers may be away, without service, before others take its layers; 0:
  // for any time.
  std::chrono::milliseconds node_timeout{10000};
  std::string log_level = "info"; // log_level.hpp
  network_section network;
  std::vector<model_config> models;    // may be empty if there are worker models
  std::uint32_t max_loaded_models = 4; // of those that are loaded on demand
  // In directories of models; empty where the text names the files (config_text.hpp).
  std::vector<passed_over_model> passed_over;
  // The model of this view's pipeline (pipelines.hpp); after reading: the first one, if any.
  model_config model;
  std::uint32_t pipeline = 0;
  gateway_section gateway;
  std::vector<worker_config> workers;
  std::optional<repository_config> repository;
  std::vector<node_config> nodes;  // default: all of this machine
  bool has_default_layout = false; // no [[nodes]] were given
  std::optional<store_config> store;
  // For all workers, with TorchServe's names.
  std::optional<std::uint32_t> number_of_gpu; // GPUs for rotation, at most
  cpu_launcher launcher;

  // Whether worker models may be added and removed at run time.
  bool has_changing_models() const noexcept { return repository || store; }
  // Whether other machines may join.
  bool is_over_network() const noexcept { return !network.host.empty(); }
  bool has_node(std::string_view node) const noexcept;
};

// Whether this is a valid name of a cluster, model, node or key: 1 to 64 of [A-Za-z0-9._-].
bool is_name(std::string_view text) noexcept;

// A shard's device. "cpu:0" or "cpu:0-3": these cores; "cpu": the plan assigns cores. "cuda:0",
// "cpu-torch": devices of the engine "torch"; "name/device": of another engine in a library
// (docs/develop/engines.md). Errors: bad_config.
struct device {
  std::string kind; // "cpu", otherwise the whole text
  std::vector<std::uint32_t> cores;
  std::string engine{}; // name of its library; empty: the native one
  std::string at{};     // the engine's name of the device

  bool is_native() const noexcept { return engine.empty(); }
  // Whether weights and KV are outside the machine's memory.
  bool has_own_memory() const noexcept { return !is_native() && at != "cpu-torch"; }
};
result<device> parse_device(std::string_view text);

// The default run directory of a cluster of this name: $XDG_RUNTIME_DIR/baton/NAME, else
// /tmp/baton-UID/NAME. Short, because socket paths are limited to 107 bytes.
std::filesystem::path default_run_dir(std::string_view name);

} // namespace baton::cluster
