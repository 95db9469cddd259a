// The text of /metrics: own names, and their mirrors under those of other servers.
#include "gateway/gate.hpp"
#include "gateway/metrics.hpp"
#include "gateway/snapshot.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace baton;
using namespace baton::gateway;

TEST_CASE("metrics have the own names, vLLM's and TGI's") {
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
    now.cluster->nodes = {{node_id{7}, {}, role::shard, "shard-0", phase::ready, {}, 1, 3, 0},
                          {node_id{8}, {}, role::agent, "agent-a", phase::recovering, {}, 2, 0, 0}};
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
                   .tokens_max = 32});
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
  // What the documents call absent: nothing true could be told.
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

TEST_CASE("phases that are not known to have been are not told") {
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
