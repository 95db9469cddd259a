#include "cluster/config/readers/model_sampling.hpp"

#include "cluster/config/readers/sampling_fields.hpp"
#include "runtime/model/json_file.hpp"
#include "schema/sampling_members.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace baton::cluster {
namespace {

using gateway::real_range;
using model::json;

constexpr std::string_view generation_file = "generation_config.json";

error out_of_range(std::string_view origin, std::string_view name, const real_range& range,
                   double value) {
  return fail_param(errc::bad_model_file, name,
                    "{}: '{}' must be {} {} and at most {}, not {}; model.generation_config = "
                    "\"none\" leaves all of them out",
                    origin, name, range.excludes_least ? "above" : "at least", range.least,
                    range.most, value);
}

// Values are compared as floats: 0.95 in a file does not exceed a bound of 0.95.
result<void> take(const sampling_real& field, std::string_view origin, std::string_view name,
                  double value, sampling_defaults& to) {
  const auto narrow = static_cast<float>(value);
  if (!std::isfinite(narrow) || !field.range.contains(narrow))
    return out_of_range(origin, name, field.range, value);
  to.*field.to = narrow;
  return {};
}

// 0, -1 or null turn it off.
result<void> take_top_k(std::string_view origin, std::string_view name, double value,
                        sampling_defaults& to) {
  constexpr real_range range{-1, gateway::top_k_max};
  if (!range.contains(value) || value != std::floor(value))
    return out_of_range(origin, name, range, value);
  to.top_k = static_cast<std::int32_t>(std::max(0.0, value));
  return {};
}

result<std::optional<double>> number_of(const json& config, std::string_view origin,
                                        std::string_view name) {
  const auto* value = model::member_of(config, name);
  if (!value)
    return std::optional<double>();
  if (!value->is_number())
    return fail_param(errc::bad_model_file, name, "{}: '{}' must be a number, not {}", origin, name,
                      value->type_name());
  return std::optional(value->get<double>());
}

result<sampling_defaults> sampling_of_json(const std::filesystem::path& path) {
  const auto read = model::read_json_object(path);
  if (!read)
    return read.error();
  const auto origin = path.string();
  sampling_defaults all;
  for (const auto& field : sampling_reals) {
    const auto value = number_of(*read, origin, field.name);
    if (!value)
      return value.error();
    if (*value)
      if (auto ok = take(field, origin, field.name, **value, all); !ok)
        return ok.error();
  }
  const auto top_k = number_of(*read, origin, "top_k");
  if (!top_k)
    return top_k.error();
  if (*top_k)
    if (auto ok = take_top_k(origin, "top_k", **top_k, all); !ok)
      return ok.error();
  const auto most = number_of(*read, origin, "max_new_tokens");
  if (!most)
    return most.error();
  if (*most) {
    constexpr real_range range{1, sampling_tokens_most};
    if (!range.contains(**most) || **most != std::floor(**most))
      return out_of_range(origin, "max_new_tokens", range, **most);
    all.max_tokens = static_cast<std::uint32_t>(**most);
  }
  // As in transformers, do_sample: false makes the other fields ineffective.
  const auto* samples = model::member_of(*read, "do_sample");
  if (samples && samples->is_boolean() && !samples->get<bool>()) {
    all.temperature = 0.0F;
    all.top_k.reset();
    all.top_p.reset();
    all.min_p.reset();
  }
  return all;
}

result<sampling_defaults> sampling_of_gguf(const model::model_file& file) {
  const auto origin = file.path().string();
  constexpr std::string_view prefix = "general.sampling.";
  sampling_defaults all;
  for (const auto& field : sampling_reals) {
    const auto key = fmt::format("{}{}", prefix, field.gguf);
    if (!file.has(key))
      continue;
    const auto value = file.get_f32(key);
    if (!value)
      return fail_param(errc::bad_model_file, key, "{}: {}", origin, value.error().message);
    if (auto ok = take(field, origin, key, static_cast<double>(*value), all); !ok)
      return ok.error();
  }
  const auto key = fmt::format("{}top_k", prefix);
  if (!file.has(key))
    return all;
  // The converter writes an int32; -1 means off, and get_u32 does not return it.
  const auto value = file.get_u32(key);
  if (value && *value <= static_cast<std::uint32_t>(gateway::top_k_max))
    all.top_k = static_cast<std::int32_t>(*value);
  else
    all.top_k = 0;
  return all;
}

std::string values_of(const sampling_defaults& d) {
  std::vector<std::string> parts;
  for_each_sampling_field([&](sampling_field field, auto member) {
    if (const auto& value = d.*member)
      parts.push_back(fmt::format("{} {}", name_of(field), *value));
  });
  return fmt::format("{}", fmt::join(parts, ", "));
}

// The fields of `second` that `first` does not set.
sampling_defaults rest_of(const sampling_defaults& second, const sampling_defaults& first) {
  auto rest = second;
  for_each_sampling_field([&](sampling_field, auto member) {
    if (first.*member)
      (rest.*member).reset();
  });
  return rest;
}

} // namespace

result<sampling_defaults> sampling_of_file(const model::model_file& file) {
  std::error_code failed;
  if (!std::filesystem::is_directory(file.path(), failed))
    return sampling_of_gguf(file);
  const auto path = file.path() / generation_file;
  return std::filesystem::exists(path, failed) ? sampling_of_json(path) : sampling_defaults();
}

sampling_defaults sampling_of(const model_config& model) {
  return merged(model.sampling, model.sampling_of_files);
}

std::string sampling_text(const model_config& model) {
  const auto configured = values_of(model.sampling);
  const auto rest = values_of(rest_of(model.sampling_of_files, model.sampling));
  auto line = configured.empty() ? configured : configured + " (nodes.toml)";
  if (!rest.empty())
    line += fmt::format("{}{} (the model's files)", line.empty() ? "" : "; ", rest);
  return line;
}

} // namespace baton::cluster
