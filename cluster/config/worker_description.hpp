// Converts a [[workers]] table to the metadata that APIs report of the model. Pure.
#pragma once

#include "cluster/config/config.hpp"
#include "gateway/state/worker_facts.hpp"

#include <memory>

namespace baton::cluster {

// `processes`: names of all worker processes of the cluster.
inline std::shared_ptr<const gateway::worker_facts> facts_of(const worker_config& w,
                                                             std::vector<std::string> processes) {
  gateway::worker_facts facts;
  facts.platform = w.platform;
  facts.inputs = w.inputs;
  facts.outputs = w.outputs;
  facts.max_batch_size = w.max_batch_size;
  facts.is_decoupled = w.decoupled;
  facts.processes = std::move(processes);
  facts.batch_size = w.batch_size;
  facts.max_batch_delay = w.max_batch_delay;
  facts.max_queued = w.max_queued;
  facts.response_timeout = w.response_timeout;
  facts.startup_timeout = w.startup_timeout;
  facts.use_job_ticket = w.use_job_ticket;
  facts.preferred_batch_size = w.preferred_batch_size;
  facts.preserve_ordering = w.preserve_ordering;
  facts.priority_levels = w.priority_levels;
  facts.default_priority_level = w.default_priority_level;
  facts.queue_policy = w.queue_policy;
  facts.priority_queue_policy = w.priority_queue_policy;
  facts.versions = w.version_policy;
  facts.config = w.triton_config;
  return std::make_shared<const gateway::worker_facts>(std::move(facts));
}

} // namespace baton::cluster
