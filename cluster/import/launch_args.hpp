// Splits the words of a start command into options, as the server's own parser does. Pure.
#pragma once

#include "cluster/import/launch_options.hpp"
#include "schema/result.hpp"

#include <span>
#include <string>
#include <vector>

namespace baton::cluster::start_line {

struct parsed_option {
  const option* what = nullptr; // null: the server has no such option
  std::string name;             // as written
  std::vector<std::string> values;
};

struct parsed_args {
  std::vector<parsed_option> options;
  std::vector<std::string> others; // words that belong to no option
};

// Errors: bad_config (a missing or unexpected value; the message names the option).
result<parsed_args> parse_args(const dialect& in, std::span<const std::string> args);

// The note for an option without a translation: the reason, or that the name is unknown.
std::string left_out(const dialect& in, const parsed_option& parsed);

} // namespace baton::cluster::start_line
