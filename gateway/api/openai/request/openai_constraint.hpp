// The fields that constrain an answer: OpenAI's `response_format`, vLLM's `structured_outputs` and
// its older `guided_*`. Used by openai_fields.cpp; TGI's `grammar` shares the schema reader.
#pragma once

#include "gateway/request/json_reader.hpp"
#include "schema/constraint.hpp"

namespace baton::gateway {

struct asked_constraint {
  shared_constraint is;
  std::string field; // the field that requests it: "response_format"
};

// A schema as an object or as text. Nothing if there is none or it is invalid. `where`: its path
// from the object whose text is `source`.
std::optional<constraint> read_schema(field_reader& from, const char* name,
                                      std::span<const std::string_view> where,
                                      std::string_view source);

// `source` is the text of the fields' object: a schema's members keep their order.
asked_constraint read_constraint(field_reader& fields, std::string_view source);

} // namespace baton::gateway
