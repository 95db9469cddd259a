#include "cluster/models/torchserve/torchserve_worker.hpp"

#include "cluster/config/imported/imported_config.hpp"
#include "cluster/config/imported/yaml_reader.hpp"
#include "schema/limits.hpp"

#include <algorithm>
#include <array>

namespace baton::cluster {
namespace {

constexpr std::uint32_t seconds_max = 86'400;

struct refused_key {
  const char* key;
  const char* why; // why it cannot be supported
};
// Each of them changes the protocol between frontend and handler.
constexpr std::array refused_flags{
    refused_key{"continuousBatching",
                "a worker is given whole batches. A language model needs no handler: with --model "
                "instead of --handler its requests join and leave the batch at every step"},
    refused_key{
        "sequenceBatching",
        "requests of a sequence may go to different workers. Without it, minWorkers: 1 and a "
        "handler that keeps its sequences by a header of the request serve them"},
    refused_key{
        "asyncCommunication",
        "a worker is given a batch when it has answered the last. A language model needs no "
        "handler: --model instead of --handler serves it"}};

// Keys without a counterpart, and why none is needed.
constexpr std::array left_out_keys{
    refused_key{"maxWorkers", "clients scale up to what a cluster can have"},
    refused_key{"maxRetryTimeoutInSec", "workers are started again with a back-off of their own"},
    refused_key{"sequenceMaxIdleMSec", "it needs sequenceBatching, which is not set"},
    refused_key{"sequenceTimeoutMSec", "it needs sequenceBatching, which is not set"},
    refused_key{"maxSequenceJobQueueSize", "it needs sequenceBatching, which is not set"},
    refused_key{"maxNumSequence", "it needs sequenceBatching, which is not set"},
    refused_key{"clientTimeoutInMills", "gateway.request_timeout is for all clients"}};

void refuse_what_cannot_be(yaml_reader& in) {
  for (const auto& [key, why] : refused_flags)
    if (in.flag(key))
      in.refuse(key, fmt::format("is not possible here: {}", why));
}

// torchrun on one machine: all ranks meet at a free local address.
void read_torchrun(yaml_reader& in, const YAML::Node& torchrun, torchserve_settings& out) {
  if (const auto nodes = in.number(torchrun, "nnodes", parallel_level_max); nodes.value_or(1) > 1)
    in.refuse("torchrun.nnodes", "is not possible here: the processes of a worker run on one "
                                 "machine. An LLM needs no handler: [model] with "
                                 "pipeline_parallel_size spans machines");
  out.omp_num_threads = in.number(torchrun, "OMP_NUMBER_THREADS", omp_threads_max);
  for (const auto& key : in.rest(torchrun))
    out.notes.push_back(fmt::format("torchrun.{} is left out: the processes of a worker meet at "
                                    "MASTER_ADDR and MASTER_PORT, which are made for them",
                                    key));
}

// The GPUs that all workers use in rotation; none for deviceType cpu.
void read_devices(yaml_reader& in, torchserve_settings& out) {
  const auto given = in.choice("deviceType", {"cpu", "gpu", "CPU", "GPU"}); // as TorchServe does
  const auto is_cpu = given == "cpu" || given == "CPU", is_gpu = given == "gpu" || given == "GPU";
  auto ids = in.numbers("deviceIds", device_ids_max);
  const auto width = out.parallel_level.value_or(1);
  if (is_cpu) {
    out.device_type = device_kind::cpu;
    if (!ids.empty())
      out.notes.emplace_back("deviceIds is left out: deviceType is cpu");
  } else if (!ids.empty() && ids.size() % width != 0)
    in.refuse("deviceIds", fmt::format("are {}: each worker takes {} of them", ids.size(), width));
  else if (!ids.empty())
    out.device_ids = std::move(ids);
  else if (is_gpu)
    out.device_type = device_kind::gpu;
}

// The number of processes of a worker, or of devices of one process.
void read_parallel(yaml_reader& in, torchserve_settings& out) {
  const auto type = in.choice("parallelType", {"pp", "tp", "pptp", "custom"});
  const auto level = in.number(in.root(), "parallelLevel", parallel_level_max);
  const auto torchrun = in.map("torchrun");
  const auto processes =
      torchrun ? in.number(torchrun, "nproc-per-node", parallel_level_max).value_or(1) : level;
  if (torchrun)
    read_torchrun(in, torchrun, out);
  if (!type) { // then TorchServe starts one process too
    if (processes.value_or(1) > 1)
      out.notes.push_back(fmt::format("{} is left out: there is no parallelType",
                                      torchrun ? "torchrun.nproc-per-node" : "parallelLevel"));
    out.omp_num_threads.reset();
    return;
  }
  for (const auto is :
       {parallel_type::pp, parallel_type::tp, parallel_type::pptp, parallel_type::custom})
    if (name_of(is) == *type)
      out.parallel = is;
  if (out.parallel != parallel_type::custom && !torchrun)
    in.refuse(
        "torchrun.nproc-per-node",
        fmt::format("is missing: how many processes has a worker of parallelType {}?", *type));
  if (torchrun && level && *level != *processes)
    in.refuse("parallelLevel", fmt::format("is {}, and torchrun.nproc-per-node {}: which of them?",
                                           *level, *processes));
  out.parallel_level = processes.value_or(1);
}

result<torchserve_settings> read(yaml_reader& in) {
  torchserve_settings out;
  out.workers = in.number(in.root(), "minWorkers", workers_of_cluster_max);
  out.batch_size = in.number(in.root(), "batchSize", limits::batch_items_max);
  out.max_batch_delay = in.number(in.root(), "maxBatchDelay", seconds_max * 1000, 0);
  out.response_timeout = in.number(in.root(), "responseTimeout", seconds_max);
  out.startup_timeout = in.number(in.root(), "startupTimeout", seconds_max);
  out.job_queue_size = in.number(in.root(), "jobQueueSize", worker_queued_max);
  out.use_job_ticket = in.flag("useJobTicket");
  in.flag("useVenv"); // a model's requirements always have an environment of their own
  refuse_what_cannot_be(in);
  read_parallel(in, out);
  if (!in.refusal())
    read_devices(in, out);
  if (in.refusal())
    return *in.refusal();
  for (const auto& [key, why] : left_out_keys)
    if (in.root()[key])
      out.notes.push_back(fmt::format("{} is left out: {}", key, why));
  return out; // the handler reads all other keys itself
}

} // namespace

result<torchserve_settings> read_torchserve_settings(std::string_view yaml) {
  try { // the boundary to yaml-cpp, which throws
    yaml_reader in(YAML::Load(std::string(yaml)));
    if (in.root().IsNull())
      return torchserve_settings();
    if (!in.root().IsMap())
      return fail(errc::bad_config, "it is no map of settings, as a model-config.yaml is");
    return read(in);
  } catch (const YAML::Exception& e) {
    return fail(errc::bad_config, "line {}: {}", e.mark.line + 1, e.msg);
  }
}

std::string worker_table(const torchserve_worker& of) {
  std::vector<std::string> args;
  for (const auto& arg : of.command)
    args.push_back(toml_string(arg));
  auto text = fmt::format("[[workers]]\nname = {}\nversion = {}\ncommand = [{}]\n",
                          toml_string(of.name), toml_string(of.version), fmt::join(args, ", "));
  const auto add = [&](std::string_view key, const std::optional<std::uint32_t>& value) {
    if (value)
      text += fmt::format("{} = {}\n", key, *value);
  };
  const auto& s = of.settings;
  if (s.workers)
    add("count", std::max(1u, *s.workers));
  if (s.parallel != parallel_type::none)
    text += fmt::format("parallel_type = \"{}\"\n", name_of(s.parallel));
  add("parallel_level", s.parallel_level);
  add("omp_num_threads", s.omp_num_threads);
  if (s.device_type != device_kind::automatic)
    text += fmt::format("device_type = \"{}\"\n", name_of(s.device_type));
  if (s.device_ids)
    text += fmt::format("device_ids = [{}]\n", fmt::join(*s.device_ids, ", "));
  add("batch_size", s.batch_size);
  if (s.max_batch_delay)
    text += fmt::format("max_batch_delay = {}\n", *s.max_batch_delay / 1000.0);
  add("max_queued", s.job_queue_size);
  add("response_timeout", s.response_timeout);
  add("startup_timeout", s.startup_timeout);
  if (s.use_job_ticket)
    text += "use_job_ticket = true\n";
  return text;
}

} // namespace baton::cluster
