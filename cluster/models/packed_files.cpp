#include "cluster/models/packed_files.hpp"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <memory>

namespace baton::cluster {
namespace {

namespace fs = std::filesystem;
using reader_handle = std::unique_ptr<archive, decltype(&archive_read_free)>;

constexpr std::size_t read_ahead_bytes = 64u << 10;

error not_readable(archive* from) {
  const char* text = archive_error_string(from);
  return no_model_archive(text ? text : "it is neither zip nor tar");
}

reader_handle new_reader() {
  reader_handle made(archive_read_new(), &archive_read_free);
  archive_read_support_filter_gzip(made.get());
  archive_read_support_format_zip(made.get());
  archive_read_support_format_tar(made.get());
  return made;
}

// Strips a leading "./", as `tar czf m.tar.gz .` writes it. Empty: the name is not usable.
std::string path_of(archive_entry* entry) {
  const char* text = archive_entry_pathname(entry);
  if (text == nullptr)
    text = archive_entry_pathname_utf8(entry);
  std::string path(text ? text : "");
  while (path.starts_with("./"))
    path.erase(0, 2);
  return path;
}

result<std::string> content_of(archive* from, const std::string& path) {
  std::string content;
  char piece[4096];
  for (;;) {
    const auto read = archive_read_data(from, piece, sizeof(piece));
    if (read < 0)
      return no_model_archive(fmt::format("{} is damaged", path));
    if (read == 0)
      return content;
    content.append(piece, static_cast<std::size_t>(read));
    if (content.size() > packed_files::text_bytes_max)
      return no_model_archive(
          fmt::format("{} is larger than {} bytes", path, packed_files::text_bytes_max));
  }
}

// Bounds the unpacked bytes read so far, absolutely and relative to the packed size.
result<void> check_size(std::uint64_t held, std::uint64_t packed) {
  if (held > packed_files::unpacked_max)
    return no_model_archive(fmt::format("it holds more than {} bytes", packed_files::unpacked_max));
  if (held > std::max(packed_files::ratio_free, packed * packed_files::ratio_max))
    return no_model_archive(fmt::format("it holds {} bytes in {}: more than {} times as many", held,
                                        packed, packed_files::ratio_max));
  return {};
}

} // namespace

error no_model_archive(std::string_view why) {
  return fail(errc::bad_config, "it is no model archive: {}", why);
}

packed_files::packed_files(fs::path file) : from_(std::move(file)) {
  std::error_code ec;
  const auto size = fs::file_size(std::get<fs::path>(from_), ec);
  packed_bytes_ = ec ? 0 : size;
}

packed_files::packed_files(std::string_view bytes) : from_(bytes), packed_bytes_(bytes.size()) {}

result<packed_files::text> packed_files::read(std::string_view name,
                                              const predicate& is_meant) const {
  const auto from = new_reader();
  const auto* bytes = std::get_if<std::string_view>(&from_);
  const auto opened = bytes ? archive_read_open_memory(from.get(), bytes->data(), bytes->size())
                            : archive_read_open_filename(
                                  from.get(), std::get<fs::path>(from_).c_str(), read_ahead_bytes);
  if (opened != ARCHIVE_OK)
    return not_readable(from.get());
  std::uint64_t held = 0;
  for (std::size_t entries = 0;; ++entries) {
    archive_entry* entry = nullptr;
    const auto next = archive_read_next_header(from.get(), &entry);
    if (next == ARCHIVE_EOF)
      return no_model_archive(fmt::format("{} is not in it", name));
    if (next < ARCHIVE_WARN) // libarchive only warns about a name in another character set
      return not_readable(from.get());
    if (entries == entries_max)
      return no_model_archive(fmt::format("it has more than {} files", entries_max));
    const auto path = path_of(entry);
    if (archive_entry_filetype(entry) == AE_IFREG && is_meant(path)) {
      auto content = content_of(from.get(), path);
      if (!content)
        return content.error();
      return text{path.substr(0, path.size() - name.size()), *std::move(content)};
    }
    held += static_cast<std::uint64_t>(std::max<std::int64_t>(0, archive_entry_size(entry)));
    if (auto ok = check_size(held, packed_bytes_); !ok)
      return ok.error();
  }
}

result<packed_files::text> packed_files::find(std::string_view name) const {
  return read(name, [name](const std::string& path) {
    if (!path.ends_with(name))
      return false;
    const auto directory = std::string_view(path).substr(0, path.size() - name.size());
    return directory.empty() || directory.find('/') == directory.size() - 1;
  });
}

result<std::string> packed_files::at(std::string_view path) const {
  auto found = read(path, [path](const std::string& one) { return one == path; });
  return found ? result<std::string>(std::move(found->content)) : found.error();
}

} // namespace baton::cluster
