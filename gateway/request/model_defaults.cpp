#include "gateway/request/model_defaults.hpp"

#include "gateway/request/request_check.hpp"

#include <algorithm>

namespace baton::gateway {
namespace {

bool is_unspecified(const generate& request, sampling_field field) noexcept {
  return (request.unspecified & bit_of(field)) != 0;
}

} // namespace

std::uint32_t unspecified_among(field_reader& fields, std::uint32_t which) {
  std::uint32_t unspecified = 0;
  for (std::uint32_t bit = 1; bit <= all_sampling_fields; bit <<= 1) {
    const auto name = name_of(static_cast<sampling_field>(bit));
    if ((which & bit) != 0 && fields.find(name) == nullptr) {
      unspecified |= bit;
    }
  }
  return unspecified;
}

result<void> take_defaults(const sampling_defaults& of_model, generate& request) {
  auto& s = request.terms.sampling;
  const auto take = [&](sampling_field field, const auto& value, auto& to) {
    if (is_unspecified(request, field) && value) {
      to = *value;
    }
  };
  take(sampling_field::temperature, of_model.temperature, s.temperature);
  take(sampling_field::top_k, of_model.top_k, s.top_k);
  take(sampling_field::top_p, of_model.top_p, s.top_p);
  take(sampling_field::min_p, of_model.min_p, s.min_p);
  take(sampling_field::repetition_penalty, of_model.repetition_penalty, s.repetition_penalty);
  normalize_numbers(s);
  auto& stop = request.terms.stop;
  if (is_unspecified(request, sampling_field::max_tokens) && of_model.max_tokens) {
    stop.max_tokens = std::max(*of_model.max_tokens, stop.min_tokens);
    request.terms.max_tokens_given = false;
    request.unspecified = bit_of(sampling_field::max_tokens);
    return {};
  }
  request.unspecified = 0;
  return check_min_tokens(request);
}

bool has_default_max_tokens(const generate& request) noexcept {
  return !request.terms.max_tokens_given && is_unspecified(request, sampling_field::max_tokens);
}

} // namespace baton::gateway
