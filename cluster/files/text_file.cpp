#include "cluster/files/text_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace baton::cluster {
namespace fs = std::filesystem;

result<void> replace_file(const fs::path& file, const std::string& text) {
  const auto fresh = fs::path(file.string() + fmt::format(".{}.new", getpid()));
  std::ofstream out(fresh, std::ios::trunc);
  out << text;
  out.close();
  std::error_code failed, ignored;
  if (out)
    fs::rename(fresh, file, failed);
  if (out && !failed)
    return {};
  fs::remove(fresh, ignored);
  return fail(errc::io_failed, "{}: cannot be written", file.string());
}

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string beginning_of(const fs::path& file, std::size_t bytes_max) {
  std::error_code failed;
  const auto bytes = fs::file_size(file, failed);
  std::ifstream in(file, std::ios::binary);
  std::string text(
      failed ? 0 : static_cast<std::size_t>(std::min<std::uintmax_t>(bytes, bytes_max)), '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

} // namespace baton::cluster
