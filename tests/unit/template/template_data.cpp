// Test data as template values.
#include "tests/unit/template/template_data.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <sstream>

namespace baton::test {

using text::value;

std::string read_data(const std::string& file) {
  std::ifstream in(std::string(BATON_SOURCE_DIR "/tests/data/template/") + file);
  REQUIRE_MESSAGE(in.good(), file);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

const nlohmann::ordered_json& goldens() {
  static const auto json = nlohmann::ordered_json::parse(read_data("goldens.json"));
  return json;
}

value value_of(const nlohmann::ordered_json& json) {
  if (json.is_null()) {
    return value::none();
  }
  if (json.is_boolean()) {
    return value::boolean(json.get<bool>());
  }
  if (json.is_number_integer()) {
    return value::integer(json.get<std::int64_t>());
  }
  if (json.is_number_float()) {
    return value::real(json.get<double>());
  }
  if (json.is_string()) {
    return value::string(json.get<std::string>());
  }
  if (json.is_array()) {
    std::vector<value> items;
    for (const auto& item : json) {
      items.push_back(value_of(item));
    }
    return value::list(std::move(items));
  }
  std::vector<std::pair<std::string, value>> entries;
  for (const auto& [key, item] : json.items()) {
    entries.emplace_back(key, value_of(item));
  }
  return value::map(std::move(entries));
}

text::template_input input_of(const std::string& context) {
  const auto& json = goldens().at("contexts").at(context);
  text::template_input input;
  input.messages = value_of(json.at("messages"));
  input.add_generation_prompt = json.value("add_generation_prompt", false);
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.tools = value_of(json.value("tools", nlohmann::ordered_json()));
  const auto extra = json.value("extra", nlohmann::ordered_json::object());
  for (const auto& [name, item] : extra.items()) {
    input.extra.emplace_back(name, value_of(item));
  }
  using namespace std::chrono;
  input.now = sys_days(2025y / March / 7) + 9h + 5min + 3s;
  return input;
}

std::vector<std::string> template_files() {
  std::set<std::string> names;
  for (const auto& row : goldens().at("families")) {
    names.insert(row.at("template").get<std::string>());
  }
  return {names.begin(), names.end()};
}

} // namespace baton::test
