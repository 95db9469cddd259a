// A model's sampling defaults for parameters that a request leaves out. From nodes.toml or the
// model's own files. Sent to gateways with the model's card. Part of membership.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace baton {

// Names and meanings are those of sampling_params and of `stopping`. Empty: each API's default.
struct sampling_defaults {
  std::optional<float> temperature;
  std::optional<std::int32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<std::uint32_t> max_tokens;
  friend bool operator==(const sampling_defaults&, const sampling_defaults&) = default;
};

// Bits of generate::unsaid. Numbers are on the wire.
enum class sampling_field : std::uint32_t {
  temperature = 1,
  top_k = 2,
  top_p = 4,
  min_p = 8,
  repetition_penalty = 16,
  max_tokens = 32,
};
constexpr std::uint32_t bit_of(sampling_field field) noexcept {
  return static_cast<std::uint32_t>(field);
}
inline constexpr std::uint32_t all_sampling_fields = 63;

// The field's name in the APIs of OpenAI, vLLM and TGI, and in nodes.toml. max_tokens has aliases.
std::string_view name_of(sampling_field field) noexcept;

// Fields of `first` take precedence over those of `second`.
sampling_defaults merged(const sampling_defaults& first, const sampling_defaults& second);

} // namespace baton
