// Iterates over the fields of sampling_defaults, for code that treats them all alike.
#pragma once

#include "schema/sampling_defaults.hpp"

namespace baton {

// Calls visit(field, pointer to member) for each field, in the order of their bits. The types of
// the members differ, so `visit` is generic.
template <class Visit>
void for_each_sampling_field(Visit visit) {
  visit(sampling_field::temperature, &sampling_defaults::temperature);
  visit(sampling_field::top_k, &sampling_defaults::top_k);
  visit(sampling_field::top_p, &sampling_defaults::top_p);
  visit(sampling_field::min_p, &sampling_defaults::min_p);
  visit(sampling_field::repetition_penalty, &sampling_defaults::repetition_penalty);
  visit(sampling_field::max_tokens, &sampling_defaults::max_tokens);
}

} // namespace baton
