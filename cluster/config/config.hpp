// nodes.toml: what the operator decides. One reader for the whole product; an unknown key is an
// error with the nearest valid name, every value is range-checked. What is derived from it is in
// plan.hpp.
#pragma once

#include "cluster/config/cpu_launcher.hpp"
#include "gateway/state/worker_facts.hpp"
#include "runtime/cpu/kv_format.hpp"
#include "runtime/schedule/waiting_line.hpp"
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
  std::string name;                 // as clients ask for it
  std::vector<std::string> aliases; // as they may ask as well; of the first model alone
  std::filesystem::path path;       // a GGUF file or a directory; relative to where `cluster` runs
  std::uint32_t replicas = 1;       // pipelines that serve it
  std::vector<std::string> nodes;   // whose devices these take; none named: all
  std::uint32_t pipeline_parallel_size = 1;
  std::uint32_t tensor_parallel_size = 1;     // shards that share each stage
  std::uint32_t max_num_seqs = 64;            // sequences running at once
  std::uint64_t max_batch_total_tokens = 0;   // to which they may come; 0: what the KV cache holds
  std::uint32_t max_num_batched_tokens = 256; // rows of one micro-batch
  std::uint32_t prefill_chunk = 128;          // rows of one sequence's prompt in one micro-batch
  std::uint32_t max_model_len = 0;            // 0: the model's own context
  std::uint32_t max_num_queued_reqs = 128;
  std::uint32_t max_num_queued_tokens = 262144;
  std::string scheduling_policy = "fcfs"; // or "priority": by the requests' numbers first
  bool enable_prefix_caching = true;      // equal beginnings of prompts are computed once
  bool async_scheduling = true;           // a step is formed before the tokens of the last are back
  std::uint32_t num_speculative_tokens = 3; // guessed behind a row in decode; requests may say more
  std::uint32_t speculative_disable_by_batch_size = 4; // sequences running; 0: guesses always
  std::uint32_t prompt_lookup_max = 4; // tokens that must match where guesses are taken from
  std::uint32_t prompt_lookup_min = 2;
  bool use_job_ticket = false; // TorchServe's meaning: a request is granted only if a slot is free
  std::chrono::milliseconds queue_timeout{60000};
  std::chrono::milliseconds recovery_timeout{60000}; // 0: none
  std::chrono::milliseconds resume_window{300'000};  // for a client to come back to its stream
  std::optional<std::uint64_t> kv_cache_bytes = 512ull << 20; // over all stages; none: "auto"
  cpu::kv_format kv_cache_dtype = cpu::kv_format::f16;
  std::uint64_t swap_space = 0;                  // bytes over all stages; 0: recompute instead
  std::uint32_t threads_per_shard = 0;           // 0: the cores divided over the shards
  std::uint32_t activation_bits = 16;            // 8: faster, and ties fall otherwise
  baton::pooling pooling = baton::pooling::mean; // of a prompt's hidden states, for embeddings
  // Of weights on devices with an engine of their own, and of what passes between them: "float32",
  // "float16", "bfloat16", or as the device likes it best. The native engine has the file's types.
  std::string dtype = "auto";
  // Of the layers' matrices there: "none", "fp8", "int4" in groups of so many weights.
  std::string quantization = "none";
  std::uint32_t quantization_group_size = 128;
  bool enforce_eager = false; // steps there are not recorded to be run again (CUDA graphs)
  // Where requests do not say: what nodes.toml says, then what the model's files say
  // (generation_config "auto"), then each API's own.
  sampling_defaults sampling, sampling_of_files;
  std::string generation_config = "auto"; // or "none"

  friend bool operator==(const model_config&, const model_config&) = default;
};

inline constexpr std::uint32_t gateways_max = 8;

struct gateway_section {
  std::string http = "127.0.0.1:8000";
  std::string zmq = "tcp://127.0.0.1:8002"; // empty: no door for ZeroMQ clients
  std::filesystem::path api_keys;           // api_key_file.hpp; empty: nobody needs a key
  bool allow_unauthenticated = false;       // without keys beyond loopback all the same
  std::string admin; // the operator's routes, without a key; empty: no such door
  // TorchServe's three listeners; empty: there is none.
  std::string torchserve_inference, torchserve_management, torchserve_metrics;
  // gRPC's, of KServe v2 and of TorchServe; empty: there is none.
  std::string kserve_grpc, torchserve_grpc_inference, torchserve_grpc_management;
  std::uint32_t processes = 1;           // gateways that share `http`; `admin` is the first one's
  std::filesystem::path tls_certificate; // chain, PEM; with its key: HTTPS
  std::filesystem::path tls_key;
  std::uint32_t threads = 1;
  std::uint32_t max_connections = 1024;
  std::uint64_t stream_buffer_bytes = 256 << 10;
  std::uint32_t max_concurrent_requests = 0;    // 0: bounded by the queue alone
  std::chrono::milliseconds request_timeout{0}; // of a whole request; 0: none
  std::uint32_t overload_status = 503;          // HTTP's, of refusals for load
  float watermark_gamma = 0.5F;                 // of marked answers: the share of green tokens
  float watermark_delta = 2.0F;                 // what their logits get more
  bool parse_special_tokens = true; // that a prompt spells out; never those in a chat's contents
  // Names that stand for the served model where there is one alone, at the doors of TGI's API.
  std::vector<std::string> placeholder_models{"dummy", "tgi"};
  bool access_log = true;         // a line for each request, in NAME.access.log
  std::string otlp_endpoint;      // where spans are sent; empty: nothing is traced
  float trace_sampling_ratio = 1; // of traces that begin here

  friend bool operator==(const gateway_section&, const gateway_section&) = default;
};

inline constexpr std::uint32_t workers_of_cluster_max = 1024; // a quarter of nodes_max
inline constexpr std::uint32_t worker_queued_max = 1 << 20;   // requests of a model, at a gateway
inline constexpr std::uint32_t parallel_level_max = 64;       // of one worker
inline constexpr std::uint32_t device_ids_max = 1024;         // named, and their largest number
inline constexpr std::int32_t cpu_device_id = -1;             // among them: no GPU
inline constexpr std::uint32_t omp_threads_max = 1024;        // hardware threads of a machine

// What the processes of a worker share, as TorchServe's parallelType says it (worker_group.hpp).
enum class parallel_type { none, pp, tp, pptp, custom };
std::string_view name_of(parallel_type type) noexcept;

// Where a worker computes (worker_devices.hpp). "auto": on a GPU of the machine, if it has one;
// "own": that is the process's own matter.
enum class device_kind { automatic, cpu, gpu, own };
std::string_view name_of(device_kind kind) noexcept;

// A model that processes of the operator's own serve, on the machine of `cluster up`
// (docs/workers.md). Names and defaults are TorchServe's where it has them.
struct worker_config {
  std::string name; // as clients ask for it
  std::string version = "1";
  std::vector<std::string> command; // program and arguments; relative to where `cluster` runs
  std::uint32_t count = 1;          // processes, or groups of them
  parallel_type parallel = parallel_type::none;
  std::uint32_t parallel_level = 0; // ranks of a group; custom: devices of the one process
  device_kind device_type = device_kind::automatic;
  // GPUs that its workers take in turn, each parallel_level of them; none said: the machine's.
  std::optional<std::vector<std::int32_t>> device_ids;
  std::uint32_t omp_num_threads =
      0; // of each process; 0: 1 of a group's, else a share of the cores
  std::uint32_t batch_size = 1;
  std::chrono::microseconds max_batch_delay{100'000};
  std::vector<std::uint32_t> preferred_batch_size; // ascending
  bool preserve_ordering = false;
  std::uint32_t max_queued = 100;
  std::uint32_t priority_levels = 0; // 0: requests have no priority
  std::uint32_t default_priority_level = 0;
  schedule::queue_policy queue_policy;
  std::map<std::uint32_t, schedule::queue_policy> priority_queue_policy; // of levels, from 1 on
  std::chrono::milliseconds response_timeout{120'000};
  std::chrono::milliseconds startup_timeout{120'000};
  bool use_job_ticket = false;
  // What clients of KServe v2 are told of it (worker_facts.hpp).
  std::string platform = "baton_worker";
  std::uint32_t max_batch_size = 0;
  bool decoupled = false;
  std::vector<gateway::worker_tensor> inputs, outputs;
  gateway::version_policy version_policy;
  std::string triton_config; // JSON of its config.pbtxt (triton_config.hpp); empty: it has none

  // Else each worker is one process.
  bool is_group() const noexcept {
    return parallel != parallel_type::none && parallel != parallel_type::custom;
  }

  friend bool operator==(const worker_config&, const worker_config&) = default;
};

// A model repository of Triton that is served as it is (docs/operations.md).
struct repository_config {
  std::filesystem::path path; // relative to where `cluster` runs
  model_control control = model_control::none;
  std::chrono::milliseconds poll_interval{15'000};
  std::vector<std::string> load_models; // at first, where clients load the others; "*": all

  friend bool operator==(const repository_config&, const repository_config&) = default;
};

// A model store of TorchServe: archives that clients register (docs/operations.md). Names and
// defaults are those of its config.properties, where it has them.
struct store_config {
  std::filesystem::path path;           // relative to where `cluster` runs
  std::vector<std::string> load_models; // at first: "all", NAME.mar or MODEL=NAME.mar, URLs
  // Regular expressions, one of which has to match a URL as a whole, in any case.
  std::vector<std::string> allowed_urls{"file://.*|http(s)?://.*"};
  bool install_py_dep_per_model = false; // what an archive's requirementsFile names
  std::uint32_t download_timeout = 3600; // seconds
  std::uint32_t install_timeout = 600;
  std::uint32_t default_workers_per_model = 1; // of those
  std::uint32_t job_queue_size = 100;
  std::uint32_t default_response_timeout = 120; // seconds
  std::uint32_t default_startup_timeout = 120;

  friend bool operator==(const store_config&, const store_config&) = default;
};

inline constexpr std::uint32_t nodes_of_cluster_max = 1968;

struct node_config {
  std::string name;
  std::string host = "127.0.0.1";   // the address at which other machines reach it
  std::vector<std::string> devices; // "cpu:0", "cpu"; one shard each
  std::string launch;        // starts `cluster join` there: "ssh baton@10.0.0.2"; empty: others do
  std::string public_key;    // of its machine (`cluster keygen`); empty: it shows a token
  bool is_elsewhere = false; // not on the machine of `cluster up`: it joins
  bool waits = false;        // has no layers until `cluster add-node`
  std::vector<std::uint32_t> owners =
      {}; // of each device: the pipeline it is of; none said: the first

  std::uint32_t place = 0; // of its agent: where it stands in the file, or membership.hpp

  std::uint32_t owner(std::size_t device) const { return owners.empty() ? 0 : owners.at(device); }
  friend bool operator==(const node_config&, const node_config&) = default;
};

// How machines reach one another; one machine alone needs none of it.
struct network_section {
  std::string host;          // of the machine of `cluster up`, as the others reach it
  std::uint16_t port = 8010; // and those behind it: root, head, `cluster join`, an agent per node
  std::filesystem::path key_file; // empty: default_key_file()

  friend bool operator==(const network_section&, const network_section&) = default;
};

struct cluster_config {
  std::string name;                                  // default: the file's stem
  std::filesystem::path run_dir;                     // sockets, pid files, logs; 0700
  std::chrono::milliseconds shutdown_timeout{30000}; // grace of a drain
  // How long a machine with layers may be away, while nothing is served, until the others take
  // them; 0: they never do.
  std::chrono::milliseconds node_timeout{10000};
  std::string log_level = "info"; // log_level.hpp
  network_section network;
  std::vector<model_config> models; // none: worker models alone
  // Of the pipeline that this is seen from (pipelines.hpp); as it was read: of the first, if any.
  model_config model;
  std::uint32_t pipeline = 0;
  gateway_section gateway;
  std::vector<worker_config> workers;
  std::optional<repository_config> repository;
  std::vector<node_config> nodes;  // none named: this machine, all of it
  bool has_default_layout = false; // none were
  std::optional<store_config> store;
  // Of all workers; TorchServe's names.
  std::optional<std::uint32_t> number_of_gpu; // that they take in turn, at most
  cpu_launcher launcher;

  // Whether worker models may come and go while it runs.
  bool has_changing_models() const noexcept { return repository || store; }
  // Other machines may join it.
  bool is_over_network() const noexcept { return !network.host.empty(); }
  bool has_node(std::string_view node) const noexcept;
};

// A file that people write, whole. Errors: io_failed, bad_config (too large).
result<std::string> read_config_file(const std::filesystem::path& file);
// Errors: io_failed, bad_config, unknown_key; messages say file:line and the key.
result<cluster_config> load_config(const std::filesystem::path& file);
// The same from text; `origin` stands in messages where the file's name would.
result<cluster_config> parse_config(std::string_view text, const std::string& origin);

// Whether this names a cluster, a model, a node or a key: 1 to 64 of [A-Za-z0-9._-].
bool is_name(std::string_view text) noexcept;

// What a shard computes on. "cpu:0" or "cpu:0-3": these cores; "cpu": the plan shares them out.
// "cuda:0", "cpu-torch": of the engine "torch"; "name/device": of another engine in a library
// (docs/engines.md). Errors: bad_config.
struct device {
  std::string kind; // "cpu"; else as it was written
  std::vector<std::uint32_t> cores;
  std::string engine{}; // in a library of that name; empty: the native one
  std::string at{};     // the device as that engine calls it

  bool is_native() const noexcept { return engine.empty(); }
  // Its weights and KV do not lie in the machine's.
  bool has_own_memory() const noexcept { return !is_native() && at != "cpu-torch"; }
};
result<device> parse_device(std::string_view text);

// The directory a cluster of this name uses if nodes.toml does not say:
// $XDG_RUNTIME_DIR/baton/NAME, else /tmp/baton-UID/NAME. Short, because socket paths in it are
// bounded by 107 bytes.
std::filesystem::path default_run_dir(std::string_view name);

} // namespace baton::cluster
