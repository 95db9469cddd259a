#include "runtime/model/model_file.hpp"

namespace baton::model {
result<std::uint32_t> model_file::get_u32(std::string_view key, std::uint32_t otherwise) const {
  return has(key) ? get_u32(key) : result<std::uint32_t>(otherwise);
}
result<std::uint64_t> model_file::get_u64(std::string_view key, std::uint64_t otherwise) const {
  return has(key) ? get_u64(key) : result<std::uint64_t>(otherwise);
}
result<float> model_file::get_f32(std::string_view key, float otherwise) const {
  return has(key) ? get_f32(key) : result<float>(otherwise);
}
result<bool> model_file::get_bool(std::string_view key, bool otherwise) const {
  return has(key) ? get_bool(key) : result<bool>(otherwise);
}
result<std::string> model_file::get_string(std::string_view key, std::string_view otherwise) const {
  return has(key) ? get_string(key) : result<std::string>(std::string(otherwise));
}

result<void> check_rows(const tensor_view& tensor, std::uint64_t first, std::uint64_t count,
                        std::uint64_t out_bytes) {
  if (first > tensor.rows() || count > tensor.rows() - first ||
      out_bytes != count * tensor.row_bytes()) {
    return fail(errc::invalid_value, "rows {} + {} of '{}' ({} rows of {} bytes) into {} bytes",
                first, count, tensor.name, tensor.rows(), tensor.row_bytes(), out_bytes);
  }
  return {};
}

} // namespace baton::model
