#include "cluster/models/triton/triton_left_out.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace baton::cluster {
namespace {

using nlohmann::ordered_json;

struct left_out_row {
  std::string_view path;                   // of a field, separated by dots
  std::string_view worker, language_model; // the reason for each kind; empty: the field is read
};
constexpr std::string_view own_matter = "it is the handler's own matter";
constexpr std::string_view no_handler = "an LLM has no handler";
constexpr std::string_view joins_between_steps = "sequences join and leave between steps";
constexpr std::string_view waits_for_its_time =
    "a request that has waited for model.queue_timeout is refused";
constexpr std::string_view no_answers_kept = "answers are not kept";
constexpr std::string_view models_of_config = "nodes.toml defines the models";
constexpr std::string_view one_file = "default_model_filename sets it for all devices";
constexpr std::string_view fixed_labels = "the labels of a metric are model and version";
constexpr std::string_view fixed_buckets =
    "histograms have the buckets that docs/apis/triton.md says";

constexpr left_out_row left_out_rows[] = {
    {"sequence_batching", "REQUESTS OF A SEQUENCE MAY GO TO DIFFERENT WORKERS", no_handler},
    {"model_warmup", "a handler warms up in initialize", no_handler},
    {"optimization", own_matter, no_handler},
    {"response_cache", no_answers_kept, no_answers_kept},
    {"model_repository_agents", models_of_config, models_of_config},
    {"model_operations", own_matter, no_handler},
    {"batch_input", own_matter, no_handler},
    {"batch_output", own_matter, no_handler},
    {"cc_model_filenames", one_file, one_file},
    {"metric_tags", fixed_labels, fixed_labels},
    {"model_metrics", fixed_buckets, fixed_buckets},
    {"dynamic_batching.preferred_batch_size", "", joins_between_steps},
    {"dynamic_batching.max_queue_delay_microseconds", "", joins_between_steps},
    {"dynamic_batching.preserve_ordering", "", joins_between_steps},
    {"dynamic_batching.priority_levels", "", joins_between_steps},
    {"dynamic_batching.default_priority_level", "", joins_between_steps},
    {"dynamic_batching.priority_queue_policy", "", joins_between_steps},
    {"dynamic_batching.default_queue_policy.timeout_action", "", waits_for_its_time},
    {"dynamic_batching.default_queue_policy.allow_timeout_override", "", waits_for_its_time},
};

// In a repeated message (a list), any element may have the path.
bool has_path(const ordered_json& at, std::string_view path) {
  if (at.is_array()) {
    return std::any_of(at.begin(), at.end(), [&](const auto& one) { return has_path(one, path); });
  }
  const auto dot = path.find('.');
  const auto found = at.is_object() ? at.find(path.substr(0, dot)) : at.end();
  return found != at.end() && (dot == path.npos || has_path(*found, path.substr(dot + 1)));
}

} // namespace

std::vector<std::string> triton_left_out(const ordered_json& config, triton_reader by,
                                         std::span<const std::string_view> read) {
  std::vector<std::string> out;
  for (const auto& row : left_out_rows) {
    const auto why = by == triton_reader::worker ? row.worker : row.language_model;
    if (!why.empty() && std::find(read.begin(), read.end(), row.path) == read.end() &&
        has_path(config, row.path)) {
      out.push_back(fmt::format("{} is left out: {}", row.path, why));
    }
  }
  return out;
}

} // namespace baton::cluster
