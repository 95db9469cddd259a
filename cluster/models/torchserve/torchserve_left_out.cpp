#include "cluster/models/torchserve/torchserve_left_out.hpp"

namespace baton::cluster {

namespace {

struct left_out_key {
  const char *key, *why;
};
constexpr left_out_key left_out_rows[] = {
    {"load_models", "there is no model_store"},
    {"default_workers_per_model", "there is no model_store"},
    {"models", "there is no model_store"},
    {"number_of_netty_threads", "gateway.threads"},
    {"max_request_size", "a body has at most 4 MiB"},
    {"max_response_size", "answers are streamed: nothing bounds them but max_tokens"},
    {"disable_token_authorization", "without gateway.api_keys no client needs a key"},
    {"grpc_inference_address", "grpc_inference_port enables gRPC"},
    {"grpc_management_address", "grpc_management_port enables gRPC"},
    {"keystore", "certificates are PEM files: gateway.tls_certificate, gateway.tls_key"},
    {"metrics_mode", "metrics are Prometheus'"},
    {"workflow_store",
     "THERE ARE NO WORKFLOWS: a worker that asks the others (docs/apis/workers/other-models.md, "
     "Other models) takes the place of a .war file"},
    {"allowed_urls", "there is no model_store"},
    {"install_py_dep_per_model", "there is no model_store"},
    {"enable_envvars_config", "it is not \"true\": no TS_* variable is a setting"},
    {"blacklist_env_vars", "a handler has the environment of `cluster up`"},
    {"netty_client_threads", "each worker has a connection of its own"},
    {"prefer_direct_buffer", "buffers are the server's own"},
    {"async_logging", "logs are written as they come"},
    {"vmargs", "no JVM runs"},
    {"debug", "cluster.log_level sets how much is logged"},
    {"ipex_enable", "the handler imports what it computes with"},
    {"ipex_gpu_enable", "the handler imports what it computes with"},
    {"cpu_launcher_args", "cpu_launcher_enable is not true"},
    {"default_service_handler", "an archive names its handler"},
    {"service_envelope", "TS_SERVICE_ENVELOPE in the environment of `cluster up` has the same "
                         "effect; this file is not read again"},
    {"enable_grpc_ssl", "gateway.tls_certificate applies to all listeners"},
    {"initial_distribution_port", "workers are reached over sockets in the run directory"},
    {"ts_open_inference_protocol", "KServe's API is always there"},
    {"token_expiration_min", "keys are valid until their file changes"},
    {"ts_header_key_sequence_id", "SEQUENCES ARE NOT KEPT TOGETHER"},
    {"ts_header_key_sequence_start", "SEQUENCES ARE NOT KEPT TOGETHER"},
    {"ts_header_key_sequence_end", "SEQUENCES ARE NOT KEPT TOGETHER"},
    {"use_native_io", "the server's own threads read and write"},
    {"io_ratio", "the server's own threads read and write"},
    {"metric_time_interval", "metrics are computed when they are read"},
    {"version", "the version is this server's"},
    {"use_env_allowed_urls", "model_store.allowed_urls lists the allowed URLs: TS_ALLOWED_URLS "
                             "of the environment is not read"},
    {"python", "the python3 of `cluster up` runs handlers"},
    {"unregister_model_timeout", "a worker that stops finishes its requests"},
    {"decode_input_request", "a body is decoded by its Content-Type, unless the environment of "
                             "`cluster up` has TS_DECODE_INPUT_REQUEST=false"},
    {"initial_worker_port", "workers are reached over sockets in the run directory"},
    {"model_server_home", "paths are relative to where `cluster up` runs"},
    {"limit_max_image_pixels", "the handler's own libraries decode images"},
    {"disable_system_metrics", "metrics of the machine are the gateway's own"},
    {"system_metrics_cmd", "metrics of the machine are the gateway's own"},
    {"metrics_format", "metrics are Prometheus'"},
    {"metrics_config", "a handler's metrics are those that it adds; one that asks get_metric for "
                       "others finds them with TS_METRICS_CONFIG=FILE in the environment of "
                       "`cluster up`"},
    {"model_metrics_auto_detect", "a handler's metrics are those that it adds"},
    {"model_snapshot", "no snapshots are written"},
    {"enable_model_api", "models always come and go by the management API"},
    {"plugins_path", "no third-party code runs in the server"},
    {"cpp_log_config", "logs are lines of text in the run directory"},
    {"keystore_pass", "certificates are PEM files: gateway.tls_certificate, gateway.tls_key"},
    {"keystore_type", "certificates are PEM files: gateway.tls_certificate, gateway.tls_key"},
    {"cors_allowed_origin", "PAGES OF OTHER SITES ARE REFUSED"},
    {"cors_allowed_methods", "PAGES OF OTHER SITES ARE REFUSED"},
    {"cors_allowed_headers", "PAGES OF OTHER SITES ARE REFUSED"},
    {"grpc_inference_max_connection_age_ms", "a gRPC connection may stay as long as it is used"},
    {"grpc_management_max_connection_age_ms", "a gRPC connection may stay as long as it is used"},
    {"grpc_inference_max_connection_age_grace_ms",
     "a gRPC connection may stay as long as it is used"},
    {"grpc_management_max_connection_age_grace_ms",
     "a gRPC connection may stay as long as it is used"},
};

} // namespace

const std::map<std::string, std::string, std::less<>>& torchserve_left_out() {
  static const auto all = [] {
    std::map<std::string, std::string, std::less<>> by_key;
    for (const auto& row : left_out_rows)
      by_key.emplace(row.key, row.why);
    return by_key;
  }();
  return all;
}

} // namespace baton::cluster
