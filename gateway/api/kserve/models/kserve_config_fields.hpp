// The fields of Triton's model configuration, in Triton's output order:
// https://github.com/triton-inference-server/common/blob/main/protobuf/model_config.proto
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace baton::gateway {

enum class config_type : unsigned char { text, flag, whole, real, enumeration, message };
enum class config_count : unsigned char {
  one,    // unset: output with its default, unless a message
  choice, // a oneof: output only if set
  many,
  map, // keyed by a text or a number
};

struct config_field {
  std::string_view of; // the message; "" is the whole configuration
  std::string_view name;
  config_type type = config_type::text;
  config_count count = config_count::one;
  std::string_view target{}; // the message's type; or the enum's values, the default first
};

namespace config_enums {
inline constexpr std::string_view datatype =
    "TYPE_INVALID TYPE_BOOL TYPE_UINT8 TYPE_UINT16 TYPE_UINT32 TYPE_UINT64 TYPE_INT8 TYPE_INT16 "
    "TYPE_INT32 TYPE_INT64 TYPE_FP16 TYPE_FP32 TYPE_FP64 TYPE_STRING TYPE_BF16";
inline constexpr std::string_view format = "FORMAT_NONE FORMAT_NHWC FORMAT_NCHW";
inline constexpr std::string_view batch_input =
    "BATCH_ELEMENT_COUNT BATCH_ACCUMULATED_ELEMENT_COUNT BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO "
    "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE BATCH_ITEM_SHAPE BATCH_ITEM_SHAPE_FLATTEN";
inline constexpr std::string_view batch_output = "BATCH_SCATTER_WITH_INPUT_SHAPE";
inline constexpr std::string_view priority = "PRIORITY_DEFAULT PRIORITY_MAX PRIORITY_MIN";
inline constexpr std::string_view timeout_action = "REJECT DELAY";
inline constexpr std::string_view control =
    "CONTROL_SEQUENCE_START CONTROL_SEQUENCE_READY CONTROL_SEQUENCE_END CONTROL_SEQUENCE_CORRID";
inline constexpr std::string_view instance = "KIND_AUTO KIND_GPU KIND_CPU KIND_MODEL";
inline constexpr std::string_view secondary = "KIND_NVDLA";
} // namespace config_enums

inline constexpr auto config_fields = [] {
  using enum config_type;
  using enum config_count;
  namespace w = config_enums;
  return std::array{
      config_field{"", "name"},
      config_field{"", "platform"},
      config_field{"", "backend"},
      config_field{"", "runtime"},
      config_field{"", "version_policy", message, one, "version_policy"},
      config_field{"", "max_batch_size", whole},
      config_field{"", "input", message, many, "input"},
      config_field{"", "output", message, many, "output"},
      config_field{"", "batch_input", message, many, "batch_input"},
      config_field{"", "batch_output", message, many, "batch_output"},
      config_field{"", "optimization", message, one, "optimization"},
      config_field{"", "dynamic_batching", message, choice, "dynamic_batching"},
      config_field{"", "sequence_batching", message, choice, "sequence_batching"},
      config_field{"", "ensemble_scheduling", message, choice, "ensemble_scheduling"},
      config_field{"", "instance_group", message, many, "instance_group"},
      config_field{"", "default_model_filename"},
      config_field{"", "cc_model_filenames", text, map},
      config_field{"", "metric_tags", text, map},
      config_field{"", "parameters", message, map, "parameter"},
      config_field{"", "model_warmup", message, many, "model_warmup"},
      config_field{"", "model_operations", message, one, "model_operations"},
      config_field{"", "model_transaction_policy", message, one, "model_transaction_policy"},
      config_field{"", "model_repository_agents", message, one, "model_repository_agents"},
      config_field{"", "response_cache", message, one, "response_cache"},
      config_field{"", "model_metrics", message, one, "model_metrics"},
      config_field{"version_policy", "latest", message, choice, "latest"},
      config_field{"version_policy", "all", message, choice, "all"},
      config_field{"version_policy", "specific", message, choice, "specific"},
      config_field{"latest", "num_versions", whole},
      config_field{"specific", "versions", whole, many},
      config_field{"input", "name"},
      config_field{"input", "data_type", enumeration, one, w::datatype},
      config_field{"input", "format", enumeration, one, w::format},
      config_field{"input", "dims", whole, many},
      config_field{"input", "reshape", message, one, "reshape"},
      config_field{"input", "is_shape_tensor", flag},
      config_field{"input", "allow_ragged_batch", flag},
      config_field{"input", "optional", flag},
      config_field{"input", "is_non_linear_format_io", flag},
      config_field{"output", "name"},
      config_field{"output", "data_type", enumeration, one, w::datatype},
      config_field{"output", "dims", whole, many},
      config_field{"output", "reshape", message, one, "reshape"},
      config_field{"output", "label_filename"},
      config_field{"output", "is_shape_tensor", flag},
      config_field{"output", "is_non_linear_format_io", flag},
      config_field{"reshape", "shape", whole, many},
      config_field{"batch_input", "kind", enumeration, one, w::batch_input},
      config_field{"batch_input", "target_name", text, many},
      config_field{"batch_input", "data_type", enumeration, one, w::datatype},
      config_field{"batch_input", "source_input", text, many},
      config_field{"batch_output", "target_name", text, many},
      config_field{"batch_output", "kind", enumeration, one, w::batch_output},
      config_field{"batch_output", "source_input", text, many},
      config_field{"optimization", "graph", message, one, "graph"},
      config_field{"optimization", "priority", enumeration, one, w::priority},
      config_field{"optimization", "cuda", message, one, "cuda"},
      config_field{"optimization", "execution_accelerators", message, one, "accelerators"},
      config_field{"optimization", "input_pinned_memory", message, one, "enable"},
      config_field{"optimization", "output_pinned_memory", message, one, "enable"},
      config_field{"optimization", "gather_kernel_buffer_threshold", whole},
      config_field{"optimization", "eager_batching", flag},
      config_field{"graph", "level", whole},
      config_field{"enable", "enable", flag},
      config_field{"cuda", "graphs", flag},
      config_field{"cuda", "busy_wait_events", flag},
      config_field{"cuda", "graph_spec", message, many, "graph_spec"},
      config_field{"cuda", "output_copy_stream", flag},
      config_field{"graph_spec", "batch_size", whole},
      config_field{"graph_spec", "input", message, map, "graph_shape"},
      config_field{"graph_spec", "graph_lower_bound", message, one, "graph_lower_bound"},
      config_field{"graph_lower_bound", "batch_size", whole},
      config_field{"graph_lower_bound", "input", message, map, "graph_shape"},
      config_field{"graph_shape", "dim", whole, many},
      config_field{"accelerators", "gpu_execution_accelerator", message, many, "accelerator"},
      config_field{"accelerators", "cpu_execution_accelerator", message, many, "accelerator"},
      config_field{"accelerator", "name"},
      config_field{"accelerator", "parameters", text, map},
      config_field{"dynamic_batching", "preferred_batch_size", whole, many},
      config_field{"dynamic_batching", "max_queue_delay_microseconds", whole},
      config_field{"dynamic_batching", "preserve_ordering", flag},
      config_field{"dynamic_batching", "priority_levels", whole},
      config_field{"dynamic_batching", "default_priority_level", whole},
      config_field{"dynamic_batching", "default_queue_policy", message, one, "queue_policy"},
      config_field{"dynamic_batching", "priority_queue_policy", message, map, "queue_policy"},
      config_field{"queue_policy", "timeout_action", enumeration, one, w::timeout_action},
      config_field{"queue_policy", "default_timeout_microseconds", whole},
      config_field{"queue_policy", "allow_timeout_override", flag},
      config_field{"queue_policy", "max_queue_size", whole},
      config_field{"sequence_batching", "direct", message, choice, "direct"},
      config_field{"sequence_batching", "oldest", message, choice, "oldest"},
      config_field{"sequence_batching", "max_sequence_idle_microseconds", whole},
      config_field{"sequence_batching", "control_input", message, many, "control_input"},
      config_field{"sequence_batching", "state", message, many, "state"},
      config_field{"sequence_batching", "iterative_sequence", flag},
      config_field{"direct", "max_queue_delay_microseconds", whole},
      config_field{"direct", "minimum_slot_utilization", real},
      config_field{"oldest", "max_candidate_sequences", whole},
      config_field{"oldest", "preferred_batch_size", whole, many},
      config_field{"oldest", "max_queue_delay_microseconds", whole},
      config_field{"oldest", "preserve_ordering", flag},
      config_field{"control_input", "name"},
      config_field{"control_input", "control", message, many, "control"},
      config_field{"control", "kind", enumeration, one, w::control},
      config_field{"control", "int32_false_true", whole, many},
      config_field{"control", "fp32_false_true", real, many},
      config_field{"control", "bool_false_true", flag, many},
      config_field{"control", "data_type", enumeration, one, w::datatype},
      config_field{"state", "input_name"},
      config_field{"state", "output_name"},
      config_field{"state", "data_type", enumeration, one, w::datatype},
      config_field{"state", "dims", whole, many},
      config_field{"state", "initial_state", message, many, "initial_state"},
      config_field{"state", "use_same_buffer_for_input_output", flag},
      config_field{"state", "use_growable_memory", flag},
      config_field{"initial_state", "data_type", enumeration, one, w::datatype},
      config_field{"initial_state", "dims", whole, many},
      config_field{"initial_state", "zero_data", flag, choice},
      config_field{"initial_state", "data_file", text, choice},
      config_field{"initial_state", "name"},
      config_field{"ensemble_scheduling", "step", message, many, "step"},
      config_field{"ensemble_scheduling", "max_inflight_requests", whole},
      config_field{"step", "model_name"},
      config_field{"step", "model_version", whole},
      config_field{"step", "input_map", text, map},
      config_field{"step", "output_map", text, map},
      config_field{"step", "model_namespace"},
      config_field{"instance_group", "name"},
      config_field{"instance_group", "kind", enumeration, one, w::instance},
      config_field{"instance_group", "count", whole},
      config_field{"instance_group", "rate_limiter", message, one, "rate_limiter"},
      config_field{"instance_group", "gpus", whole, many},
      config_field{"instance_group", "secondary_devices", message, many, "secondary_device"},
      config_field{"instance_group", "profile", text, many},
      config_field{"instance_group", "passive", flag},
      config_field{"instance_group", "host_policy"},
      config_field{"rate_limiter", "resources", message, many, "resource"},
      config_field{"rate_limiter", "priority", whole},
      config_field{"resource", "name"},
      config_field{"resource", "global", flag},
      config_field{"resource", "count", whole},
      config_field{"secondary_device", "kind", enumeration, one, w::secondary},
      config_field{"secondary_device", "device_id", whole},
      config_field{"parameter", "string_value"},
      config_field{"model_warmup", "name"},
      config_field{"model_warmup", "batch_size", whole},
      config_field{"model_warmup", "inputs", message, map, "warmup_input"},
      config_field{"model_warmup", "count", whole},
      config_field{"warmup_input", "data_type", enumeration, one, w::datatype},
      config_field{"warmup_input", "dims", whole, many},
      config_field{"warmup_input", "zero_data", flag, choice},
      config_field{"warmup_input", "random_data", flag, choice},
      config_field{"warmup_input", "input_data_file", text, choice},
      config_field{"model_operations", "op_library_filename", text, many},
      config_field{"model_transaction_policy", "decoupled", flag},
      config_field{"model_repository_agents", "agents", message, many, "agent"},
      config_field{"agent", "name"},
      config_field{"agent", "parameters", text, map},
      config_field{"response_cache", "enable", flag},
      config_field{"model_metrics", "metric_control", message, many, "metric_control"},
      config_field{"metric_control", "metric_identifier", message, one, "metric_identifier"},
      config_field{"metric_control", "histogram_options", message, choice, "histogram_options"},
      config_field{"metric_identifier", "family"},
      config_field{"histogram_options", "buckets", real, many},
  };
}();

// Null: the message has no such field.
constexpr const config_field* find_config_field(std::string_view message, std::string_view name) {
  const auto* at = std::find_if(config_fields.begin(), config_fields.end(),
                                [&](const auto& f) { return f.of == message && f.name == name; });
  return at == config_fields.end() ? nullptr : at;
}

} // namespace baton::gateway
