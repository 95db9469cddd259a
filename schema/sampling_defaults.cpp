#include "schema/sampling_defaults.hpp"

#include "schema/sampling_members.hpp"

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
  case sampling_field::max_tokens:
    return "max_tokens";
  }
  return {};
}

sampling_defaults merged(const sampling_defaults& first, const sampling_defaults& second) {
  auto all = first;
  for_each_sampling_field([&](sampling_field, auto member) {
    if (!(all.*member))
      all.*member = second.*member;
  });
  return all;
}

} // namespace baton
