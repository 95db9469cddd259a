// What a running cluster was planned with, noted on each of its machines: whoever starts there
// later plans the same, and knows whom to look for where.
#pragma once

#include "cluster/files/run_dir.hpp"
#include "cluster/plan/generation_book.hpp"
#include "cluster/plan/machine.hpp"
#include "cluster/plan/membership.hpp"

#include <nlohmann/json_fwd.hpp>

#include <map>

namespace baton::cluster {

// Of a cluster on several machines.
struct network_note {
  std::string host;      // of this machine, as the others reach it
  std::string root_host; // of the machine of root and head
  std::uint16_t port = 0;
  std::string root_key;           // public key of that machine
  std::filesystem::path key_file; // of this one
};

// Of one pipeline.
struct pipeline_note {
  std::uint64_t model_identity = 0;                  // of the model as this machine has it
  std::optional<noted_generations> generations = {}; // none: the first one, of the configuration
};

struct plan_note {
  std::string build;
  membership members;
  machines known;
  std::optional<network_note> network; // none: one machine
  // By number. On a machine that is not the root's: those that have devices there.
  std::map<std::uint32_t, pipeline_note> pipelines;
};

nlohmann::json json_of(const machines& known);
std::optional<machines> machines_from(const nlohmann::json& json);
std::optional<machines> machines_from_text(const std::string& text);
nlohmann::json json_of(const generations& now);
// Throws json::exception if it is none.
generations generations_from(const nlohmann::json& json);

result<void> note_plan(const run_dir& dir, const plan_note& plan);
// Nothing if none was noted.
std::optional<plan_note> noted_plan(const run_dir& dir);

} // namespace baton::cluster
