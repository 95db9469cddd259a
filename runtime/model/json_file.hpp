// JSON from files, as Hugging Face's libraries write it beside the weights. Parser exceptions do
// not escape. Used by the readers of checkpoints, here and in runtime/text.
#pragma once

#include "schema/result.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string_view>

namespace baton::model {

using json = nlohmann::json;

// The largest published tokenizer.json has 33 MB and 8 levels. The library copies and prints values
// recursively, so the depth must be bounded first.
inline constexpr std::uint64_t json_bytes_max = 256U << 20U;
inline constexpr int json_depth_max = 64;

// An object of at most json_depth_max levels without duplicate names in any object. Errors:
// bad_model_file (`origin`, the problem and its location).
result<json> parse_json_object(std::string_view text, std::string_view origin);
// The same from a file. Errors: io_failed, bad_model_file.
result<json> read_json_object(const std::filesystem::path& path);

// A member of an object; nullptr if it is absent or null.
const json* member_of(const json& object, std::string_view name);
// The same, as text or as a bool; a value of another type counts as absent.
std::string text_of(const json& object, std::string_view name, std::string_view otherwise = {});
bool flag_of(const json& object, std::string_view name, bool otherwise);

} // namespace baton::model
