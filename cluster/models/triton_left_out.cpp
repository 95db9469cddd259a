#include "cluster/models/triton_left_out.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace baton::cluster {
namespace {

using nlohmann::ordered_json;

enum class left_out_for : unsigned char { both, worker, language_model };

struct left_out_row {
  std::string_view path; // of a field, with dots
  std::string_view why;
  left_out_for whom = left_out_for::both;
};
constexpr std::string_view own_matter = "it is the handler's own matter";
constexpr std::string_view no_handler = "an LLM has no handler";
constexpr std::string_view joins_between_steps = "sequences join and leave between steps";
constexpr std::string_view waits_for_its_time =
    "what has waited for model.queue_timeout is refused";

constexpr left_out_row left_out_rows[] = {
    {"sequence_batching", "REQUESTS OF A SEQUENCE MAY GO TO DIFFERENT WORKERS",
     left_out_for::worker},
    {"sequence_batching", no_handler, left_out_for::language_model},
    {"model_warmup", "a handler warms up in initialize", left_out_for::worker},
    {"model_warmup", no_handler, left_out_for::language_model},
    {"optimization", own_matter, left_out_for::worker},
    {"optimization", no_handler, left_out_for::language_model},
    {"response_cache", "answers are not kept"},
    {"model_repository_agents", "models are what nodes.toml says"},
    {"model_operations", own_matter, left_out_for::worker},
    {"model_operations", no_handler, left_out_for::language_model},
    {"batch_input", own_matter, left_out_for::worker},
    {"batch_input", no_handler, left_out_for::language_model},
    {"batch_output", own_matter, left_out_for::worker},
    {"batch_output", no_handler, left_out_for::language_model},
    {"cc_model_filenames", "default_model_filename says it, for all devices"},
    {"metric_tags", "the labels of a metric are model and version"},
    {"model_metrics", "histograms have the buckets that docs/compatibility-triton.md says"},
    {"dynamic_batching.preferred_batch_size", joins_between_steps, left_out_for::language_model},
    {"dynamic_batching.max_queue_delay_microseconds", joins_between_steps,
     left_out_for::language_model},
    {"dynamic_batching.preserve_ordering", joins_between_steps, left_out_for::language_model},
    {"dynamic_batching.priority_levels", joins_between_steps, left_out_for::language_model},
    {"dynamic_batching.default_priority_level", joins_between_steps, left_out_for::language_model},
    {"dynamic_batching.priority_queue_policy", joins_between_steps, left_out_for::language_model},
    {"dynamic_batching.default_queue_policy.timeout_action", waits_for_its_time,
     left_out_for::language_model},
    {"dynamic_batching.default_queue_policy.allow_timeout_override", waits_for_its_time,
     left_out_for::language_model},
};

// A repeated message is a list: any of it.
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
  const auto other =
      by == triton_reader::worker ? left_out_for::language_model : left_out_for::worker;
  std::vector<std::string> out;
  for (const auto& row : left_out_rows) {
    if (row.whom != other && std::find(read.begin(), read.end(), row.path) == read.end() &&
        has_path(config, row.path)) {
      out.push_back(fmt::format("{} is left out: {}", row.path, row.why));
    }
  }
  return out;
}

} // namespace baton::cluster
