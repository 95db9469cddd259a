// The inputs of a running cluster's plan, stored on each of its machines. Processes that start
// there later compute the same plan and find their peers.
#pragma once

#include "cluster/files/run_dir.hpp"
#include "cluster/machines/machine.hpp"
#include "cluster/membership/generation_registry.hpp"
#include "cluster/membership/membership.hpp"

#include <nlohmann/json_fwd.hpp>

#include <map>

namespace baton::cluster {

// Network of a cluster on several machines.
struct network_record {
  std::string host;      // address of this machine for the others
  std::string root_host; // of the machine of root and head
  std::uint16_t port = 0;
  std::string root_key;           // public key of that machine
  std::filesystem::path key_file; // of this machine
};

// Record of one pipeline.
struct pipeline_record {
  std::uint64_t model_identity = 0;                     // of this machine's copy of the model
  std::optional<recorded_generations> generations = {}; // default: the first, by the configuration
};

struct plan_record {
  std::string build;
  membership members;
  machines known;
  std::optional<network_record> network; // not set on a single machine
  // By pipeline number. On other machines than the root's: only pipelines with devices there.
  std::map<std::uint32_t, pipeline_record> pipelines;
};

nlohmann::json json_of(const machines& known);
std::optional<machines> machines_from(const nlohmann::json& json);
std::optional<machines> machines_from_text(const std::string& text);
nlohmann::json json_of(const generations& now);
// Throws json::exception if the JSON has another form.
generations generations_from(const nlohmann::json& json);

result<void> record_plan(const run_dir& dir, const plan_record& plan);
// Nothing if there is no record.
std::optional<plan_record> recorded_plan(const run_dir& dir);

} // namespace baton::cluster
