// The fields that say what an answer must look like: OpenAI's `response_format`, vLLM's
// `structured_outputs` and its older `guided_*`. Used by openai_fields.cpp; TGI's `grammar` shares
// how a schema is read.
#pragma once

#include "gateway/base/json_reader.hpp"
#include "schema/constraint.hpp"

namespace baton::gateway {

struct asked_constraint {
  shared_constraint is;
  std::string field; // that asks for it: "response_format"
};

// A schema as an object, or as its text; nothing if there is none, or after a mistake. `where`: its
// names, from the object that `source` is the text of.
std::optional<constraint> read_schema(field_reader& from, const char* name,
                                      std::span<const std::string_view> where,
                                      std::string_view source);

// `source` is the text of the object that the fields are of: a schema's members keep their order.
asked_constraint read_constraint(field_reader& fields, std::string_view source);

} // namespace baton::gateway
