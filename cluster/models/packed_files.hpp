// Reads text files inside a zip, a tar, or a tar with gzip, using libarchive. The bytes, not the
// file name, decide the format. Reads only the requested files and writes nothing.
#pragma once

#include "schema/result.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <variant>

namespace baton::cluster {

// bad_config: why a file is not a model archive.
error no_model_archive(std::string_view why);

class packed_files {
public:
  static constexpr std::size_t text_bytes_max = 1u << 20; // of a file that is read
  static constexpr std::size_t entries_max = 1u << 16;
  // The same bounds as for unpacking (sdk/python/baton_worker/archive.py): to find a file, the
  // reader must decompress those before it.
  static constexpr std::uint64_t unpacked_max = 256ull << 30;
  static constexpr std::uint64_t ratio_max = 200; // unpacked bytes to packed bytes
  static constexpr std::uint64_t ratio_free = 64ull << 20;

  // Reads a file, or bytes that must outlive this object.
  explicit packed_files(std::filesystem::path file);
  explicit packed_files(std::string_view bytes);

  struct text {
    std::string directory; // its directory in the archive: "", or "model/"
    std::string content;
  };
  // The first file of this name at the top level or in one directory. Errors: bad_config (absent,
  // damaged, or beyond a bound).
  result<text> find(std::string_view name) const;
  // The file with exactly this path.
  result<std::string> at(std::string_view path) const;

private:
  using predicate = std::function<bool(const std::string& path)>;
  result<text> read(std::string_view name, const predicate& is_meant) const;

  std::variant<std::filesystem::path, std::string_view> from_;
  std::uint64_t packed_bytes_ = 0;
};

} // namespace baton::cluster
