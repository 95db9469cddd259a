// The named inputs of a prediction, as TorchServe passes them to handlers: the body or the fields
// of a form. Pure.
#pragma once

#include "gateway/api/torchserve/torchserve_request.hpp"
#include "schema/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

struct form_field {
  std::string name;
  std::string value;
  std::string content_type; // of its part; empty: not given
};

// application/x-www-form-urlencoded. Errors: invalid_request.
result<std::vector<form_field>> fields_of_form(std::string_view form);
// multipart/form-data (RFC 7578); Content-Type has the boundary. Errors: invalid_request.
result<std::vector<form_field>> fields_of_parts(std::string_view content_type,
                                                std::string_view body);
// The field "body", or the fields of a form. Errors: invalid_request (invalid form).
result<std::vector<form_field>> worker_inputs_of(const torchserve_body& body);

struct form_body {
  std::string content_type; // with the boundary
  std::string text;
};
// Encodes the fields as one multipart/form-data body.
form_body parts_of(const std::vector<form_field>& fields);

} // namespace baton::gateway
