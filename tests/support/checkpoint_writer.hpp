// Writes the files of a model directory for tests: safetensors with any header, and copies of a
// directory with its JSON changed. Test code only.
#pragma once

#include "runtime/model/json_file.hpp"

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

namespace baton::testing {

void write_file(const std::filesystem::path& path, std::string_view bytes);
std::string read_file(const std::filesystem::path& path);

// The header's length, the header, the data.
std::string safetensors_bytes(std::string_view header, std::string_view data);
std::string bytes_of(std::initializer_list<float> values);

// Takes a safetensors file apart, changes its header and writes it again. Tensors keep their
// offsets.
void change_header(const std::filesystem::path& file,
                   const std::function<void(model::json&)>& change);
void change_json(const std::filesystem::path& file,
                 const std::function<void(model::json&)>& change);

} // namespace baton::testing
