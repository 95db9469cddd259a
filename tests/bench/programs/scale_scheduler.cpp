// The scheduler over a simulated pipeline: a batch returns once the maximum number of batches is in
// flight, with made-up tokens.
#include "runtime/schedule/scheduler.hpp"
#include "tests/bench/programs/scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <random>

namespace baton::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t block_positions = 64;
constexpr std::uint32_t prompt_tokens = 128;
constexpr std::uint32_t output_tokens_max =
    128; // a different number per stream, half of it on average
constexpr std::uint32_t vocabulary_size = 32'000;
constexpr process_id gateway{3};

struct scheduler_figures { // in one round
  double step_p50 = 0;
  double step_p99 = 0;
  double row = 0;     // a row's share of its step
  double rows = 0;    // per step
  double arrival = 0; // per stream: reserve and admit
  double events = 0;  // per second: ticket requested, granted, ended; step; token
  double tick = 0;
  double load = 0;
  double reopen = 0; // close_epoch and open_epoch
  double bytes = 0;  // per stream
};

class scheduler_lab {
public:
  scheduler_lab(std::uint32_t stages, std::uint32_t streams)
      : stages_(stages), streams_(streams), core_(config(streams)) {
    core_.open_epoch({1}, shape());
  }

  scheduler_figures run(std::size_t steps) {
    scheduler_figures f;
    const auto bytes_before = bytes_in_use();
    const stopwatch arrivals;
    for (std::uint32_t i = 0; i < streams_; ++i)
      arrive();
    f.arrival = arrivals.micros() / streams_;
    while (prefilled_ < streams_)
      step();
    f.bytes = static_cast<double>(bytes_in_use() - bytes_before) / streams_;
    for (std::uint32_t i = 0; i < 2 * stages_ + 8; ++i)
      step();
    events_ = rows_ = 0;
    std::vector<double> times;
    const stopwatch all;
    for (std::size_t i = 0; i < steps; ++i)
      times.push_back(step());
    f.events = static_cast<double>(events_) / all.micros() * 1e6;
    f.rows = static_cast<double>(rows_) / static_cast<double>(steps);
    f.step_p50 = median(times);
    f.step_p99 = quantile(times, 0.99);
    double sum = 0;
    for (const double t : times)
      sum += t;
    f.row = sum / static_cast<double>(rows_);
    measure_rest(f);
    return f;
  }

private:
  static schedule::scheduler_config config(std::uint32_t streams) {
    schedule::scheduler_config c;
    c.max_num_seqs = streams;
    c.max_num_batched_tokens = 8192;
    c.prefill_chunk = 4096;
    c.vocabulary_size = vocabulary_size;
    c.max_num_queued_reqs = streams;
    c.max_num_queued_tokens = UINT64_MAX / 2;
    return c;
  }
  schedule::pipeline_shape shape() const {
    const auto blocks = (prompt_tokens + output_tokens_max) / block_positions + 1;
    return {stages_, streams_ * blocks + streams_ / 50, block_positions, 0};
  }

  void arrive() {
    ++requests_;
    const auto answer = core_.reserve({.request = requests_,
                                       .gateway = gateway,
                                       .model = "m",
                                       .tokens_estimate = prompt_tokens + output_tokens_max},
                                      now_);
    admit a;
    a.request = requests_;
    a.gateway = gateway;
    a.ticket = std::get<granted>(answer).ticket;
    a.prompt_ids.resize(prompt_tokens);
    for (auto& id : a.prompt_ids)
      id = static_cast<token_id>(random_() % vocabulary_size);
    a.terms.max_tokens_given = true;
    a.terms.stop.max_tokens = 1 + static_cast<std::uint32_t>(random_() % output_tokens_max);
    core_.admit(a);
    events_ += 3;
  }

  // The scheduler's work for one step: take the result, report its outcome, form the next batch.
  double step() {
    if (flying_.empty())
      pump();
    sampled back;
    back.epoch = {epoch_};
    std::tie(back.batch, back.samples) = std::move(flying_.front());
    flying_.pop_front();
    double taken = 0;
    schedule::output out;
    {
      const stopwatch time;
      core_.on_sampled(back);
      out = core_.take();
      pump();
      taken = time.micros();
    }
    for (const auto& m : out.tokens) {
      prefilled_ += m.begins ? 1 : 0;
      events_ += m.finish == finish::none ? 1 : 2;
      if (m.finish != finish::none)
        arrive(); // a new client replaces it while there are clients
    }
    ++events_;
    now_ += 1ms;
    return taken;
  }

  void pump() {
    while (auto batch = core_.next()) {
      rows_ += batch->rows();
      std::vector<sample> samples(batch->draws.size());
      for (auto& s : samples)
        s.token = static_cast<token_id>(random_() % vocabulary_size);
      flying_.emplace_back(batch->batch, std::move(samples));
    }
  }

  void measure_rest(scheduler_figures& f) {
    const auto each = [](int times, auto what) {
      const stopwatch time;
      for (int i = 0; i < times; ++i)
        what();
      return time.micros() / times;
    };
    f.tick = each(20, [this] { core_.tick(now_); });
    f.load = each(20, [this] { (void)core_.load(); });
    f.reopen = each(1, [this] {
      core_.close_epoch(now_);
      core_.open_epoch({++epoch_}, shape(), schedule::loss::link, schedule::kv_fate::kept);
    });
  }

  std::uint32_t stages_;
  std::uint32_t streams_;
  schedule::scheduler core_;
  schedule::time_point now_{};
  std::mt19937_64 random_{1};
  std::deque<std::pair<batch_id, std::vector<sample>>> flying_;
  std::uint64_t epoch_ = 1, requests_ = 0, events_ = 0, rows_ = 0;
  std::uint32_t prefilled_ = 0;
};

std::vector<double> of(const std::vector<scheduler_figures>& rounds,
                       double scheduler_figures::*what) {
  std::vector<double> values;
  for (const auto& f : rounds)
    values.push_back(f.*what);
  return values;
}

} // namespace

void measure_scheduler(const scale_options& o) {
  constexpr double step_bar_us = 1000;
  const std::uint32_t most = o.quick ? 1000 : 10'000;
  const std::uint32_t nodes = o.quick ? 100 : 1000;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<scheduler_figures>> all;
  for (const std::uint32_t stages : {2u, nodes / 10, nodes})
    for (const std::uint32_t streams : {most / 4, most / 2, most}) {
      auto& rounds = all[{stages, streams}];
      for (int round = 0; round < o.rounds; ++round)
        rounds.push_back(scheduler_lab(stages, streams).run(std::max(200u, 3 * stages)));
      const auto row = [&](std::string_view what, double scheduler_figures::*figure,
                           std::string_view unit, double bar = 0) {
        report(o, fmt::format("scheduler.{}x{}.{}", stages, streams, what), of(rounds, figure),
               unit, bar);
      };
      const bool is_target = stages == nodes && streams == most;
      row("step", &scheduler_figures::step_p50, "us", is_target ? step_bar_us : 0);
      row("step.p99", &scheduler_figures::step_p99, "us");
      row("rows", &scheduler_figures::rows, "rows");
      row("row", &scheduler_figures::row, "us");
      if (streams != most)
        continue;
      row("events", &scheduler_figures::events, "1/s");
      row("arrival", &scheduler_figures::arrival, "us");
      row("tick", &scheduler_figures::tick, "us");
      row("load", &scheduler_figures::load, "us");
      row("reopen", &scheduler_figures::reopen, "us");
      row("bytes", &scheduler_figures::bytes, "B/stream");
    }
  // Twice the streams cost twice the time per step, since it carries twice the rows.
  for (const std::uint32_t stages : {2u, nodes}) {
    std::vector<double> doubled;
    for (std::size_t i = 0; i < static_cast<std::size_t>(o.rounds); ++i)
      doubled.push_back(all[{stages, most}][i].step_p50 / all[{stages, most / 2}][i].step_p50);
    constexpr double linear_bar = 2.5;
    report(o, fmt::format("scheduler.{}x{}/{}.step", stages, most, most / 2), doubled, "x",
           stages == nodes ? linear_bar : 0);
  }
}

} // namespace baton::bench
