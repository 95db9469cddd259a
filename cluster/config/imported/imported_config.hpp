// The result of importing another system's configuration.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace baton::cluster {

struct imported_config {
  std::string toml;               // nodes.toml, valid for parse_config
  std::vector<std::string> notes; // settings that were dropped or changed, with reasons
};

// A quoted TOML string; escapes its content.
std::string toml_string(std::string_view text);
// A TOML comment line.
std::string toml_comment(std::string_view text);

} // namespace baton::cluster
