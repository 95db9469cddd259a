#include "cluster/import/torchserve_import.hpp"

#include "cluster/config/config.hpp"
#include "cluster/config/imported/yaml_reader.hpp"
#include "cluster/models/torchserve/torchserve_models.hpp"
#include "cluster/models/torchserve/torchserve_worker.hpp"
#include "schema/ids.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

namespace baton::cluster {
namespace {

constexpr std::uint32_t devices_max = 1024; // of all workers

// Keys without a counterpart, and why none is needed.
const std::map<std::string, std::string, std::less<>> left_out_model_keys{
    {"maxBatchDelay",
     "a step is formed whenever one has ended: no request waits for a batch to fill"},
    {"batchSize", "sequences join and leave between steps: model.max_num_seqs bounds them; "
                  "--handler carries it over for a model with a handler"},
    {"maxWorkers", "`cluster scale` changes how many replicas serve, up to model.replicas"},
    {"startupTimeout", "a shard that loads is waited for as long as it answers"},
    {"maxRetryTimeoutInSec", "shards are started again with a back-off of their own"},
    {"clientTimeoutInMills", "gateway.request_timeout is for all clients"},
    {"continuousBatching", "it is always so"},
    {"asyncCommunication", "it is always so"},
    {"rpc_timeout", "every wait of the bus has a deadline of its own"},
    {"pippy", "stages need no such settings"},
    {"deepspeed", "ranks need no such settings"},
    {"handler", "there is no handler to configure; --handler names one, and makes it a worker"},
    {"micro_batching", "micro-batches are formed by the scheduler"},
    {"sequenceBatching", "sequences of requests are a handler's"},
    {"sequenceMaxIdleMSec", "sequences of requests are a handler's"},
    {"sequenceTimeoutMSec", "sequences of requests are a handler's"},
    {"maxSequenceJobQueueSize", "sequences of requests are a handler's"},
    {"maxNumSequence", "sequences of requests are a handler's"},
    {"useVenv", "no handler runs"},
    {"pt2", "no handler runs"},
    {"tp", "ranks need no such settings"},
    {"capability", "no handler runs"},
    {"nnodes", "machines are [[nodes]] tables"},
    {"node-rank", "machines are [[nodes]] tables"},
    {"rdzv-backend", "shards find one another by the root"},
    {"rdzv-endpoint", "shards find one another by the root"},
    {"rdzv-conf", "shards find one another by the root"},
    {"monitor-interval", "shards are watched all the time"},
    {"OMP_NUMBER_THREADS", "model.threads_per_shard sets it"},
};

struct layout {
  std::uint32_t stages = 1, ranks = 1;
  std::uint32_t devices() const { return stages * ranks; }
};

// How many devices a worker has, as stages and ranks. With torchrun, nproc-per-node sets the number
// of processes; with another launcher, parallelLevel does.
layout layout_of(yaml_reader& in, imported_config& out) {
  const auto type = in.choice("parallelType", {"pp", "tp", "pptp", "custom"});
  const auto torchrun = in.map("torchrun");
  const auto processes =
      torchrun ? in.number(torchrun, "nproc-per-node", devices_max) : std::nullopt;
  const auto level = in.number(in.root(), "parallelLevel", devices_max);
  if (processes && level)
    in.refuse("parallelLevel", "and torchrun.nproc-per-node exclude one another");
  if (level && type != "custom")
    in.refuse("parallelLevel",
              "is for parallelType custom; the others have torchrun.nproc-per-node");
  if (processes && type == "custom")
    in.refuse("torchrun.nproc-per-node", "is not for parallelType custom, which has parallelLevel");
  const auto devices = processes.value_or(level.value_or(1));
  if (!type && devices > 1)
    in.refuse("parallelType", "is missing: what are the devices of a worker to share?");
  if (type == "tp")
    return {1, devices};
  if (type != "pptp")
    return {devices, 1}; // pipeline stages work for any number of devices
  constexpr std::uint32_t ranks = 2;
  if (devices % ranks != 0) {
    in.refuse("torchrun.nproc-per-node",
              fmt::format("is {}: parallelType pptp needs an even number", devices));
    return {};
  }
  out.notes.emplace_back("parallelType pptp does not say how many of each: 2 ranks a stage; see "
                         "model.tensor_parallel_size");
  return {devices / ranks, ranks};
}

// The devices of all workers: each takes the next ones, and wraps around at the end. GPUs are taken
// if this machine has as many as are needed, each once.
std::vector<std::string> devices_of(yaml_reader& in, std::size_t count, std::uint32_t gpus,
                                    imported_config& out) {
  const auto type = in.choice("deviceType", {"cpu", "gpu"});
  const auto ids = in.numbers("deviceIds", 4095);
  const auto id_of = [&](std::size_t i) {
    return ids.empty() ? static_cast<std::uint32_t>(i) : ids[i % ids.size()];
  };
  const bool has_gpus = type == "gpu" && count <= (ids.empty() ? gpus : ids.size()) &&
                        std::ranges::all_of(ids, [&](auto id) { return id < gpus; });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i)
    names.push_back(has_gpus      ? fmt::format("cuda:{}", id_of(i))
                    : ids.empty() ? std::string("cpu")
                                  : fmt::format("cpu:{}", id_of(i)));
  if (has_gpus)
    out.notes.push_back(fmt::format("deviceType gpu: it runs on {}", fmt::join(names, ", ")));
  else if (type == "gpu")
    out.notes.push_back(fmt::format(
        "deviceType gpu: IT RUNS ON {}: {} GPUs are needed, and this machine has {} with an engine "
        "for them (docs/develop/engines.md); nodes.devices names others",
        fmt::join(names, ", "), count, gpus));
  std::vector<std::string> devices;
  for (const auto& one : names)
    devices.push_back(toml_string(one));
  return devices;
}

bool is_own(const std::string& address) {
  return address.empty() || address.starts_with("127.") || address.starts_with("[::1]") ||
         address.starts_with("localhost:");
}

std::vector<std::string*> addresses_of(torchserve_properties& server) {
  return {&server.inference, &server.management, &server.metrics, &server.grpc_inference,
          &server.grpc_management};
}

// TorchServe requires tokens by default. The import does not take them over, so it restricts the
// listeners to this machine until there are API keys.
torchserve_properties guarded(torchserve_properties server) {
  for (auto* address : addresses_of(server)) {
    if (server.needs_no_token || is_own(*address))
      continue;
    server.notes.push_back(fmt::format(
        "{} IS THIS MACHINE'S OWN HERE: its clients had tokens. `cluster keygen --api NAME "
        "keys.toml` makes keys; with gateway.api_keys = \"keys.toml\" it may be {} again",
        *address, *address));
    *address = fmt::format("127.0.0.1:{}", address->substr(address->rfind(':') + 1));
  }
  return server;
}

// The listeners of [gateway].
std::string gateway_of(torchserve_properties server) {
  std::string toml = "\n[gateway]\n";
  const auto all = addresses_of(server);
  if (!std::ranges::all_of(all, [](const std::string* one) { return is_own(*one); }))
    toml += "allow_unauthenticated = true  # disable_token_authorization\n";
  const auto add = [&](std::string_view key, const std::string& value, std::string_view why) {
    if (!value.empty())
      toml += fmt::format("{} = {}{}\n", key, toml_string(value), why);
  };
  add("torchserve_inference", server.inference, "  # inference_address");
  add("torchserve_management", server.management, "  # management_address");
  add("torchserve_grpc_inference", server.grpc_inference, "  # grpc_inference_port");
  add("torchserve_grpc_management", server.grpc_management, "  # grpc_management_port");
  add("torchserve_metrics", server.metrics, "  # metrics_address");
  add("tls_certificate", server.certificate, "");
  add("tls_key", server.key, "");
  return toml;
}

// The [cluster] table for all workers, if any key is set.
std::string workers_of_server(const torchserve_properties& server) {
  std::string toml;
  if (server.number_of_gpu)
    toml += fmt::format("number_of_gpu = {}\n", *server.number_of_gpu);
  if (server.cpu_launcher_enable)
    toml += "cpu_launcher_enable = true\n";
  if (!server.cpu_launcher_args.empty())
    toml += fmt::format("cpu_launcher_args = {}\n",
                        toml_string(fmt::format("{}", fmt::join(server.cpu_launcher_args, " "))));
  return toml.empty() ? toml : "\n[cluster]\n" + toml;
}

// The [model_store] table, if there is a store.
std::string store_of(const torchserve_properties& server) {
  if (server.model_store.empty())
    return {};
  auto toml = fmt::format("\n[model_store]\npath = {}\n", toml_string(server.model_store));
  std::vector<std::string> loaded;
  for (const auto& m : server.load_models)
    loaded.push_back(toml_string(m));
  if (!loaded.empty())
    toml += fmt::format("load_models = [{}]\n", fmt::join(loaded, ", "));
  if (server.allowed_urls) {
    std::vector<std::string> urls;
    for (const auto& pattern : *server.allowed_urls)
      urls.push_back(toml_string(pattern));
    toml += fmt::format("allowed_urls = [{}]\n", fmt::join(urls, ", "));
  }
  if (server.installs_requirements)
    toml += "install_py_dep_per_model = true\n";
  const auto add = [&](std::string_view key, const std::optional<std::uint32_t>& value) {
    if (value)
      toml += fmt::format("{} = {}\n", key, *value);
  };
  add("default_workers_per_model", server.workers_per_model);
  add("job_queue_size", server.job_queue_size);
  add("default_response_timeout", server.response_timeout);
  add("default_startup_timeout", server.startup_timeout);
  return toml + archive_tables(server.models);
}

// The [model] table of an LLM beside worker models, if there is one.
std::string model_table(const std::string& model, const std::string& name) {
  if (model.empty())
    return {};
  return fmt::format("\n[model]\nname = {}\npath = {}\n", toml_string(name), toml_string(model));
}

std::string header_of(std::string_view file, const imported_config& of) {
  auto toml = fmt::format("# Made of TorchServe's {} by `cluster import`.\n", file);
  for (const auto& note : of.notes)
    toml += toml_comment(note);
  return toml;
}

// The handler's default for the number of generated tokens.
std::optional<std::uint32_t> tokens_of(yaml_reader& in, imported_config& out) {
  if (const auto handler_node = in.root()["handler"]; !handler_node || !handler_node.IsMap())
    return std::nullopt;
  const auto handler = in.map("handler");
  const auto length = in.number(handler, "max_length", 1u << 24);
  const auto tokens = in.number(handler, "max_new_tokens", 1u << 24);
  for (const auto& key : in.rest(handler))
    out.notes.push_back(fmt::format("handler.{} is left out: there is no handler to configure; "
                                    "--handler names one, and makes it a worker",
                                    key));
  return tokens ? tokens : length;
}

// Sets max_num_seqs to batchSize, the number of requests that a worker takes at once.
void add_tickets(yaml_reader& in, std::string& toml) {
  if (!in.flag("useJobTicket"))
    return;
  const auto slots = in.number(in.root(), "batchSize", 16'384).value_or(1);
  toml +=
      fmt::format("use_job_ticket = true  # useJobTicket\nmax_num_seqs = {}  # batchSize\n", slots);
}

result<imported_config> translate(yaml_reader& in, const std::string& model,
                                  const std::string& name, const torchserve_properties& server,
                                  std::uint32_t gpus) {
  imported_config out;
  out.notes = server.notes;
  const auto parallel = layout_of(in, out);
  const auto workers = in.number(in.root(), "minWorkers", pipelines_max).value_or(1);
  const auto all_devices = std::size_t{workers} * parallel.devices();
  if (all_devices > devices_max)
    in.refuse("minWorkers",
              fmt::format("needs {} devices, at most {} are possible", all_devices, devices_max));
  const auto devices = devices_of(in, std::min<std::size_t>(all_devices, devices_max), gpus, out);
  auto queue = in.number(in.root(), "jobQueueSize", 1u << 20);
  queue = queue ? queue : server.job_queue_size;
  std::string tickets;
  add_tickets(in, tickets);
  auto timeout = in.number(in.root(), "responseTimeout", 86'400);
  timeout = timeout ? timeout : server.response_timeout;
  const auto tokens = tokens_of(in, out);
  auto rest = in.rest(in.root());
  if (const auto torchrun = in.map("torchrun"))
    std::ranges::copy(in.rest(torchrun), std::back_inserter(rest));
  for (const auto& key : rest) {
    const auto why = left_out_model_keys.find(key);
    out.notes.push_back(why == left_out_model_keys.end()
                            ? fmt::format("{} IS NOT KNOWN: model-config.yaml has no such key", key)
                            : fmt::format("{} is left out: {}", key, why->second));
  }
  if (in.refusal())
    return *in.refusal();
  out.toml = header_of("model-config.yaml", out) + model_table(model, name);
  if (workers > 1)
    out.toml += fmt::format("replicas = {}  # minWorkers\n", workers);
  out.toml += fmt::format("pipeline_parallel_size = {}\ntensor_parallel_size = {}\n",
                          parallel.stages, parallel.ranks);
  if (queue)
    out.toml += fmt::format("max_num_queued_reqs = {}  # jobQueueSize\n", *queue);
  out.toml += tickets;
  if (timeout) // time between replies: an answer may take any time while replies come
    out.toml += fmt::format("recovery_timeout = {}  # responseTimeout\n", *timeout);
  if (tokens)
    out.toml += fmt::format("\n[model.sampling]\nmax_tokens = {}  # handler\n", *tokens);
  out.toml += workers_of_server(server) + gateway_of(server);
  out.toml += store_of(server);
  out.toml +=
      fmt::format("\n[[nodes]]\nname = \"here\"\ndevices = [{}]\n", fmt::join(devices, ", "));
  return out;
}

} // namespace

result<imported_config> import_torchserve(std::string_view yaml, const std::string& model,
                                          const std::string& name,
                                          const torchserve_properties& asked, std::uint32_t gpus) {
  const auto server = guarded(asked);
  try { // the boundary to yaml-cpp, which throws
    yaml_reader in(YAML::Load(std::string(yaml)));
    if (!in.root().IsMap())
      return fail(errc::bad_config, "it is no map of settings, as a model-config.yaml is");
    return translate(in, model, name, server, gpus);
  } catch (const YAML::Exception& e) {
    return fail(errc::bad_config, "line {}: {}", e.mark.line + 1, e.msg);
  }
}

result<imported_config> import_torchserve_handler(std::string_view yaml,
                                                  const torchserve_handler& handler,
                                                  const std::string& model, const std::string& name,
                                                  const torchserve_properties& asked) {
  const auto server = guarded(asked);
  auto settings = read_torchserve_settings(yaml);
  if (!settings)
    return settings.error();
  imported_config out;
  out.notes = server.notes;
  out.notes.insert(out.notes.end(), settings->notes.begin(), settings->notes.end());
  torchserve_worker worker;
  worker.name = handler.name;
  worker.version = "1.0";
  worker.command = {
      "python3",     "-m", "baton_worker.torchserve", handler.file, "--model-yaml-config",
      handler.config};
  auto& s = worker.settings = *std::move(settings);
  const auto otherwise = [](auto& value, const std::optional<std::uint32_t>& server_default) {
    value = value ? value : server_default;
  };
  otherwise(s.job_queue_size, server.job_queue_size);
  otherwise(s.response_timeout, server.response_timeout);
  otherwise(s.startup_timeout, server.startup_timeout);
  out.toml = header_of("model-config.yaml", out) + model_table(model, name) +
             workers_of_server(server) + gateway_of(server) + store_of(server) + "\n" +
             worker_table(worker);
  return out;
}

imported_config import_torchserve_server(const std::string& model, const std::string& name,
                                         const torchserve_properties& asked) {
  const auto server = guarded(asked);
  imported_config out;
  out.notes = server.notes;
  out.toml = header_of("config.properties", out) + model_table(model, name) +
             workers_of_server(server) + gateway_of(server) + store_of(server);
  return out;
}

} // namespace baton::cluster
