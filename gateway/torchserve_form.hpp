// The input of a prediction in a form: the field "data" or, if there is none, "body", which is
// where TorchServe's handlers look for it (curl -d data=..., curl -F data=@FILE). Pure.
#pragma once

#include "schema/result.hpp"

#include <string>
#include <string_view>

namespace baton::gateway {

// application/x-www-form-urlencoded. Errors: invalid_request.
result<std::string> input_of_form(std::string_view form);
// multipart/form-data (RFC 7578), whose Content-Type says the boundary. Errors: invalid_request.
result<std::string> input_of_parts(std::string_view content_type, std::string_view body);

} // namespace baton::gateway
