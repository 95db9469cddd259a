#include "tests/support/checkpoint_writer.hpp"

#include "schema/ensure.hpp"

#include <cstring>
#include <fstream>
#include <iterator>

namespace baton::testing {

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ENSURE(out.flush().good(), "cannot write {}", path.string());
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string safetensors_bytes(std::string_view header, std::string_view data) {
  const std::uint64_t length = header.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes.append(header).append(data);
}

std::string bytes_of(std::initializer_list<float> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(float)};
}

void change_header(const std::filesystem::path& file,
                   const std::function<void(model::json&)>& change) {
  const auto bytes = read_file(file);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  auto header = model::json::parse(bytes.substr(sizeof(length), length));
  change(header);
  write_file(file, safetensors_bytes(header.dump(),
                                     std::string_view(bytes).substr(sizeof(length) + length)));
}

void change_json(const std::filesystem::path& file,
                 const std::function<void(model::json&)>& change) {
  auto value = model::json::parse(read_file(file));
  change(value);
  write_file(file, value.dump());
}

} // namespace baton::testing
