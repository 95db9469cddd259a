// `tritonserver` (Triton's src/command_line_parser.cc), and its frontend with OpenAI's API
// (python/openai/openai_frontend/main.py).
#include "cluster/config/config.hpp"
#include "cluster/config/imported/imported_config.hpp"
#include "cluster/config/readers/sampling_fields.hpp"
#include "cluster/import/launch_args.hpp"
#include "cluster/import/launch_import.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace baton::cluster {
namespace start_line {
namespace {

constexpr std::string_view own_memory = "tensors stay in the memory of their processes";
constexpr std::string_view no_cloud = "there are no endpoints of cloud platforms";
constexpr std::string_view no_grpc_limits = "connections over gRPC have bounds of their own";
constexpr std::string_view loads_at_once = "models start in parallel";
constexpr std::string_view backends =
    "backends are handlers and engines (docs/apis/workers/first.md)";
constexpr std::string_view traced = "gateway.otlp_endpoint receives the spans";

constexpr std::string_view restricted =
    "RESTRICT WITH gateway.api_keys: every route but health needs one";

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
    {"--http-restricted-api --grpc-restricted-protocol", kind::without_a_value, restricted},
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

// The frontend with OpenAI's API (python/openai/openai_frontend/main.py) before the same server.
constexpr option triton_openai_options[] = {
    {"--model-repository", kind::several, "repository"},
    {"--model-control-mode", kind::choice, "control_mode", 0, 0, "none explicit"},
    {"--load-model --startup-models", kind::several, "load_models"},
    {"--host", kind::host, "http_address"},
    {"--openai-port", kind::port, "http_port"},
    {"--enable-kserve-frontends", kind::on, "allow_grpc"},
    {"--kserve-grpc-port", kind::port, "grpc_port"},
    {"--default-max-tokens", kind::number, "max_tokens", 1, sampling_tokens_most},
    {"--kserve-http-port", kind::without_a_value,
     "KSERVE'S ROUTES AND OPENAI'S ARE AT ONE ADDRESS: gateway.http"},
    {"--tokenizer --chat-template", kind::without_a_value, why::from_file},
    {"--backend", kind::without_a_value, "config.pbtxt names the backend"},
    {"--tool-call-parser", kind::without_a_value, why::calls},
    {"--max-tool-call-parse-bytes --http-max-input-size", kind::without_a_value, why::bounded},
    {"--lora-separator", kind::without_a_value, why::adapters},
    {"--openai-restricted-api", kind::without_values, restricted},
    {"--tritonserver-log-verbose-level --uvicorn-log-level", kind::without_a_value, why::logs},
};

const dialect triton_server{.name = "Triton",
                            .host = "",
                            .port = "8000",
                            .variables = "-",
                            .accepts_prefixes = false,
                            .options = triton_options};

const dialect triton_openai{.name = "Triton",
                            .host = "",
                            .port = "9000",
                            .variables = "-",
                            .accepts_prefixes = true,
                            .options = triton_openai_options};

class triton_translation {
public:
  explicit triton_translation(const launch_line& line)
      : line_(line), has_openai_(line.program == launcher::triton_openai),
        in_(has_openai_ ? triton_openai : triton_server) {}
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
  bool has_openai_;
  const dialect& in_;
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
  if (!one.what || one.what->is == kind::without || one.what->is == kind::without_a_value ||
      one.what->is == kind::without_values) {
    out_.notes.push_back(left_out(in_, one));
    return {};
  }
  const auto& o = *one.what;
  if (o.is == kind::on) {
    settings_[std::string(o.to)] = "true";
    return {};
  }
  const auto& value = one.values.front();
  if (o.to == "load_models") {
    for (const auto& model : one.values) {
      if (model != "*" && !is_name(model))
        return fail_param(errc::bad_config, one.name, "{}: '{}' is no model's name", one.name,
                          model);
      loaded_.push_back(toml_string(model));
    }
    return {};
  }
  if (o.to == "repository" && (one.values.size() > 1 || !out_.repository.empty()))
    return fail_param(errc::bad_config, one.name,
                      "{} names several: a repository is one directory here, put the models of "
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
  if (o.to == "max_tokens") {
    out_.default_max_tokens = number;
    return {};
  }
  if (o.is == kind::choice) {
    for (const auto arg : split(o.choices))
      if (arg.substr(0, arg.find('=')) == value) {
        settings_[std::string(o.to)] =
            arg.substr(arg.find('=') == arg.npos ? 0 : arg.find('=') + 1);
        return {};
      }
    return wrong(one, fmt::format("one of {}", o.choices));
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
  out_.tables += fmt::format("\n[gateway]\nhttp = {}\n",
                             address(host, setting("http_port", std::string(in_.port))));
  // The frontend has one address for clients, and serves KServe's API and metrics only if asked.
  const auto allowed = has_openai_ ? "false" : "true";
  if (setting("allow_grpc", allowed) == "true")
    out_.tables += fmt::format("kserve_grpc = {}\n",
                               address(setting("grpc_address", has_openai_ ? host : "0.0.0.0"),
                                       setting("grpc_port", "8001")));
  if (setting("allow_metrics", allowed) == "true")
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
  auto args = parse_args(in_, line_.args);
  if (!args)
    return args.error();
  if (!args->others.empty())
    return fail(errc::bad_config, "'{}' belongs to no option of Triton", args->others.front());
  for (const auto& one : args->options)
    if (auto ok = take(one); !ok)
      return ok.error();
  if (out_.repository.empty())
    return fail(errc::bad_config, "the command names no --model-repository");
  if (auto ok = write(); !ok)
    return ok.error();
  return std::move(out_);
}

} // namespace
} // namespace start_line

result<triton_line> read_triton_line(const launch_line& line) {
  auto read = start_line::triton_translation(line).read();
  if (read)
    start_line::note_variables(line, {}, read->notes);
  return read;
}

} // namespace baton::cluster
