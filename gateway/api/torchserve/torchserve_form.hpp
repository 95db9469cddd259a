// The input of a prediction in a form: the field "data", or else "body", as TorchServe's handlers
// read it (curl -d data=..., curl -F data=@FILE). Pure.
#pragma once

#include "schema/result.hpp"

#include <string>
#include <string_view>

namespace baton::gateway {

struct form_input {
  std::string value;
  std::string content_type; // of its part; empty: not given
  std::string other;        // name of a further field, whose value is not used
};

// application/x-www-form-urlencoded. Errors: invalid_request.
result<form_input> input_of_form(std::string_view form);
// multipart/form-data (RFC 7578); Content-Type has the boundary. Errors: invalid_request.
result<form_input> input_of_parts(std::string_view content_type, std::string_view body);

// The refusal of a form without an input.
error no_data_in_form();

} // namespace baton::gateway
