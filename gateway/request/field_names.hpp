// The gateway has one name for each request field: that of vLLM's completions. Clients of other
// APIs use other names, and every error must use the client's names, whichever part raised it.
// Pure.
#pragma once

#include "schema/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

struct field_name {
  std::string_view ours; // a literal
  std::string theirs;
};
using field_names = std::vector<field_name>;

// The error with the client's names: in its param, also as a prefix ("messages[2].role"), and where
// its message quotes one ('max_tokens').
error in_client_terms(const field_names& names, error e);

} // namespace baton::gateway
