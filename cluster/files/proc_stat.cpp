#include "cluster/files/proc_stat.hpp"

#include <fstream>
#include <iterator>
#include <sstream>

namespace baton::cluster {

std::optional<std::vector<std::string>> stat_fields(const std::filesystem::path& file,
                                                    std::size_t least) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line))
    return std::nullopt;
  const auto after_name = line.rfind(')');
  if (after_name == std::string::npos)
    return std::nullopt;
  std::istringstream words(line.substr(after_name + 1));
  std::vector<std::string> fields(std::istream_iterator<std::string>(words), {});
  if (fields.size() < least)
    return std::nullopt;
  return fields;
}

} // namespace baton::cluster
