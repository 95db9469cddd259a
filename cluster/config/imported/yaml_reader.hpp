// Reads a TorchServe model-config.yaml key by key.
#pragma once

#include "cluster/config/config.hpp"
#include "schema/result.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace baton::cluster {

// The document; tracks which keys were read.
class yaml_reader {
public:
  explicit yaml_reader(const YAML::Node& root) : root_(root) {}

  std::optional<std::uint32_t> number(const YAML::Node& in, const std::string& key,
                                      std::uint32_t most, std::uint32_t least = 1) {
    const auto node = take(in, key);
    if (!node)
      return std::nullopt;
    std::int64_t value = 0;
    if (!node.IsScalar() || !YAML::convert<std::int64_t>::decode(node, value) || value < least ||
        value > most) {
      refuse(key, fmt::format("is {}: a number from {} to {} is needed", shown(node), least, most));
      return std::nullopt;
    }
    return static_cast<std::uint32_t>(value);
  }

  std::optional<std::string> choice(const std::string& key, const std::set<std::string>& choices) {
    const auto node = take(root_, key);
    if (!node)
      return std::nullopt;
    if (!node.IsScalar() || !choices.contains(node.Scalar())) {
      refuse(key, fmt::format("is {}: one of {} is needed", shown(node), fmt::join(choices, ", ")));
      return std::nullopt;
    }
    return node.Scalar();
  }

  bool flag(const std::string& key) {
    const auto node = take(root_, key);
    bool value = false;
    if (node && (!node.IsScalar() || !YAML::convert<bool>::decode(node, value)))
      refuse(key, fmt::format("is {}: true or false is needed", shown(node)));
    return value;
  }

  std::vector<std::uint32_t> numbers(const std::string& key, std::uint32_t most) {
    std::vector<std::uint32_t> values;
    const auto node = take(root_, key);
    if (!node)
      return values;
    constexpr std::size_t list_max = 1024;
    if (!node.IsSequence() || node.size() == 0 || node.size() > list_max)
      refuse(key, "is no list of 1 to 1024 numbers");
    else
      for (const auto& element : node) {
        std::int64_t value = -1;
        if (!element.IsScalar() || !YAML::convert<std::int64_t>::decode(element, value) ||
            value < 0 || value > most)
          refuse(key, fmt::format("has {}: numbers from 0 to {} are needed", shown(element), most));
        values.push_back(static_cast<std::uint32_t>(value));
      }
    return values;
  }

  // Null if there is none.
  YAML::Node map(const std::string& key) {
    auto node = take(root_, key);
    if (node && !node.IsMap()) {
      refuse(key, "is no map of settings");
      return YAML::Node(YAML::NodeType::Undefined);
    }
    return node;
  }

  const YAML::Node& root() const noexcept { return root_; }
  void refuse(const std::string& key, const std::string& why) {
    if (!first_)
      first_ = error{errc::bad_config, fmt::format("{} {}", key, why), key};
  }
  const std::optional<error>& refusal() const noexcept { return first_; }
  // The keys that were not read; invalid names are not repeated.
  std::vector<std::string> rest(const YAML::Node& in) const {
    std::vector<std::string> keys;
    for (const auto& entry : in)
      if (const auto& key = entry.first.Scalar(); !taken_.contains(key))
        keys.push_back(is_name(key) ? key : "a key that is no name");
    return keys;
  }

private:
  static std::string shown(const YAML::Node& node) {
    return node.IsScalar() ? fmt::format("'{}'", node.Scalar().substr(0, 40)) : "no single value";
  }
  YAML::Node take(const YAML::Node& in, const std::string& key) {
    taken_.insert(key);
    return in[key];
  }

  YAML::Node root_;
  std::set<std::string> taken_;
  std::optional<error> first_;
};

} // namespace baton::cluster
