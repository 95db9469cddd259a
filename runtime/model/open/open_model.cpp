#include "runtime/model/open/open_model.hpp"

#include "runtime/model/checkpoint/checkpoint.hpp"
#include "runtime/model/gguf/gguf.hpp"

#include <utility>

namespace baton::model {
namespace {

template <class File>
result<std::unique_ptr<model_file>> opened(const std::filesystem::path& path) {
  auto file = File::open(path);
  if (!file)
    return file.error();
  return std::unique_ptr<model_file>(std::make_unique<File>(*std::move(file)));
}

} // namespace

result<std::unique_ptr<model_file>> open_model(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? opened<checkpoint>(path)
                                                      : opened<gguf_file>(path);
}

} // namespace baton::model
