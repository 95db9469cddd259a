// The real-valued sampling defaults: names and ranges, for readers of nodes.toml and of models'
// files.
#pragma once

#include "gateway/request/request_check.hpp"
#include "schema/sampling_defaults.hpp"

#include <optional>
#include <string_view>

namespace baton::cluster {

struct sampling_real {
  std::optional<float> sampling_defaults::*to;
  const gateway::real_range& range;
  std::string_view name; // in nodes.toml and in generation_config.json
  std::string_view gguf; // after "general.sampling."
};
inline constexpr sampling_real sampling_reals[] = {
    {&sampling_defaults::temperature, gateway::temperature_range, "temperature", "temp"},
    {&sampling_defaults::top_p, gateway::top_p_range, "top_p", "top_p"},
    {&sampling_defaults::min_p, gateway::min_p_range, "min_p", "min_p"},
    {&sampling_defaults::repetition_penalty, gateway::repetition_penalty_range,
     "repetition_penalty", "penalty_repeat"},
};
inline constexpr std::uint32_t sampling_tokens_most = 1U << 24; // as in request_limits

} // namespace baton::cluster
