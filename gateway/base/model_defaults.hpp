// What a model's defaults say of a request whose client does not: the readers of all doors note
// which fields nobody has said, and reception, which knows the model, takes their values. Pure.
#pragma once

#include "gateway/base/json_reader.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <cstdint>

namespace baton::gateway {

// Of these fields (bits), those that the reader's object does not say; it is asked for them. A null
// says nothing.
std::uint32_t unsaid_among(field_reader& fields, std::uint32_t which);

// The values of what is unsaid. Errors: invalid_value ("min_tokens" above a max_tokens that nobody
// said).
result<void> take_defaults(const sampling_defaults& of_model, generate& request);

// Its stop.tokens_max is the model's default: the context may leave fewer.
bool has_default_tokens_max(const generate& request) noexcept;

} // namespace baton::gateway
