// Texts of files that are packed: zip, tar, or tar with gzip, found by their bytes and not by the
// name of the file. Only what is asked for is read; nothing is written. By libarchive.
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

// bad_config: why something is no archive of a model.
error no_model_archive(std::string_view why);

class packed_files {
public:
  static constexpr std::size_t text_bytes_max = 1u << 20; // of a file that is read
  static constexpr std::size_t entries_max = 1u << 16;
  // As for those who unpack it (sdk/python/baton_worker/archive.py): whoever looks for a file has
  // to read past those before it.
  static constexpr std::uint64_t unpacked_max = 256ull << 30;
  static constexpr std::uint64_t ratio_max = 200; // of the bytes it holds to those it is
  static constexpr std::uint64_t ratio_free = 64ull << 20;

  // A file, or its bytes, which must outlive this.
  explicit packed_files(std::filesystem::path file);
  explicit packed_files(std::string_view bytes);

  struct text {
    std::string directory; // in which it lies: "", or "model/"
    std::string content;
  };
  // Of the first file of this name that lies at the top, or in one directory. Errors: bad_config
  // (it is not in it, it is damaged, or beyond a bound).
  result<text> find(std::string_view name) const;
  // Of this very path.
  result<std::string> at(std::string_view path) const;

private:
  using predicate = std::function<bool(const std::string& path)>;
  result<text> read(std::string_view name, const predicate& is_meant) const;

  std::variant<std::filesystem::path, std::string_view> from_;
  std::uint64_t packed_bytes_ = 0;
};

} // namespace baton::cluster
