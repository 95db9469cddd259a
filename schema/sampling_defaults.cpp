#include "schema/sampling_defaults.hpp"

namespace baton {

std::string_view name_of(sampling_field field) noexcept {
  switch (field) {
  case sampling_field::temperature:
    return "temperature";
  case sampling_field::top_k:
    return "top_k";
  case sampling_field::top_p:
    return "top_p";
  case sampling_field::min_p:
    return "min_p";
  case sampling_field::repetition_penalty:
    return "repetition_penalty";
  case sampling_field::tokens_max:
    return "max_tokens";
  }
  return {};
}

sampling_defaults merged(const sampling_defaults& first, const sampling_defaults& second) {
  auto all = first;
  const auto fill = [&](auto member) {
    if (!(all.*member))
      all.*member = second.*member;
  };
  fill(&sampling_defaults::temperature);
  fill(&sampling_defaults::top_k);
  fill(&sampling_defaults::top_p);
  fill(&sampling_defaults::min_p);
  fill(&sampling_defaults::repetition_penalty);
  fill(&sampling_defaults::tokens_max);
  return all;
}

} // namespace baton
