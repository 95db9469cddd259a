// The fields that say what an answer must look like: OpenAI's `response_format`, vLLM's
// `structured_outputs` and its older `guided_*`. Used by openai_fields.cpp alone.
#pragma once

#include "gateway/json_reader.hpp"
#include "schema/constraint.hpp"

namespace baton::gateway {

struct asked_constraint {
  shared_constraint is;
  std::string field; // that asks for it: "response_format"
};

// `source` is the text of the object that the fields are of: a schema's members keep their order.
asked_constraint read_constraint(field_reader& fields, std::string_view source);

} // namespace baton::gateway
