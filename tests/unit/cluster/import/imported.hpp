// The result of an import of another server's files: the configuration, parsed again, and its
// notes.
#pragma once

#include "cluster/config/config.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace baton::testing {

struct imported {
  cluster::cluster_config config;
  std::vector<std::string> notes;

  bool mentions(std::string_view what) const {
    return std::any_of(notes.begin(), notes.end(),
                       [&](const auto& n) { return n.find(what) != std::string::npos; });
  }
};

} // namespace baton::testing
