// Reads tests/data/template: the templates of the model families, and what jinja2 makes of them.
#pragma once

#include "runtime/text/template/chat_template.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace baton::test {

std::string read_data(const std::string& file);
const nlohmann::ordered_json& goldens();
// The JSON tree as a template value; all its strings are data of a user.
text::value value_of(const nlohmann::ordered_json& json);
// A context of goldens.json as make_goldens.py gives it to jinja2.
text::template_input input_of(const std::string& context);
std::vector<std::string> template_files();

} // namespace baton::test
