// A model's defaults for fields that the client left out. The readers of all APIs record these
// fields; admission, which knows the model, fills them in. Pure.
#pragma once

#include "gateway/request/json_reader.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <cstdint>

namespace baton::gateway {

// The fields among `which` (bits) that the reader's object leaves out. A null counts as left out.
// The names count as known.
std::uint32_t unspecified_among(field_reader& fields, std::uint32_t which);

// Fills in the unset fields. Errors: invalid_value ("min_tokens" above the API's default of
// max_tokens).
result<void> take_defaults(const sampling_defaults& of_model, generate& request);

// Whether stop.max_tokens is the model's default, which the context may reduce.
bool has_default_max_tokens(const generate& request) noexcept;

} // namespace baton::gateway
