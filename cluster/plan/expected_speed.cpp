#include "cluster/plan/expected_speed.hpp"

#include "cluster/machines/machine_links.hpp"
#include "cluster/plan/stage_speeds.hpp"
#include "runtime/cpu/forward/step_probe.hpp"
#include "runtime/model/open/open_model.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace baton::cluster {
namespace {

constexpr std::array<std::uint32_t, 3> streams_shown{1, 8, 32};

// From one stage to the next, and from the last stage's tokens to the next micro-batch: messages,
// scheduler, text, gateway. Estimates, without network links; ./check growth (`plan`) compares the
// results with measurements.
constexpr double hop_seconds = 100e-6;
constexpr double feedback_seconds = 400e-6;
// Core time per step and per token in head and gateway. With `feedback_seconds`, 1, 8 and 32
// streams lose 1.4, 2.1 and 4.8 ms per step on a Xeon, and 0.4, 0.9 and 5.3 on a Zen 4. The compute
// team whose core is taken stands still.
constexpr double serving_step_seconds = 500e-6, serving_token_seconds = 110e-6;

// The ranks of a stage count as one engine, without a cost of their collectives. Only collectives
// over the bus have a cost: two in every layer, after attention and after the ffn. Measured over
// loopback: seconds per collective, and per byte of the rows.
constexpr double bus_meeting_seconds = 170e-6, bus_byte_seconds = 2.5e-9;

struct stage_slot {
  cpu::probe_threads slot;
  bool is_here = false;
  double speed = 0;    // relative to the others
  double share = 0;    // of the cost of a whole step
  std::string machine; // of its rank 0
  std::uint32_t meetings = 0;
  double meeting_seconds = 0; // per meeting, without the row bytes
  double slowest_byte = 0;    // in seconds
};

std::vector<stage_slot> slots_of(const model::description& model, const cluster_plan& plan,
                                 const machines& known) {
  std::vector<stage_slot> stages(plan.stages);
  const auto speeds = stage_speeds(plan, known);
  for (std::size_t i = 0; i < stages.size(); ++i)
    stages[i].speed = speeds[i];
  for (const auto& s : plan.shards) {
    auto& stage = stages[s.stage];
    stage.slot.threads = s.rank == 0 ? s.threads : stage.slot.threads + s.threads;
    stage.slot.cpus.insert(stage.slot.cpus.end(), s.cores.begin(), s.cores.end());
    stage.is_here = s.machine == root_machine && (s.rank == 0 || stage.is_here);
    if (s.rank == 0)
      stage.machine = s.machine;
    if (meets_over_bus(plan, s)) {
      // To rank 0 and back. On a slow link only the transfer time matters.
      const auto way = [&](std::size_t bytes) {
        return 2 * way_seconds(known, stage.machine, s.machine, bytes);
      };
      constexpr std::size_t many = 1'000'000;
      stage.meetings = 2 * s.layers.count;
      stage.meeting_seconds = std::max({stage.meeting_seconds, bus_meeting_seconds, way(0)});
      stage.slowest_byte =
          std::max({stage.slowest_byte, bus_byte_seconds, (way(many) - way(0)) / many});
    }
    stage.share =
        model::step_cost(model, s.layers, 1) / model::step_cost(model, model::whole(model), 1);
  }
  for (auto& s : stages)
    if (s.slot.cpus.size() != s.slot.threads) // more threads than cores
      s.slot.cpus.clear();
  return stages;
}

// The stages on this machine; if there are none, a stage with all of its cores.
std::vector<cpu::probe_threads> slots_here(const std::vector<stage_slot>& stages) {
  std::vector<cpu::probe_threads> here;
  for (const auto& s : stages)
    if (s.is_here)
      here.push_back(s.slot);
  if (here.empty())
    here.push_back(
        {static_cast<std::uint32_t>(facts_of_this_machine().physical_cores().size()), {}});
  return here;
}

// Time that serving takes from each stage on the root's machine, where head and gateway run.
double served_here(const std::vector<stage_slot>& stages, std::uint32_t rows) {
  std::uint32_t count = 0, threads = 0;
  for (const auto& s : stages)
    if (s.is_here) {
      ++count;
      threads += s.slot.threads;
    }
  return serving_seconds(
      rows, count, threads,
      static_cast<std::uint32_t>(facts_of_this_machine().physical_cores().size()));
}

// Time per stage, from measured whole-model steps on this machine; scaled by speed for other
// machines.
std::vector<double> stage_seconds(const std::vector<stage_slot>& stages,
                                  const std::vector<cpu::probe_threads>& here,
                                  const std::vector<double>& measured, std::uint32_t rows,
                                  std::size_t row_bytes) {
  const double served = served_here(stages, rows);
  std::vector<double> seconds;
  std::size_t next = 0;
  const auto first =
      std::find_if(stages.begin(), stages.end(), [](const stage_slot& s) { return s.is_here; });
  for (const auto& s : stages) {
    const double slower =
        first != stages.end() ? first->speed / s.speed : 1.0 * here[0].threads / s.slot.threads;
    const auto whole = s.is_here ? measured[next++] : measured[0] * slower;
    const double meeting = s.meeting_seconds + s.slowest_byte * static_cast<double>(row_bytes);
    seconds.push_back(whole * s.share + s.meetings * meeting + (s.is_here ? served : 0));
  }
  return seconds;
}

// The delay of links: from stage to stage with `row_bytes`, then from the last stage over
// the head on the root's machine to the first.
double way_of(const std::vector<stage_slot>& stages, const machines& known, std::size_t row_bytes) {
  const auto more = [&](const std::string& from, const std::string& to, std::size_t bytes) {
    return std::max(0.0, way_seconds(known, from, to, bytes) - hop_seconds);
  };
  double seconds =
      more(stages.back().machine, root_machine, 0) + more(root_machine, stages.front().machine, 0);
  for (std::size_t i = 1; i < stages.size(); ++i)
    seconds += more(stages[i - 1].machine, stages[i].machine, row_bytes);
  return seconds;
}

} // namespace

batches_under_way batches_of(std::uint32_t streams, std::uint32_t stages) {
  const auto count = std::min(streams, stages);
  return {count, (streams + count - 1) / count};
}

double serving_seconds(std::uint32_t rows, std::uint32_t stages, std::uint32_t threads,
                       std::uint32_t cores) noexcept {
  if (stages == 0 || threads < cores)
    return 0;
  return (serving_step_seconds + rows * serving_token_seconds) / stages;
}

double tokens_per_second(std::span<const double> stage_seconds, std::uint32_t streams,
                         double way_between) {
  const auto stages = static_cast<std::uint32_t>(stage_seconds.size());
  const auto batches = batches_of(streams, stages);
  // A micro-batch passes all stages before its next step; the slowest stage runs every micro-batch.
  const double way = std::accumulate(stage_seconds.begin(), stage_seconds.end(), 0.0) +
                     hop_seconds * (stages - 1) + feedback_seconds + way_between;
  const double slowest =
      batches.count * *std::max_element(stage_seconds.begin(), stage_seconds.end());
  return streams / std::max(way, slowest);
}

result<std::vector<expected_speed>> expect(const cluster_config& config,
                                           const model::description& model,
                                           const cluster_plan& plan, const machines& known) {
  std::vector<expected_speed> all;
  if (plan.shards.empty())
    return all;
  for (const auto& s : plan.shards) // the probe measures the native engine only
    if (!s.on_device.is_native())
      return all;
  const auto file = model::open_model(config.model.path);
  if (!file)
    return file.error();
  const auto stages = slots_of(model, plan, known);
  const auto here = slots_here(stages);
  cpu::config like;
  like.kv_cache_dtype = config.model.kv_cache_dtype;
  like.activation_bits = config.model.activation_bits;
  auto probe = cpu::step_probe::load(**file, model, like, here, streams_shown.back());
  if (!probe)
    return probe.error();
  for (const auto streams : streams_shown) {
    if (streams > config.model.max_num_seqs)
      break;
    const auto batches = batches_of(streams, plan.stages);
    const auto measured = probe->measure(batches.rows, batches.count > 1);
    if (!measured)
      return measured.error();
    const auto row_bytes = std::size_t{batches.rows} * model.hidden_size * sizeof(float);
    all.push_back(
        {streams, tokens_per_second(stage_seconds(stages, here, *measured, batches.rows, row_bytes),
                                    streams, way_of(stages, known, row_bytes))});
  }
  return all;
}

} // namespace baton::cluster
