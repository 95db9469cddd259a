// A pipeline of toy engines without actors: it computes the scheduler's steps.
#pragma once

#include "runtime/engine/toy_engine.hpp"
#include "runtime/schedule/steps/token_feedback.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <memory>

namespace baton::schedule {

// A pipeline of toy engines with a queue before each stage; results come out in order.
struct toy_pipeline {
  struct work {
    micro_batch batch;
    std::vector<float> activations;
  };
  toy_pipeline(const engine::toy_model& model, const engine::toy_memory& memory,
               const std::shared_ptr<grammar::masker>& masker = nullptr)
      : queues(model.layers) {
    for (stage_index i = 0; i < model.layers; ++i)
      stages.push_back(std::make_unique<engine::toy_engine>(model, i, memory, 1, masker));
  }
  void step(stage_index i) {
    if (i == 0)
      if (auto next = feed.pop()) {
        REQUIRE_MESSAGE(next->filled.has_value(), next->filled.error().message);
        queues[0].push_back({std::move(next->batch), {}});
      }
    if (queues[i].empty())
      return;
    work w = std::move(queues[i].front());
    queues[i].pop_front();
    auto out = stages[i]->run(w.batch, w.activations);
    REQUIRE_MESSAGE(out.has_value(), out.error().message);
    if (i + 1 < stages.size()) {
      w.activations.assign(out->activations.begin(), out->activations.end());
      queues[i + 1].push_back(std::move(w));
    } else {
      sampled s;
      s.batch = w.batch.batch;
      s.epoch = w.batch.epoch;
      s.samples = std::move(out->samples);
      s.pooled = std::move(out->pooled);
      feed.remember(s);
      results.push_back(std::move(s));
    }
  }
  // Like the end of an epoch: KV may outlive it, swap space does not.
  void forget_steps() {
    for (auto& stage : stages)
      stage->forget_swapped();
    for (auto& queue : queues)
      queue.clear();
    feed.clear();
    results.clear();
  }

  std::vector<std::unique_ptr<engine::toy_engine>> stages;
  std::vector<std::deque<work>> queues;
  token_feedback feed;
  std::deque<sampled> results;
};

} // namespace baton::schedule
