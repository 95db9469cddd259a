#include "cluster/config/readers/config_file.hpp"

#include "cluster/config/pipelines.hpp"
#include "cluster/config/readers/config_checks.hpp"
#include "cluster/config/readers/config_devices.hpp"
#include "cluster/config/readers/config_error.hpp"
#include "cluster/config/readers/config_models.hpp"
#include "cluster/config/readers/config_repository.hpp"
#include "cluster/config/readers/config_text.hpp"
#include "cluster/config/readers/config_workers.hpp"
#include "cluster/files/log_level.hpp"
#include "cluster/formats/toml_section.hpp"
#include "cluster/keys/curve_key.hpp"
#include "gateway/request/request_check.hpp"
#include "gateway/tracing/otlp_endpoint.hpp"
#include "schema/ids.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <sstream>

namespace baton::cluster {
namespace {

result<void> read_gateway(const toml::table* table, const std::string& origin, gateway_section& g) {
  toml_section s(table, "gateway", origin);
  s.read("http", g.http);
  s.read("zmq", g.zmq);
  std::string api_keys;
  std::string certificate;
  std::string key;
  if (table && table->get("api_keys") && table->get("api_keys")->is_array())
    return bad_key(
        origin, "gateway.api_keys",
        "gateway.api_keys must name a file, which holds no readable key: `cluster keygen --api "
        "NAME keys.toml` creates it");
  s.read("api_keys", api_keys);
  s.read("allow_unauthenticated", g.allow_unauthenticated);
  s.read("admin", g.admin);
  s.read("ollama", g.ollama);
  s.read("torchserve_inference", g.torchserve_inference);
  s.read("torchserve_management", g.torchserve_management);
  s.read("torchserve_metrics", g.torchserve_metrics);
  s.read("kserve_grpc", g.kserve_grpc);
  s.read("torchserve_grpc_inference", g.torchserve_grpc_inference);
  s.read("torchserve_grpc_management", g.torchserve_grpc_management);
  s.read("tls_certificate", certificate);
  s.read("tls_key", key);
  s.read("processes", g.processes, 1, gateways_max);
  s.read("threads", g.threads, 1, 64);
  s.read("max_connections", g.max_connections, 1, 1 << 20);
  s.read_bytes("stream_buffer_bytes", g.stream_buffer_bytes, 4 << 10, 1 << 30);
  s.read("max_concurrent_requests", g.max_concurrent_requests, 0, 1 << 20);
  s.read_seconds("request_timeout", g.request_timeout, 0, 86400);
  s.read("overload_status", g.overload_status, 0, UINT32_MAX);
  s.read_number("watermark_gamma", g.watermark_gamma, 0.01, 0.99); // 0 or 1 would not mark anything
  s.read_number("watermark_delta", g.watermark_delta, 0, gateway::watermark_delta_range.most);
  s.read("parse_special_tokens", g.parse_special_tokens);
  s.read("placeholder_models", g.placeholder_models);
  s.read("access_log", g.access_log);
  s.read("otlp_endpoint", g.otlp_endpoint);
  s.read_number("trace_sampling_ratio", g.trace_sampling_ratio, 0, 1);
  if (auto ok = s.finish(); !ok)
    return ok;
  // Clients retry after these three; any other status would mean something else to them.
  constexpr std::array<std::uint32_t, 3> overload_statuses{503, 429, 529};
  if (std::find(overload_statuses.begin(), overload_statuses.end(), g.overload_status) ==
      overload_statuses.end())
    return bad_key(origin, "gateway.overload_status",
                   fmt::format("gateway.overload_status is {}: use {}", g.overload_status,
                               fmt::join(overload_statuses, ", ")));
  if (g.processes > 1 && g.admin.empty())
    return bad_key(
        origin, "gateway.admin",
        "gateway.processes above 1 needs gateway.admin: each gateway has /metrics of its own, "
        "at that port and the ones behind it");
  g.api_keys = api_keys;
  g.tls_certificate = certificate;
  g.tls_key = key;
  if (!g.otlp_endpoint.empty())
    if (const auto where = gateway::parse_otlp_endpoint(g.otlp_endpoint); !where)
      return bad_key(origin, "gateway.otlp_endpoint", where.error().message);
  if (certificate.empty() != key.empty())
    return bad_key(origin, certificate.empty() ? "gateway.tls_certificate" : "gateway.tls_key",
                   "gateway.tls_certificate and gateway.tls_key belong together: give both");
  return {};
}

// No host names: they may resolve differently on each machine, and processes listen there.
bool is_address(const std::string& host) {
  in_addr v4{};
  return inet_pton(AF_INET, host.c_str(), &v4) == 1 && v4.s_addr != INADDR_ANY;
}

// Another loopback address counts as another machine, so one machine can try out a cluster.
bool is_this_machine(const std::string& host, const network_section& network) {
  return host == "localhost" || host == "127.0.0.1" || host == network.host;
}

result<node_config> read_node(const toml::table* table, const std::string& path,
                              const std::string& origin, const network_section& network) {
  node_config n;
  toml_section s(table, path, origin);
  s.read("name", n.name);
  s.read("host", n.host);
  s.read("devices", n.devices);
  s.read("public_key", n.public_key);
  s.read("launch", n.launch);
  s.read("waits", n.waits);
  if (auto ok = s.finish(); !ok)
    return ok.error();
  if (!is_name(n.name))
    return bad_key(origin, path + ".name", path + ".name must be 1 to 64 of [A-Za-z0-9._-]");
  n.is_elsewhere = !is_this_machine(n.host, network);
  if (n.is_elsewhere && !is_address(n.host))
    return bad_key(origin, path + ".host",
                   fmt::format("{}.host is '{}': give the IPv4 address at which the other machines "
                               "reach it",
                               path, n.host));
  if (!n.is_elsewhere && !n.launch.empty())
    return bad_key(
        origin, path + ".launch",
        fmt::format("{}.launch: node {} is on the machine of `cluster up`", path, n.name));
  if (!n.public_key.empty() && !is_curve_key(n.public_key))
    return bad_key(origin, path + ".public_key",
                   path + ".public_key must be 64 hex digits, as `cluster keygen` prints them");
  if (n.is_elsewhere && network.host.empty())
    return bad_key(
        origin, "cluster.host",
        fmt::format("node {} is on another machine ({}): cluster.host must say the address "
                    "at which it reaches this one",
                    n.name, n.host));
  if (n.devices.empty())
    return bad_key(origin, path + ".devices",
                   path + ".devices is missing, for example [\"cpu:0\", \"cpu:1\"]");
  for (const auto& text : n.devices)
    if (auto d = parse_device(text); !d)
      return bad_key(origin, path + ".devices", d.error().message);
  return n;
}

result<void> read_nodes(const toml::node* nodes, const std::string& origin,
                        cluster_config& config) {
  if (config.models.empty())
    return {};
  if (!nodes) {
    config.has_default_layout = true;
    config.nodes = {default_node(config)};
    return {};
  }
  const auto* array = nodes->as_array();
  if (!array || array->empty())
    return bad_key(origin, "nodes",
                   "there is no [[nodes]] table: name at least one machine with its devices");
  std::set<std::string> names;
  std::set<std::string> hosts; // of nodes on other machines
  for (std::size_t i = 0; i < array->size(); ++i) {
    auto path = fmt::format("nodes[{}]", i);
    const auto* table = array->get(i)->as_table();
    if (!table)
      return bad_key(origin, path, path + " must be a table");
    auto node = read_node(table, path, origin, config.network);
    if (!node)
      return node.error();
    if (node->is_elsewhere && !hosts.insert(node->host).second)
      return bad_key(origin, path + ".host",
                     fmt::format("two nodes are on {}: give one node all its devices", node->host));
    if (!names.insert(node->name).second)
      return bad_key(origin, path + ".name", fmt::format("two nodes are named '{}'", node->name));
    node->agent_index = static_cast<std::uint32_t>(i);
    config.nodes.push_back(std::move(*node));
  }
  return {};
}

// Reads the remaining keys of [cluster].
result<void> read_network(toml_section& s, const std::string& origin, network_section& n) {
  std::string key;
  s.read("host", n.host);
  s.read("port", n.port, 1, 60000);
  s.read("key", key);
  if (auto ok = s.finish(); !ok)
    return ok;
  n.key_file = key;
  if (!n.host.empty() && !is_address(n.host))
    return bad_key(
        origin, "cluster.host",
        fmt::format("cluster.host is '{}': give the IPv4 address at which the other machines "
                    "reach this one",
                    n.host));
  return {};
}

result<const toml::table*> sub_table(toml_section& top, const std::string& origin,
                                     std::string_view key) {
  const auto* node = top.take(key);
  if (node && !node->is_table())
    return bad_key(origin, key, fmt::format("{} must be a table: [{}]", key, key));
  return node ? node->as_table() : nullptr;
}

result<cluster_config> read_whole_config(const toml::table& root, const std::string& origin) {
  cluster_config config;
  toml_section top(&root, "", origin);
  const auto* nodes = top.take("nodes");
  const auto* models = top.take("models");
  const auto* workers = top.take("workers");
  const auto* repository = top.take("model_repository");
  const auto* store = top.take("model_store");
  const toml::table* tables[3] = {};
  constexpr std::string_view names[3] = {"cluster", "model", "gateway"};
  for (std::size_t i = 0; i < 3; ++i) {
    auto table = sub_table(top, origin, names[i]);
    if (!table)
      return table.error();
    tables[i] = *table;
  }
  if (auto ok = top.finish(); !ok)
    return ok.error();
  toml_section own(tables[0], "cluster", origin);
  std::string run_dir;
  own.read("name", config.name);
  own.read("run_dir", run_dir);
  own.read("log_level", config.log_level);
  own.read_seconds("shutdown_timeout", config.shutdown_timeout, 0, 86400);
  own.read_seconds("node_timeout", config.node_timeout, 0, 86400);
  own.read("max_loaded_models", config.max_loaded_models, 1, pipelines_max);
  worker_keys of_workers;
  of_workers.read(own);
  if (auto ok = read_network(own, origin, config.network); !ok)
    return ok.error();
  if (auto ok = of_workers.apply(origin, config); !ok)
    return ok.error();
  if (!is_log_level(config.log_level))
    return bad_key(origin, "cluster.log_level",
                   fmt::format("cluster.log_level is '{}': use {}", config.log_level,
                               fmt::join(log_levels(), ", ")));
  if (config.name.empty())
    config.name = std::filesystem::path(origin).stem().string();
  if (!is_name(config.name))
    return bad_key(origin, "cluster.name", "cluster.name must be 1 to 64 of [A-Za-z0-9._-]");
  config.run_dir = run_dir.empty() ? default_run_dir(config.name) : std::filesystem::path(run_dir);
  if (auto ok = read_models(tables[1], models, origin, config); !ok)
    return ok.error();
  if (auto ok = read_gateway(tables[2], origin, config.gateway); !ok)
    return ok.error();
  if (auto ok = read_workers(workers, origin, config); !ok)
    return ok.error();
  if (auto ok = check_aliases(origin, config, models ? "models[0].aliases" : "model.aliases"); !ok)
    return ok.error();
  if (auto ok = read_changing_models(repository, store, origin, config); !ok)
    return ok.error();
  if (auto ok = check_models(origin, config, nodes != nullptr); !ok)
    return ok.error();
  if (auto ok = read_nodes(nodes, origin, config); !ok)
    return ok.error();
  if (auto ok = assign_devices(config); !ok)
    return bad_key(origin, ok.error().param, ok.error().message);
  return config;
}

} // namespace

result<std::string> read_config_file(const std::filesystem::path& file) {
  constexpr std::uintmax_t file_bytes_max = 1 << 20;
  std::error_code failed;
  auto size = std::filesystem::file_size(file, failed);
  if (failed)
    return fail(errc::io_failed, "{}: {}", file.string(), failed.message());
  if (size > file_bytes_max)
    return fail(errc::bad_config, "{}: {} bytes are too many for a configuration", file.string(),
                size);
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  if (!in)
    return fail(errc::io_failed, "{}: cannot be read", file.string());
  return text.str();
}

result<cluster_config> parse_config(std::string_view text, const std::string& origin) {
  auto root = parse_toml(text, origin);
  return root ? read_whole_config(*root, origin) : root.error();
}

result<cluster_config> load_config(const std::filesystem::path& file) {
  auto text = text_of_config(file);
  return text ? parse_config(*text, file.string()) : text.error();
}

} // namespace baton::cluster
