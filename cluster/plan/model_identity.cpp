#include "cluster/plan/model_identity.hpp"

#include "runtime/model/mapped_file.hpp"
#include "runtime/model/part_name.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <vector>

namespace baton::cluster {
namespace {

namespace fs = std::filesystem;

// Files of a directory that models are read from; others, such as logs and locks, do not count.
bool is_part(const fs::path& file) {
  constexpr std::array<std::string_view, 3> parts{".safetensors", ".json", ".jinja"};
  return std::find(parts.begin(), parts.end(), file.extension().string()) != parts.end();
}

// The files of a model in one GGUF file or in several.
std::vector<fs::path> gguf_parts_of(const model::model_file& file) {
  const auto& first = file.path();
  const auto name = model::parse_part_name(first.filename().string());
  const auto count = file.get_u32("split.count", 1);
  std::vector<fs::path> parts{first};
  for (std::uint32_t number = 2; name && count && number <= *count; ++number)
    parts.push_back(first.parent_path() / name->of(number));
  return parts;
}

result<std::vector<fs::path>> parts_of(const model::model_file& file) {
  const auto& model = file.path();
  std::error_code failed;
  if (!fs::is_directory(model, failed))
    return gguf_parts_of(file);
  std::vector<fs::path> parts;
  for (fs::directory_iterator it(model, failed), end; !failed && it != end; it.increment(failed))
    if (is_part(it->path()))
      parts.push_back(it->path());
  if (failed)
    return fail(errc::io_failed, "{}: {}", model.string(), failed.message());
  std::sort(parts.begin(), parts.end());
  return parts;
}

template <class Number>
std::uint64_t with(std::uint64_t hash, Number number) {
  return model::mixed(hash, std::as_bytes(std::span(&number, 1)));
}

} // namespace

result<std::uint64_t> model_identity(const model::model_file& file) {
  const auto parts = parts_of(file);
  if (!parts)
    return parts.error();
  auto hash = file.fingerprint();
  for (const auto& part : *parts) {
    struct stat status {};
    if (::stat(part.c_str(), &status) != 0)
      return fail(errc::io_failed, "{}: {}", part.string(), std::generic_category().message(errno));
    hash = with(hash, status.st_size);
    hash = with(hash, status.st_mtim.tv_sec);
    hash = with(hash, status.st_mtim.tv_nsec);
  }
  return hash;
}

result<void> check_identity(const model::model_file& file, std::uint64_t at_the_start) {
  const auto now = model_identity(file);
  return now ? check_identity(file, *now, at_the_start) : now.error();
}

result<void> check_identity(const model::model_file& file, std::uint64_t now,
                            std::uint64_t at_the_start) {
  if (now != at_the_start)
    return fail(errc::bad_model_file,
                "{} was changed while the cluster serves it: `cluster down`, then `cluster up`",
                file.path().string());
  return {};
}

} // namespace baton::cluster
