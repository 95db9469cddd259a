// The models of a directory (models_dir): each GGUF file, and each directory below it that holds a
// model. Only names are read here; whether a file can be served shows when it is opened.
//
//   a.gguf                                   the model a
//   b-00001-of-00002.gguf, ...               the model b, in parts
//   c/config.json, *.safetensors             the model c
//   d/x.gguf, d/mmproj-x.gguf                the model d: one file, or the parts of one
#pragma once

#include "schema/ids.hpp"
#include "schema/result.hpp"

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace baton::cluster {

inline constexpr std::size_t models_of_dir_max = pipelines_max;
inline constexpr std::size_t entries_of_dir_max = 10'000; // files and directories in it

// A model that is not served, and why.
struct passed_over_model {
  std::filesystem::path path;
  std::string why;

  friend bool operator==(const passed_over_model&, const passed_over_model&) = default;
};

struct models_of_dir {
  std::vector<std::string> files; // paths in the directory, ordered: "a.gguf", "d/x.gguf"
  std::vector<passed_over_model> passed_over;
};

// Errors: bad_config (no such directory, it cannot be read, too many models or entries).
result<models_of_dir> look_into(const std::filesystem::path& dir);

// Whether the text may be one of `files`: one or two segments, none of them "..".
bool is_file_of_dir(std::string_view text) noexcept;

// The name of the model in that file: "a", "b", "c" and "d" above.
std::string name_of_file(std::string_view file);

// The name that a model without one gets: the file's or directory's, in the characters allowed.
std::string name_of_model(const std::filesystem::path& model);

} // namespace baton::cluster
