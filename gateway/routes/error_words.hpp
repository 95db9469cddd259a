// The errors of each API as HTTP answers: the one table that knows all of them.
#pragma once

#include "gateway/base/response_writer.hpp"

namespace baton::gateway {

// Errors as HTTP answers, while nothing else was said.
struct error_words {
  http_reply (*refusal)(const rejected& no, int overload_status); // before it was begun
  http_reply (*failure)(const error& e);                          // behind that, or at once
};
const error_words& errors_of(api_family api) noexcept;

} // namespace baton::gateway
