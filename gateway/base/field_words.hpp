// Within the gateway each field of a request has one name, that of vLLM's completions. The client
// of another API sent it under another, and hears of it under that one, whoever refuses it: the
// door, the gateway's checks, the model's head. Pure.
#pragma once

#include "schema/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

struct field_word {
  std::string_view ours; // a literal
  std::string theirs;
};
using field_words = std::vector<field_word>;

// The error with the client's names in its parameter, also of a part of it ("messages[2].role"),
// and wherever its message quotes one ('max_tokens').
error said_in(const field_words& words, error e);

} // namespace baton::gateway
