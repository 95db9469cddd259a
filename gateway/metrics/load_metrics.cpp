#include "gateway/metrics/load_metrics.hpp"

#include "gateway/base/metric_family.hpp"

#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>

namespace baton::gateway {
namespace {

using namespace prometheus;

double share_of(std::uint32_t part, std::uint32_t all) {
  return all == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(all);
}

std::vector<one_value> values_of(const load_report& l) {
  constexpr auto gauge = MetricType::Gauge;
  constexpr auto counter = MetricType::Counter;
  const auto number = [](std::uint64_t n) { return static_cast<double>(n); };
  return {
      {"baton_requests_running", "Sequences in steps.", gauge, number(l.running)},
      {"baton_requests_waiting", "Tickets that wait for a slot.", gauge, number(l.waiting)},
      {"baton_blocks_used", "KV blocks in use.", gauge, number(l.blocks_used)},
      {"baton_blocks", "KV blocks of the pipeline.", gauge, number(l.blocks_total)},
      {"baton_blocks_total", "Name of baton_blocks until 0.2.0.", gauge, number(l.blocks_total)},
      {"baton_micro_batches_in_flight", "Micro-batches between scheduler and last stage.", gauge,
       number(l.in_flight)},
      {"baton_bubble_ratio", "Share of time that stages waited.", gauge, l.bubble_ratio},
      {"baton_steps_total", "Steps acknowledged.", counter, number(l.steps)},
      {"baton_preemptions_total", "Sequences preempted.", counter, number(l.preemptions)},
      {"baton_requests_swapped", "Sequences whose KV is in swap space.", gauge, number(l.swapped)},
      {"baton_swap_blocks_used", "KV blocks in swap space.", gauge, number(l.swap_blocks_used)},
      {"baton_swap_blocks", "KV blocks that swap space holds.", gauge, number(l.swap_blocks_total)},
      {"baton_swap_blocks_total", "Name of baton_swap_blocks until 0.2.0.", gauge,
       number(l.swap_blocks_total)},
      {"baton_swapped_out_blocks_total", "KV blocks copied to swap space.", counter,
       number(l.swapped_out_blocks)},
      {"baton_swapped_in_blocks_total", "KV blocks copied back from swap space.", counter,
       number(l.swapped_in_blocks)},
      {"baton_state_slots_used", "Slots of recurrent states in use.", gauge,
       number(l.state_slots_used)},
      {"baton_state_slots", "Slots of recurrent states.", gauge, number(l.state_slots_total)},
      {"baton_max_batch_total_tokens", "Tokens that may run at once: the KV blocks' or the budget.",
       gauge, number(l.max_batch_total_tokens)},
      {"baton_prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", counter,
       number(l.prefix_cache_queries)},
      {"baton_prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", counter,
       number(l.prefix_cache_hits)},
      {"baton_spec_decode_accepted_tokens_total", "Draft tokens that were accepted.", counter,
       number(l.spec_decode_accepted_tokens)},
      {"baton_streams_detached", "Streams without a connected client.", gauge, number(l.orphaned)},
      {"baton_epochs_total", "Epochs opened by the head.", counter, number(l.epochs)},
      {"baton_recoveries_total", "Recoveries of the pipeline.", counter, number(l.recoveries)},
      {"baton_recovery_seconds", "Duration of the last recovery.", gauge, l.recovery_seconds},
      {"vllm:num_requests_running", "Number of requests in model execution batches.", gauge,
       number(l.running)},
      {"vllm:num_requests_waiting", "Number of requests waiting to be processed.", gauge,
       number(l.waiting)},
      {"vllm:num_requests_swapped", "Number of requests swapped to CPU.", gauge, number(l.swapped)},
      {"vllm:cpu_cache_usage_perc", "CPU KV-cache usage. 1 means 100 percent usage.", gauge,
       share_of(l.swap_blocks_used, l.swap_blocks_total)},
      {"vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", gauge,
       share_of(l.blocks_used, l.blocks_total)},
      {"vllm:prefix_cache_queries_total", "Prefix cache queries, in terms of number of tokens.",
       counter, number(l.prefix_cache_queries)},
      {"vllm:prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.",
       counter, number(l.prefix_cache_hits)},
      {"vllm:spec_decode_num_drafts_total", "Number of spec decoding drafts.", counter,
       number(l.spec_decode_drafts)},
      {"vllm:spec_decode_num_draft_tokens_total", "Number of draft tokens.", counter,
       number(l.spec_decode_draft_tokens)},
      {"vllm:spec_decode_num_accepted_tokens_total", "Number of accepted tokens.", counter,
       number(l.spec_decode_accepted_tokens)},
      {"vllm:num_preemptions_total", "Cumulative number of preemptions.", counter,
       number(l.preemptions)},
      {"tgi_queue_size", "Current queue size.", gauge, number(l.waiting)},
      {"tgi_batch_current_size", "Current batch size.", gauge, number(l.running)},
      {"tgi_batch_max_total_tokens", "Maximum tokens for a batch.", gauge,
       number(l.max_batch_total_tokens)},
      {"tgi_batch_current_max_tokens", "Maximum tokens of the current batch.", gauge,
       number(l.running_max_tokens)},
      {"tgi_batch_total_tokens", "Tokens of the current batch so far.", gauge,
       number(l.running_tokens)},
  };
}

// Converts a bucket's border to the metric's unit.
using unit_of_border = double (*)(std::uint64_t);
double seconds_of(std::uint64_t micros) {
  return static_cast<double>(micros) / 1e6;
}
double same(std::uint64_t count) {
  return static_cast<double>(count);
}

void add_sizes(MetricFamily& family, const size_counts& sizes,
               std::span<const std::uint64_t> borders, unit_of_border unit, label_list labels) {
  ClientMetric metric;
  metric.label = std::move(labels);
  std::uint64_t so_far = 0;
  for (std::size_t i = 0; i <= borders.size(); ++i) {
    so_far += i < sizes.counts.size() ? sizes.counts[i] : 0;
    const auto border =
        i < borders.size() ? unit(borders[i]) : std::numeric_limits<double>::infinity();
    metric.histogram.bucket.push_back({so_far, border});
  }
  metric.histogram.sample_count = so_far;
  metric.histogram.sample_sum = unit(sizes.sum);
  family.metric.push_back(std::move(metric));
}

label_list with_method(label_list labels, const char* method) {
  labels.push_back({"method", method});
  return labels;
}

std::uint64_t count_of(const size_counts& sizes) {
  return std::accumulate(sizes.counts.begin(), sizes.counts.end(), std::uint64_t{0});
}

std::vector<one_value> values_of(const model_loads& m) {
  constexpr auto counter = MetricType::Counter, gauge = MetricType::Gauge;
  const auto number = [](std::uint64_t n) { return static_cast<double>(n); };
  return {
      {"baton_model_loaded", "1 if the model on demand is in memory.", gauge,
       m.phase == phase::ready ? 1.0 : 0.0},
      {"baton_model_loads_total", "Loads of the model on demand.", counter, number(m.loads)},
      {"baton_model_load_failures_total", "Loads that failed.", counter, number(m.failures)},
      {"baton_model_evictions_total", "Unloads that made room for another model.", counter,
       number(m.evictions)},
      {"baton_model_idle_unloads_total", "Unloads after idle_timeout.", counter,
       number(m.idle_unloads)},
      {"baton_model_load_seconds", "Duration of the last load.", gauge, m.load_seconds},
  };
}

// Without the families that have no values.
void add_filled(std::vector<MetricFamily>& families, std::vector<MetricFamily>& out) {
  for (auto& family : families) {
    if (!family.metric.empty()) {
      out.push_back(std::move(family));
    }
  }
}

// Metrics of steps. A step with prompt rows is TGI's "prefill", even if it also decodes.
class step_families {
public:
  void add(const load_report& l, const label_list& labels) {
    add_sizes(iterations_, l.step_rows, step_rows_borders, same, labels);
    add_method(l.prefill_micros, l.prefills_failed, with_method(labels, "prefill"));
    add_method(l.decode_micros, l.decodes_failed, with_method(labels, "decode"));
  }
  void move_to(std::vector<MetricFamily>& out) {
    for (auto* family : {&iterations_, &count_, &success_, &failure_, &inference_, &forward_})
      if (!family->metric.empty())
        out.push_back(std::move(*family));
  }

private:
  void add_method(const size_counts& micros, std::uint64_t failed, const label_list& labels) {
    const auto well = static_cast<double>(count_of(micros));
    add_to(count_, well + static_cast<double>(failed), labels);
    add_to(success_, well, labels);
    add_to(failure_, static_cast<double>(failed), labels);
    for (auto* family : {&inference_, &forward_})
      add_sizes(*family, micros, step_micros_borders, seconds_of, labels);
  }

  MetricFamily iterations_ =
      family_of({"vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step.",
                 MetricType::Histogram, 0});
  MetricFamily count_ =
      family_of({"tgi_batch_inference_count", "Inference calls.", MetricType::Counter, 0});
  MetricFamily success_ = family_of(
      {"tgi_batch_inference_success", "Successful inference calls.", MetricType::Counter, 0});
  MetricFamily failure_ =
      family_of({"tgi_batch_inference_failure", "Failed inference calls.", MetricType::Counter, 0});
  MetricFamily inference_ = family_of({"tgi_batch_inference_duration",
                                       "Batch inference duration in seconds: the work of all "
                                       "stages.",
                                       MetricType::Histogram, 0});
  MetricFamily forward_ = family_of({"tgi_batch_forward_duration",
                                     "Batch forward duration in seconds: the work of all stages.",
                                     MetricType::Histogram, 0});
};

} // namespace

void add_model_loads(std::vector<MetricFamily>& out,
                     const std::vector<pipeline_status>& pipelines) {
  std::vector<MetricFamily> families;
  for (const auto& value : values_of(model_loads{})) {
    families.push_back(family_of(value));
  }
  for (const auto& p : pipelines) {
    if (!p.on_demand) {
      continue;
    }
    const auto values = values_of(*p.on_demand);
    for (std::size_t row = 0; row < values.size(); ++row) {
      add_to(families[row], values[row].value, {{"model_name", p.model}});
    }
  }
  add_filled(families, out);
}

void add_loads(std::vector<MetricFamily>& out, const std::vector<pipeline_view>& pipelines) {
  std::vector<MetricFamily> families;
  for (const auto& value : values_of(load_report{})) {
    families.push_back(family_of(value));
  }
  step_families steps;
  auto busy = family_of(
      {"baton_stage_busy_seconds_total", "Compute time of each stage.", MetricType::Counter, 0});
  for (std::size_t i = 0; i < pipelines.size(); ++i) {
    const auto* counts = counts_of(pipelines[i]);
    if (!counts) {
      continue;
    }
    const auto& load = *counts;
    const auto engine = std::to_string(i);
    const auto values = values_of(load);
    for (std::size_t row = 0; row < values.size(); ++row) {
      // While its head is away, the counters stay and the gauges are unknown.
      if (pipelines[i].load || values[row].type == MetricType::Counter) {
        add_to(families[row], values[row].value, {{"engine", engine}, {"model_name", load.model}});
      }
    }
    steps.add(load, {{"engine", engine}, {"model_name", load.model}});
    for (std::size_t stage = 0; stage < load.stage_busy_micros.size(); ++stage) {
      label_list labels{{"model_name", load.model}, {"stage", std::to_string(stage)}};
      if (pipelines.size() > 1) { // a single pipeline has never had this label
        labels.insert(labels.begin(), {"engine", engine});
      }
      add_to(busy, static_cast<double>(load.stage_busy_micros[stage]) / 1e6, std::move(labels));
    }
  }
  families.push_back(std::move(busy));
  add_filled(families, out);
  steps.move_to(out);
}

} // namespace baton::gateway
