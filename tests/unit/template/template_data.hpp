// Reads tests/data/template: the templates of the model families, and jinja2's output for them.
#pragma once

#include "runtime/text/template/chat_template.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace baton::test {

std::string read_data(const std::string& file);
const nlohmann::ordered_json& goldens();
// The JSON tree as a template value; all its strings are user data.
text::value value_of(const nlohmann::ordered_json& json);
// A context of goldens.json as make_goldens.py passes it to jinja2.
text::template_input input_of(const std::string& context);
std::vector<std::string> template_files();

} // namespace baton::test
