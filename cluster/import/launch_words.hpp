// Splits the words of a start command into options, as the server's own parser does. Pure.
#pragma once

#include "cluster/import/launch_options.hpp"
#include "schema/result.hpp"

#include <span>
#include <string>
#include <vector>

namespace baton::cluster::start_line {

struct said_option {
  const option* what = nullptr; // null: the server has no such option
  std::string name;             // as written
  std::vector<std::string> values;
};

struct said_words {
  std::vector<said_option> options;
  std::vector<std::string> others; // words that belong to no option
};

// Errors: bad_config (a missing or unexpected value; the message names the option).
result<said_words> read_words(const dialect& in, std::span<const std::string> words);

// The note for an option without a translation: the reason, or that the name is unknown.
std::string left_out(const dialect& in, const said_option& said);

} // namespace baton::cluster::start_line
