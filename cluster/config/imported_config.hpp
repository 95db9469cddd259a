// What becomes of another system's configuration.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace baton::cluster {

struct imported_config {
  std::string toml;               // nodes.toml, which parse_config takes
  std::vector<std::string> notes; // what was left out, or means something else here, and why
};

// As a string of TOML, quoted: whatever it holds stays within it.
std::string toml_string(std::string_view text);
// As a line of its own that says nothing to a reader of TOML.
std::string toml_comment(std::string_view text);

} // namespace baton::cluster
