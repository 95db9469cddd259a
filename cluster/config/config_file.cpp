#include "cluster/config/config.hpp"
#include "cluster/config/config_text.hpp"

#include <fstream>
#include <sstream>

namespace baton::cluster {

result<std::string> read_config_file(const std::filesystem::path& file) {
  constexpr std::uintmax_t file_bytes_max = 1 << 20;
  std::error_code failed;
  auto size = std::filesystem::file_size(file, failed);
  if (failed)
    return fail(errc::io_failed, "{}: {}", file.string(), failed.message());
  if (size > file_bytes_max)
    return fail(errc::bad_config, "{}: {} bytes are too many for a configuration", file.string(),
                size);
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  if (!in)
    return fail(errc::io_failed, "{}: cannot be read", file.string());
  return text.str();
}

result<cluster_config> load_config(const std::filesystem::path& file) {
  auto text = text_of_config(file);
  return text ? parse_config(*text, file.string()) : text.error();
}

} // namespace baton::cluster
