// Copies of tests/data/model/families/NAME with one change, and the outcome of loading them.
#pragma once

#include "runtime/model/description.hpp"
#include "runtime/model/open/open_model.hpp"
#include "tests/support/checkpoint_writer.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::testing {

inline std::filesystem::path family(const std::string& name) {
  return std::filesystem::path(BATON_SOURCE_DIR) / "tests/data/model/families" / name;
}

inline model::description described(const std::filesystem::path& path) {
  const auto file = model::open_model(path);
  REQUIRE_MESSAGE(file, file.error().message);
  const auto found = model::describe(**file);
  REQUIRE_MESSAGE(found, found.error().message);
  return *found;
}

// A copy and its outcome: a description, or the reason for a rejection.
class changed {
public:
  explicit changed(const std::string& name) {
    std::filesystem::copy(family(name), path(), std::filesystem::copy_options::recursive);
  }
  std::filesystem::path path() const { return scratch_ / "model"; }
  changed& config(const std::function<void(model::json&)>& change) {
    change_json(path() / "config.json", change);
    return *this;
  }
  changed& index(const std::function<void(model::json&)>& change) {
    change_json(path() / "model.safetensors.index.json", change);
    return *this;
  }
  changed& header(const std::function<void(model::json&)>& change) {
    change_header(path() / "model.safetensors", change);
    return *this;
  }
  // Flips a bit in the first byte of a tensor.
  changed& byte_of(const std::string& tensor) {
    const auto file = path() / "model.safetensors";
    auto bytes = read_file(file);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    const auto header = model::json::parse(bytes.substr(sizeof(length), length));
    const auto offset = header.at(tensor).at("data_offsets").at(0).get<std::size_t>();
    bytes[sizeof(length) + length + offset] ^= 1;
    write_file(file, bytes);
    return *this;
  }
  // Copies the bytes of one tensor over another of the same size.
  changed& copy(const std::string& from, const std::string& to) {
    const auto file = path() / "model.safetensors";
    auto bytes = read_file(file);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    const auto header = model::json::parse(bytes.substr(sizeof(length), length));
    const auto range = [&](const std::string& tensor) {
      return header.at(tensor).at("data_offsets").get<std::vector<std::size_t>>();
    };
    const auto source = range(from), target = range(to);
    const auto data = sizeof(length) + length;
    bytes.replace(data + target[0], target[1] - target[0], bytes, data + source[0],
                  source[1] - source[0]);
    write_file(file, bytes);
    return *this;
  }
  // Empty: it is accepted.
  std::string refusal() const {
    const auto file = model::open_model(path());
    if (!file)
      return file.error().message;
    const auto found = model::describe(**file);
    return found ? "" : found.error().message;
  }

private:
  scratch_directory scratch_;
};

inline std::string refusal_of(const std::string& name,
                              const std::function<void(model::json&)>& change) {
  return changed(name).config(change).refusal();
}

inline void rename(model::json& object, const char* from, const char* to) {
  const auto value = object.at(from);
  object.erase(from);
  object[to] = value;
}

inline bool mentions(const std::string& message, std::string_view part) {
  CAPTURE(message);
  const bool found = message.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

// A change of one member of config.json.
inline auto set_field(const char* key, model::json value) {
  return [key, value = std::move(value)](model::json& config) { config[key] = value; };
}

// A change of a family's config.json, and what the refusal of the directory mentions.
struct refused_change {
  std::string family;
  std::function<void(model::json&)> apply;
  std::string mentions;
};
inline void check_refused(const std::vector<refused_change>& changes) {
  for (const auto& each : changes) {
    CAPTURE(each.family);
    CHECK(mentions(refusal_of(each.family, each.apply), each.mentions));
  }
}

} // namespace baton::testing
