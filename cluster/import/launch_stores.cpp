// Servers with a model store: `torchserve` (archives) and `tritonserver` (a repository). Options:
// TorchServe's ts/arg_parser.py; Triton's src/command_line_parser.cc.
#include "cluster/config/config_repository.hpp"
#include "cluster/config/imported/imported_config.hpp"
#include "cluster/import/launch_args.hpp"
#include "cluster/import/launch_import.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace baton::cluster {
namespace start_line {
namespace {

constexpr option torchserve_options[] = {
    {"--ts-config --ts-config-file", kind::text, "config"},
    {"--model-store", kind::text, "model_store"},
    {"--models", kind::several, "load_models"},
    {"--start", kind::on, "start"},
    {"--stop", kind::off, "stop"},
    {"--version -v", kind::off, "version"},
    {"--foreground", kind::without, "`cluster up` runs in the foreground"},
    {"--no-config-snapshots --ncs", kind::without, "no snapshots are written"},
    {"--workflow-store", kind::without_a_value, "THERE ARE NO WORKFLOWS"},
    {"--log-config --cpp-log-config", kind::without_a_value, why::logs},
    {"--plugins-path --ppath", kind::without_a_value, why::no_hooks},
    {"--disable-token-auth --dt", kind::on, "disable_token_authorization"},
    {"--enable-model-api", kind::without, "models always come and go by the management API"},
};

constexpr std::string_view own_memory = "tensors stay in the memory of their processes";
constexpr std::string_view no_cloud = "there are no endpoints of cloud platforms";
constexpr std::string_view no_grpc_limits = "connections over gRPC have bounds of their own";
constexpr std::string_view loads_at_once = "models start in parallel";
constexpr std::string_view backends =
    "backends are handlers and engines (docs/apis/workers/first.md)";
constexpr std::string_view traced = "gateway.otlp_endpoint receives the spans";

constexpr option triton_options[] = {
    {"--model-repository --model-store", kind::several, "repository"},
    {"--model-control-mode", kind::choice, "control_mode", 0, 0, "none poll explicit"},
    {"--repository-poll-secs", kind::number, "poll_seconds", 1, 86'400},
    {"--load-model", kind::several, "load_models"},
    {"--http-port", kind::port, "http_port"},
    {"--http-address", kind::host, "http_address"},
    {"--grpc-port", kind::port, "grpc_port"},
    {"--grpc-address", kind::host, "grpc_address"},
    {"--metrics-port", kind::port, "metrics_port"},
    {"--allow-grpc", kind::choice, "allow_grpc", 0, 0, "true false 1=true 0=false"},
    {"--allow-metrics", kind::choice, "allow_metrics", 0, 0, "true false 1=true 0=false"},
    {"--exit-timeout-secs", kind::number, "shutdown_timeout", 0, 86'400},
    {"--http-thread-count", kind::number, "threads", 1, 64},
    {"--allow-http", kind::without_a_value, "gateway.http is always there"},
    {"--metrics-address", kind::without_a_value, "gateway.admin is on this machine alone"},
    {"--id", kind::without_a_value, "the server's name is triton, as Triton's is without --id"},
    {"--exit-on-error --strict-readiness --model-load-retry-count", kind::without_a_value,
     "a model that cannot be served is UNAVAILABLE and costs the others nothing"},
    {"--disable-auto-complete-config", kind::without,
     "fields that config.pbtxt omits come from the model's files"},
    {"--strict-model-config", kind::without_a_value,
     "fields that config.pbtxt omits come from the model's files"},
    {"--model-config-name", kind::without_a_value, "CONFIG.PBTXT ALONE IS READ"},
    {"--model-namespacing", kind::without_a_value, "MODELS HAVE ONE NAME SPACE"},
    {"--model-load-thread-count --model-load-gpu-limit", kind::without_a_value, loads_at_once},
    {"--enable-peer-access --pinned-memory-pool-byte-size --cuda-memory-pool-byte-size "
     "--cuda-virtual-address-size --min-supported-compute-capability "
     "--buffer-manager-thread-count --host-policy --allow-client-shm",
     kind::without_a_value, own_memory},
    {"--reuse-http-port --reuse-grpc-port", kind::without_a_value,
     "gateway.processes share the port"},
    {"--http-header-forward-pattern --grpc-header-forward-pattern", kind::without_a_value,
     "headers are not given to models"},
    {"--http-max-input-size", kind::without_a_value, why::bounded},
    {"--http-restricted-api --grpc-restricted-protocol", kind::without_a_value,
     "RESTRICT WITH gateway.api_keys: every route but health needs one"},
    {"--grpc-infer-thread-count --grpc-infer-allocation-pool-size "
     "--grpc-max-response-pool-size --grpc-infer-response-compression-level "
     "--grpc-keepalive-time --grpc-keepalive-timeout --grpc-keepalive-permit-without-calls "
     "--grpc-http2-max-pings-without-data --grpc-http2-min-recv-ping-interval-without-data "
     "--grpc-http2-max-ping-strikes --grpc-max-connection-age --grpc-max-connection-age-grace",
     kind::without_a_value, no_grpc_limits},
    {"--grpc-use-ssl", kind::without_a_value, "gateway.tls_certificate applies to all listeners"},
    {"--grpc-use-ssl-mutual --grpc-root-cert", kind::without_a_value,
     "CLIENTS SHOW KEYS, not certificates"},
    {"--grpc-server-cert", kind::text, "tls_certificate"},
    {"--grpc-server-key", kind::text, "tls_key"},
    {"--log-verbose --log-info --log-warning --log-error --log-format --log-file",
     kind::without_a_value, why::logs},
    {"--allow-sagemaker --sagemaker-port --sagemaker-safe-port-range --sagemaker-thread-count "
     "--allow-vertex-ai --vertex-ai-port --vertex-ai-thread-count --vertex-ai-default-model",
     kind::without_a_value, no_cloud},
    {"--allow-gpu-metrics --allow-cpu-metrics --metrics-interval-ms --metrics-config",
     kind::without_a_value, why::metrics},
    {"--trace-config --trace-file --trace-level --trace-rate --trace-count "
     "--trace-log-frequency",
     kind::without_a_value, traced},
    {"--cache-config --cache-directory --response-cache-byte-size", kind::without_a_value,
     "answers are not kept"},
    {"--rate-limit --rate-limit-resource", kind::without_a_value,
     "the queues of models set the bounds"},
    {"--backend-directory --backend-config --repoagent-directory", kind::without_a_value, backends},
};

const dialect torchserve{.name = "TorchServe",
                         .host = "127.0.0.1",
                         .port = "8080",
                         .variables = "-",
                         .accepts_prefixes = true,
                         .options = torchserve_options};
const dialect triton{.name = "Triton",
                     .host = "",
                     .port = "8000",
                     .variables = "-",
                     .accepts_prefixes = false,
                     .options = triton_options};

class triton_translation {
public:
  explicit triton_translation(const launch_line& line) : line_(line) {}
  result<triton_line> read();

private:
  result<void> take(const parsed_option& parsed);
  result<void> write();
  // The address of this listener for clients: "0.0.0.0:8000".
  std::string address(const std::string& host, const std::string& port);
  std::string setting(const std::string& key, const std::string& otherwise) const {
    const auto it = settings_.find(key);
    return it == settings_.end() ? otherwise : it->second;
  }

  const launch_line& line_;
  std::map<std::string, std::string> settings_;
  std::vector<std::string> loaded_;
  bool is_open_ = false;
  triton_line out_;
};

error wrong(const parsed_option& parsed, std::string_view needed) {
  return fail_param(errc::bad_config, parsed.name, "{} is '{}': {} is needed", parsed.name,
                    parsed.values.front(), needed);
}

result<void> triton_translation::take(const parsed_option& one) {
  if (!one.what || is_bare(one.what->is) || one.what->is == kind::without_a_value) {
    out_.notes.push_back(left_out(triton, one));
    return {};
  }
  const auto& o = *one.what;
  const auto& value = one.values.front();
  if (o.to == "load_models") {
    if (value != "*" && !is_name(value))
      return wrong(one, "a model's name");
    loaded_.push_back(toml_string(value));
    return {};
  }
  if (o.to == "repository" && !out_.repository.empty())
    return fail_param(errc::bad_config, one.name,
                      "{} is given twice: a repository is one directory here, put the models of "
                      "several into one, as links",
                      one.name);
  if (o.to == "repository") {
    out_.repository = line_.outside(value);
    return {};
  }
  std::uint32_t number = 0;
  const auto* end = value.data() + value.size();
  const bool is_number = std::from_chars(value.data(), end, number).ptr == end && !value.empty();
  if (o.is == kind::port && (!is_number || number == 0 || number > 65535))
    return wrong(one, "a port");
  if (o.is == kind::number && (!is_number || number < o.least || number > o.most))
    return wrong(one, fmt::format("a number from {} to {}", o.least, o.most));
  if (o.is == kind::choice) {
    for (const auto arg : split(o.choices))
      if (arg.substr(0, arg.find('=')) == value)
        settings_[std::string(o.to)] =
            arg.substr(arg.find('=') == arg.npos ? 0 : arg.find('=') + 1);
    if (!settings_.contains(std::string(o.to)))
      return wrong(one, fmt::format("one of {}", o.choices));
    return {};
  }
  settings_[std::string(o.to)] = o.is == kind::text ? line_.outside(value) : value;
  return {};
}

std::string triton_translation::address(const std::string& host, const std::string& port) {
  auto at = line_.reached_at(host, port);
  if (at.host == "localhost")
    at.host = "127.0.0.1";
  is_open_ = is_open_ || (at.host != "127.0.0.1" && at.host != "::1");
  return toml_string(at.text());
}

result<void> triton_translation::write() {
  const auto control = setting("control_mode", "none");
  if (!loaded_.empty() && control != "explicit")
    return fail(errc::bad_config, "--load-model is for --model-control-mode=explicit");
  if (const auto grace = setting("shutdown_timeout", ""); !grace.empty())
    out_.tables += fmt::format("\n[cluster]\nshutdown_timeout = {}\n", grace);
  // Triton's default is all addresses.
  const auto host = setting("http_address", "0.0.0.0");
  out_.tables +=
      fmt::format("\n[gateway]\nhttp = {}\n", address(host, setting("http_port", "8000")));
  if (setting("allow_grpc", "true") == "true")
    out_.tables += fmt::format("kserve_grpc = {}\n", address(setting("grpc_address", "0.0.0.0"),
                                                             setting("grpc_port", "8001")));
  if (setting("allow_metrics", "true") == "true")
    out_.tables += fmt::format("admin = \"127.0.0.1:{}\"\n", setting("metrics_port", "8002"));
  if (is_open_) {
    out_.tables += "allow_unauthenticated = true\n";
    out_.notes.emplace_back("gateway.allow_unauthenticated: any client that reaches the address "
                            "may send requests, as before");
  }
  for (const auto* key : {"tls_certificate", "tls_key"})
    if (const auto file = setting(key, ""); !file.empty())
      out_.tables += fmt::format("{} = {}\n", key, toml_string(file));
  if (const auto threads = setting("threads", ""); !threads.empty())
    out_.tables += fmt::format("threads = {}\n", threads);
  out_.tables += fmt::format("\n[model_repository]\npath = {}\ncontrol_mode = \"{}\"\n",
                             toml_string(out_.repository), control);
  if (const auto seconds = setting("poll_seconds", ""); !seconds.empty() && control == "poll")
    out_.tables += fmt::format("poll_seconds = {}\n", seconds);
  if (!loaded_.empty())
    out_.tables += fmt::format("load_models = [{}]\n", fmt::join(loaded_, ", "));
  return {};
}

result<triton_line> triton_translation::read() {
  out_.notes = line_.notes;
  auto args = parse_args(triton, line_.args);
  if (!args)
    return args.error();
  if (!args->others.empty())
    return fail(errc::bad_config, "'{}' belongs to no option of tritonserver",
                args->others.front());
  for (const auto& one : args->options)
    if (auto ok = take(one); !ok)
      return ok.error();
  if (out_.repository.empty())
    return fail(errc::bad_config, "the command names no --model-repository");
  if (auto ok = write(); !ok)
    return ok.error();
  return std::move(out_);
}

// A line of config.properties; control characters are replaced, so it stays one line.
std::string property(std::string_view key, std::string value) {
  std::ranges::replace_if(
      value, [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  return fmt::format("{}={}\n", key, value);
}

} // namespace
} // namespace start_line

namespace {

// Notes all environment variables except `read`: these servers' options cannot be set by them.
void note_variables(const launch_line& line, std::string_view read,
                    std::vector<std::string>& notes) {
  for (const auto& [name, value] : line.variables)
    if (name != read)
      notes.push_back(fmt::format("the variable {} is left out: {}", name,
                                  name.starts_with("TS_")
                                      ? "settings are those of options and config.properties"
                                      : "workers have the environment of `cluster up`"));
}

} // namespace

result<torchserve_line> read_torchserve_line(const launch_line& line) {
  torchserve_line out;
  out.notes = line.notes;
  auto args = start_line::parse_args(start_line::torchserve, line.args);
  if (!args)
    return args.error();
  if (!args->others.empty())
    return fail(errc::bad_config, "'{}' belongs to no option of torchserve", args->others.front());
  for (const auto& one : args->options) {
    if (one.what && one.what->is == start_line::kind::off)
      return fail(errc::bad_config, "{} starts no server", one.name);
    if (!one.what || one.what->is == start_line::kind::without ||
        one.what->is == start_line::kind::without_a_value)
      out.notes.push_back(start_line::left_out(start_line::torchserve, one));
    else if (one.what->to == "disable_token_authorization")
      out.properties += start_line::property("disable_token_authorization", "true");
    else if (one.what->to == "config")
      out.file = line.outside(one.values.front());
    else if (one.what->to == "model_store")
      out.properties += start_line::property("model_store", line.outside(one.values.front()));
    else if (one.what->to == "load_models")
      out.properties +=
          start_line::property("load_models", fmt::format("{}", fmt::join(one.values, ",")));
  }
  // TS_CONFIG_FILE overrides the option, as TorchServe's documentation says.
  if (const auto it = line.variables.find("TS_CONFIG_FILE"); it != line.variables.end())
    out.file = line.outside(it->second);
  note_variables(line, "TS_CONFIG_FILE", out.notes);
  // The image's own file, unless something is mounted over it (docker/config.properties).
  const std::string of_image = "/home/model-server/config.properties";
  if (out.file.empty() && line.image.find("torchserve") != line.image.npos)
    out.file = line.outside(of_image);
  if (out.file == of_image) {
    out.file.clear();
    out.properties = "inference_address=http://0.0.0.0:8080\nmanagement_address=http://0.0.0.0:8081"
                     "\nmetrics_address=http://0.0.0.0:8082\njob_queue_size=1000\n"
                     "model_store=/home/model-server/model-store\n" +
                     out.properties;
  }
  return out;
}

result<triton_line> read_triton_line(const launch_line& line) {
  auto read = start_line::triton_translation(line).read();
  if (read)
    note_variables(line, {}, read->notes);
  return read;
}

} // namespace baton::cluster
