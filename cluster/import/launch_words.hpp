// The words of a start line as its server's own parser takes them apart. Pure.
#pragma once

#include "cluster/import/launch_options.hpp"
#include "schema/result.hpp"

#include <span>
#include <string>
#include <vector>

namespace baton::cluster::start_line {

struct said_option {
  const option* what = nullptr; // none: the server has no such option
  std::string name;             // as it was written
  std::vector<std::string> values;
};

struct said_words {
  std::vector<said_option> options;
  std::vector<std::string> others; // words that belong to no option
};

// Errors: bad_config (an option has no value, or one that it does not take; names it).
result<said_words> read_words(const dialect& in, std::span<const std::string> words);

// What is said of an option that nothing is made of: why, or that there is none of that name.
std::string left_out(const dialect& in, const said_option& said);

} // namespace baton::cluster::start_line
