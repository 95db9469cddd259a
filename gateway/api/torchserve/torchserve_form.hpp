// The input of a prediction in a form: the field "data" or, if there is none, "body", which is
// where TorchServe's handlers look for it (curl -d data=..., curl -F data=@FILE). Pure.
#pragma once

#include "schema/result.hpp"

#include <string>
#include <string_view>

namespace baton::gateway {

struct form_input {
  std::string value;
  std::string content_type; // of its part; empty: it says none
  std::string other;        // a further field's name: it is in no value
};

// application/x-www-form-urlencoded. Errors: invalid_request.
result<form_input> input_of_form(std::string_view form);
// multipart/form-data (RFC 7578), whose Content-Type says the boundary. Errors: invalid_request.
result<form_input> input_of_parts(std::string_view content_type, std::string_view body);

} // namespace baton::gateway
