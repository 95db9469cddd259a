// The text of /metrics: own names, and their mirrors under those of other servers.
#include "gateway/auth/authenticator.hpp"
#include "gateway/base/metric_labels.hpp"
#include "gateway/base/snapshot.hpp"
#include "gateway/metrics/metrics.hpp"
#include "gateway/state/gateway_state.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

using namespace baton;
using namespace baton::gateway;

TEST_CASE("metrics have Baton's names, vLLM's and TGI's") {
  snapshot now;
  {
    load_report l;
    l.model = "smol";
    l.running = 3;
    l.blocks_used = 1;
    l.blocks_total = 4;
    l.stage_busy_micros = {1000, 2000};
    l.running_tokens = 70;
    l.running_max_tokens = 90;
    for (const std::uint64_t rows : {1, 20, 20})
      l.step_rows.add(rows, step_rows_borders);
    l.prefill_micros.add(3000, step_micros_borders);
    l.decode_micros.add(800, step_micros_borders);
    l.decode_micros.add(1200, step_micros_borders);
    l.decodes_failed = 2;
    now.pipelines[0].load = l;
    now.cluster.emplace();
    now.cluster->nodes = {
        {process_id{7}, {}, role::shard, "shard-0", phase::ready, {}, 1, 3, 0},
        {process_id{8}, {}, role::agent, "agent-a", phase::recovering, {}, 2, 0, 0}};
    now.cluster->nodes[0].supervision =
        supervision{"agent-a", restart_strategy::one_for_one, 5, 30, 2, true};
  }
  metrics m;
  m.first_token(0, "smol", 0.03);
  m.next_tokens(0, "smol", 2, 0.02);
  m.choice_ended(0, "smol", finish::length, 4);
  m.request_ended(0, "smol",
                  {.seconds = 1.0,
                   .prompt_tokens = 12,
                   .output_tokens = 4,
                   .queue_seconds = 0.125,
                   .prepare_seconds = 0.0625,
                   .first_token_seconds = 0.5,
                   .last_token_seconds = 0.75,
                   .longest_output_tokens = 3,
                   .choices = 2,
                   .max_tokens = 32});
  m.refused("http", errc::overloaded);
  m.http_request("/v1/models", "GET", 200, 0.001);
  m.http_request("other", known_method("BREW"), 404, 0.25);
  m.http_request("/health", "GET", 200, 0.001);
  const auto text = m.text(now, 0, {});
  for (const auto* line :
       {"vllm:num_requests_running{engine=\"0\",model_name=\"smol\"} 3",
        "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"smol\"} 0.25",
        "vllm:prompt_tokens_total{engine=\"0\",model_name=\"smol\"} 12",
        "vllm:generation_tokens_total{engine=\"0\",model_name=\"smol\"} 2",
        "vllm:time_to_first_token_seconds_count{engine=\"0\",model_name=\"smol\"} 1",
        "vllm:inter_token_latency_seconds_count{engine=\"0\",model_name=\"smol\"} 2",
        "vllm:request_success_total{engine=\"0\",finished_reason=\"length\",model_name=\"smol\"} 1",
        "vllm:request_queue_time_seconds_sum{engine=\"0\",model_name=\"smol\"} 0.125",
        "vllm:request_prefill_time_seconds_sum{engine=\"0\",model_name=\"smol\"} 0.3125",
        "vllm:request_decode_time_seconds_sum{engine=\"0\",model_name=\"smol\"} 0.25",
        "vllm:request_inference_time_seconds_sum{engine=\"0\",model_name=\"smol\"} 0.5625",
        "vllm:request_prompt_tokens_bucket{engine=\"0\",model_name=\"smol\",le=\"10\"} 0",
        "vllm:request_prompt_tokens_bucket{engine=\"0\",model_name=\"smol\",le=\"20\"} 1",
        "vllm:request_generation_tokens_sum{engine=\"0\",model_name=\"smol\"} 4",
        "vllm:request_max_num_generation_tokens_sum{engine=\"0\",model_name=\"smol\"} 3",
        "vllm:request_params_n_sum{engine=\"0\",model_name=\"smol\"} 2",
        "vllm:request_params_max_tokens_sum{engine=\"0\",model_name=\"smol\"} 32",
        "vllm:iteration_tokens_total_bucket{engine=\"0\",model_name=\"smol\",le=\"1\"} 1",
        "vllm:iteration_tokens_total_bucket{engine=\"0\",model_name=\"smol\",le=\"32\"} 3",
        "vllm:iteration_tokens_total_bucket{engine=\"0\",model_name=\"smol\",le=\"+Inf\"} 3",
        "vllm:iteration_tokens_total_sum{engine=\"0\",model_name=\"smol\"} 41",
        "http_requests_total{handler=\"/v1/models\",method=\"GET\",status=\"2xx\"} 1",
        "http_requests_total{handler=\"none\",method=\"other\",status=\"4xx\"} 1",
        "http_request_duration_seconds_bucket{handler=\"none\",method=\"other\",le=\"0.1\"} 0",
        "http_request_duration_seconds_bucket{handler=\"none\",method=\"other\",le=\"0.5\"} 1",
        "baton_requests_refused_total{door=\"http\",reason=\"overloaded\"} 1",
        "baton_http_requests_total{code=\"200\",route=\"/v1/models\"} 1",
        "baton_stage_busy_seconds_total{model_name=\"smol\",stage=\"1\"} 0.002",
        "baton_ready 0",
        "tgi_batch_current_size{engine=\"0\",model_name=\"smol\"} 3",
        "tgi_request_success{engine=\"0\",model_name=\"smol\"} 1",
        "tgi_request_failure{err=\"overloaded\"} 1",
        "tgi_request_count 0",
        "tgi_request_input_length_sum{engine=\"0\",model_name=\"smol\"} 12",
        "tgi_request_generated_tokens_sum{engine=\"0\",model_name=\"smol\"} 4",
        "tgi_request_mean_time_per_token_duration_sum{engine=\"0\",model_name=\"smol\"} 0.25",
        "tgi_request_validation_duration_sum{engine=\"0\",model_name=\"smol\"} 0.0625",
        "tgi_request_queue_duration_sum{engine=\"0\",model_name=\"smol\"} 0.125",
        "tgi_request_inference_duration_sum{engine=\"0\",model_name=\"smol\"} 0.8125",
        "tgi_request_max_new_tokens_sum{engine=\"0\",model_name=\"smol\"} 32",
        "tgi_batch_total_tokens{engine=\"0\",model_name=\"smol\"} 70",
        "tgi_batch_current_max_tokens{engine=\"0\",model_name=\"smol\"} 90",
        "tgi_batch_inference_count{engine=\"0\",model_name=\"smol\",method=\"decode\"} 4",
        "tgi_batch_inference_success{engine=\"0\",model_name=\"smol\",method=\"decode\"} 2",
        "tgi_batch_inference_failure{engine=\"0\",model_name=\"smol\",method=\"decode\"} 2",
        "tgi_batch_inference_count{engine=\"0\",model_name=\"smol\",method=\"prefill\"} 1",
        "tgi_batch_inference_duration_sum{engine=\"0\",model_name=\"smol\",method=\"decode\"} "
        "0.002",
        "tgi_batch_forward_duration_sum{engine=\"0\",model_name=\"smol\",method=\"prefill\"} "
        "0.003",
        "nv_cpu_utilization ",
        "nv_cpu_memory_total_bytes ",
        "nv_cpu_memory_used_bytes ",
        "baton_process_ready{process=\"shard-0\",role=\"shard\"} 1",
        "baton_process_ready{process=\"agent-a\",role=\"agent\"} 0",
        "baton_process_restarts_total{process=\"shard-0\",role=\"shard\"} 3",
        "baton_supervision_restarts_recent{process=\"shard-0\",strategy=\"one_for_one\","
        "supervisor=\"agent-a\"} 2",
        "baton_supervision_restarts_max{process=\"shard-0\",strategy=\"one_for_one\","
        "supervisor=\"agent-a\"} 5",
        "baton_supervision_period_seconds{process=\"shard-0\",strategy=\"one_for_one\","
        "supervisor=\"agent-a\"} 30",
        "baton_supervision_given_up{process=\"shard-0\",strategy=\"one_for_one\","
        "supervisor=\"agent-a\"} 1"}) {
    CAPTURE(line);
    CHECK(text.find(line) != std::string::npos);
  }
  // Documented as absent: there is no true value.
  for (const auto* name : {"handler=\"/health\"",
                           "vllm:lora_requests_info",
                           "vllm:kv_block_",
                           "vllm:cache_config_info",
                           "vllm:engine_sleep_state",
                           "vllm:time_per_output_token_seconds",
                           "vllm:gpu_",
                           "http_request_size_bytes",
                           "http_response_size_bytes",
                           "http_request_duration_highr_seconds",
                           "tgi_batch_next_size",
                           "tgi_batch_concat",
                           "tgi_batch_filter_duration",
                           "tgi_batch_decode_duration",
                           "tgi_request_skipped_tokens",
                           "nv_gpu_",
                           "nv_energy_consumption",
                           "nv_cache_",
                           "nv_pinned_memory_pool_",
                           "_summary_us"}) {
    CAPTURE(name);
    CHECK(text.find(name) == std::string::npos);
  }
  CHECK(text.find("nv_cpu_memory_total_bytes 0\n") == std::string::npos);
}

TEST_CASE("unknown phases are omitted") {
  metrics m;
  m.request_ended(0, "smol", {.seconds = 1.0, .is_well = false, .queue_seconds = 0.5});
  const auto text = m.text(snapshot(), 0, {});
  for (const auto* name : {"e2e_request_latency_seconds", "request_queue_time_seconds"})
    CHECK(text.find(fmt::format("vllm:{}_count{{engine=\"0\",model_name=\"smol\"}} 1", name)) !=
          std::string::npos);
  for (const auto* name : {"request_prefill_time_seconds", "request_decode_time_seconds",
                           "request_inference_time_seconds", "request_params_n",
                           "request_params_max_tokens", "request_max_num_generation_tokens"})
    CHECK(text.find(fmt::format("vllm:{}_count{{engine=\"0\",model_name=\"smol\"}} 0", name)) !=
          std::string::npos);
}

TEST_CASE("known counters are 0 before their first event") {
  metrics m;
  snapshot now;
  now.pipelines.resize(2);
  now.pipelines[0].model = now.pipelines[1].model = "smol";
  const std::vector<key_usage> keys{{"ops", 0, 0, {{"requests_per_minute", 4}}}};
  const auto text = m.text(now, 0, keys);
  const auto has = [&text](const std::string& line) {
    CAPTURE(line);
    CHECK(text.find(line + "\n") != std::string::npos);
  };
  for (const auto* protocol : {"http", "websocket", "zmq", "grpc"}) {
    for (const auto* family : {"baton_requests_opened_total", "baton_clients_gone_total"}) {
      has(fmt::format("{}{{door=\"{}\"}} 0", family, protocol));
    }
    for (const auto* reason : {"overloaded", "rate_limit_exceeded", "invalid_value", "not_ready",
                               "unauthorized", "queue_timeout", "conflict"}) {
      has(fmt::format("baton_requests_refused_total{{door=\"{}\",reason=\"{}\"}} 0", protocol,
                      reason));
    }
  }
  for (const auto* how : {"stop", "length", "abort", "error"}) {
    has(fmt::format("baton_choices_ended_total{{how=\"{}\",model_name=\"smol\"}} 0", how));
    has(fmt::format("vllm:request_success_total{{engine=\"1\",finished_reason=\"{}\",model_name="
                    "\"smol\"}} 0",
                    how));
  }
  for (const auto* why : {"load", "prefix", "request_id", "resume", "moved"}) {
    has(fmt::format(
        "baton_router_requests_total{{engine=\"0\",model_name=\"smol\",reason=\"{}\"}} 0", why));
  }
  has("baton_streams_moved_total{engine=\"1\",model_name=\"smol\"} 0");
  has("baton_requests_resumed_total{why=\"client\"} 0");
  has("tgi_request_failure{err=\"overloaded\"} 0");
  has("tgi_request_failure{err=\"validation\"} 0");
  has("tgi_request_success{engine=\"0\",model_name=\"smol\"} 0");
  has("nv_inference_request_failure{model=\"smol\",reason=\"CANCELED\",version=\"1\"} 0");
  has("baton_key_refused_total{key=\"ops\",quota=\"requests_per_minute\"} 4");
  has("baton_key_refused_total{key=\"ops\",quota=\"tokens_per_minute\"} 0");
}

// A counted label that is not listed would begin with its first event.
TEST_CASE("the labels counted in the gateway's sources are those that begin at 0") {
  const auto listed = [](const auto& words) {
    return std::set<std::string>(std::begin(words), std::end(words));
  };
  std::set<std::string> dropped, came_back, protocols;
  const std::regex drop("dropped\\(\"([a-z_]+)\"\\)");
  const std::regex back("note_resumed\\(entry, (is_news \\? )?\"([a-z_]+)\"( : \"([a-z_]+)\")?\\)");
  const std::regex protocol("opener\\([a-z]+, b, \"([a-z]+)\"|client_gone\\(\"([a-z]+)\"");
  for (const auto& file :
       std::filesystem::recursive_directory_iterator(BATON_SOURCE_DIR "/gateway")) {
    if (!file.is_regular_file()) {
      continue;
    }
    std::ifstream in(file.path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const auto all = [&text](const std::regex& of, int group, std::set<std::string>& to) {
      for (auto it = std::sregex_iterator(text.begin(), text.end(), of);
           it != std::sregex_iterator(); ++it) {
        if ((*it)[static_cast<std::size_t>(group)].matched) {
          to.insert((*it)[static_cast<std::size_t>(group)]);
        }
      }
    };
    all(drop, 1, dropped);
    all(back, 2, came_back);
    all(back, 4, came_back);
    all(protocol, 1, protocols);
    all(protocol, 2, protocols);
  }
  CHECK(dropped == listed(drop_kinds));
  CHECK(came_back == listed(resume_reasons));
  CHECK(protocols == std::set<std::string>{"grpc", "http", "websocket", "zmq"});
  for (const auto& name : protocols) {
    CHECK(listed(protocol_labels).contains(name));
  }
}

TEST_CASE("restarts and executions do not fall when a root, a process or a model restarts") {
  gateway_config config;
  config.pipelines = {};
  gateway_state facts(config);
  const auto has = [&](const std::string& line) {
    const auto text = facts.metrics().text(*facts.look(), 0, {}, facts.worker_views());
    CAPTURE(line);
    CHECK(text.find(line + "\n") != text.npos);
  };
  const auto report_restarts = [&](std::uint32_t restarts) {
    cluster_status now;
    now.nodes = {{process_id{7}, {}, role::worker, "worker-w-0", phase::ready, {}, 1, restarts, 0}};
    facts.take(now);
  };
  const auto view = [] { // of a pool that has just begun
    worker_view one;
    one.name = "w";
    one.version = "1";
    one.load = std::make_shared<worker_load>();
    return one;
  };
  const std::string restarts =
      "baton_process_restarts_total{process=\"worker-w-0\",role=\"worker\"} ";
  const std::string executions = "nv_inference_exec_count{model=\"w\",version=\"1\"} ";
  report_restarts(3);
  has(restarts + "3");
  report_restarts(1); // of another root
  has(restarts + "4");
  facts.take({}); // unloaded
  report_restarts(0);
  report_restarts(2);
  has(restarts + "6");
  facts.set_workers(nullptr, {view()}, {});
  has(executions + "0");
  facts.metrics().worker_executed("w", "1");
  facts.metrics().worker_executed("w", "1");
  has(executions + "2");
  facts.set_workers(nullptr, {}, {});
  has(executions + "2");
  facts.set_workers(nullptr, {view()}, {});
  has(executions + "2");
}

TEST_CASE("no gauge has the name of a counter, except for those of the previous version") {
  snapshot now;
  load_report load;
  load.model = "smol";
  load.blocks_total = 4;
  load.swap_blocks_total = 8;
  now.pipelines[0].load = load;
  const auto text = metrics().text(now, 0, {});
  std::set<std::string> wrong;
  const std::regex type("# TYPE (\\S+_total) (gauge|histogram)\n");
  for (auto it = std::sregex_iterator(text.begin(), text.end(), type); it != std::sregex_iterator();
       ++it) {
    wrong.insert((*it)[1]);
  }
  CHECK(wrong == std::set<std::string>{"baton_blocks_total", "baton_swap_blocks_total",
                                       "vllm:iteration_tokens_total"}); // vLLM's own name
  CHECK(text.find("baton_blocks{engine=\"0\",model_name=\"smol\"} 4\n") != std::string::npos);
  CHECK(text.find("baton_swap_blocks{engine=\"0\",model_name=\"smol\"} 8\n") != std::string::npos);
}
