// Keys of config.properties that another setting replaces, or that need no replacement.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace baton::cluster {

// By key: the reason, in capitals where clients would miss something.
const std::map<std::string, std::string, std::less<>>& torchserve_left_out();

} // namespace baton::cluster
