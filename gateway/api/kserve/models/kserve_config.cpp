#include "gateway/api/kserve/models/kserve_config.hpp"

#include "gateway/api/kserve/models/kserve_config_fields.hpp"
#include "gateway/api/kserve/models/triton_platforms.hpp"

#include <fmt/format.h>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

constexpr std::uint64_t sequence_idle_microseconds = 1'000'000; // Triton's default

ordered default_of(const config_field& f) {
  if (f.count == config_count::many) {
    return ordered::array();
  }
  if (f.count == config_count::map) {
    return ordered::object();
  }
  switch (f.type) {
  case config_type::flag:
    return false;
  case config_type::whole:
    return 0;
  case config_type::real:
    return 0.0;
  case config_type::enumeration:
    return std::string(f.target.substr(0, f.target.find(' ')));
  case config_type::text:
  case config_type::message:
    break;
  }
  return "";
}

ordered with_defaults(const ordered& given, std::string_view message) {
  auto whole = ordered::object();
  for (const auto& f : config_fields) {
    if (f.of != message) {
      continue;
    }
    const std::string name(f.name);
    const bool is_message = f.type == config_type::message;
    const bool is_one = f.count == config_count::one || f.count == config_count::choice;
    if (!given.contains(name)) {
      if (f.count != config_count::choice && !(is_message && is_one)) {
        whole[name] = default_of(f);
      }
    } else if (!is_message) {
      whole[name] = given[name];
    } else if (is_one) {
      whole[name] = with_defaults(given[name], f.target);
    } else {
      auto& all = whole[name] = default_of(f);
      for (const auto& [key, value] : given[name].items()) {
        if (f.count == config_count::many) {
          all.push_back(with_defaults(value, f.target));
        } else {
          all[key] = with_defaults(value, f.target);
        }
      }
    }
  }
  return whole;
}

// Adds the configured fields of a tensor besides its name, type and shape.
void add_given(ordered& tensors, const ordered& given) {
  for (auto& tensor : tensors) {
    for (const auto& one : given) {
      if (one.value("name", std::string()) == tensor["name"]) {
        auto both = one;
        both.update(tensor);
        tensor = std::move(both);
      }
    }
  }
}

void complete_kind(ordered& config) {
  const auto backend = config.value("backend", std::string());
  const auto* kind = find_triton_platform(backend, config.value("platform", std::string()));
  if (!kind) {
    return;
  }
  config["platform"] = kind->name;
  if (backend.empty()) {
    config["backend"] = kind->backend;
  }
  if (config.value("default_model_filename", std::string()).empty()) {
    config["default_model_filename"] = kind->file;
  }
}

// A group without a kind runs on the GPUs that it lists, else on the CPU, as in Triton.
void complete_groups(ordered& groups, const std::string& model, std::size_t processes) {
  if (groups.empty()) {
    groups.push_back({{"name", model}, {"count", processes}});
  }
  if (groups.size() == 1) {
    groups[0]["count"] = processes; // nodes.toml may override config.pbtxt
  }
  std::size_t number = 0;
  for (auto& group : groups) {
    if (group.value("name", std::string()).empty()) {
      group["name"] = fmt::format("{}_{}", model, number);
    }
    ++number;
    if (group.value("kind", std::string("KIND_AUTO")) == "KIND_AUTO") {
      const bool has_gpus = group.contains("gpus") && !group["gpus"].empty();
      group["kind"] = has_gpus ? "KIND_GPU" : "KIND_CPU";
    }
    if (group.value("count", 0) < 1) {
      group["count"] = 1;
    }
  }
}

void complete_batches(ordered& config) {
  const auto rows = config.value("max_batch_size", 0);
  const auto prefer_all = [rows](ordered& batcher) {
    auto& preferred = batcher["preferred_batch_size"];
    if (preferred.empty() && rows > 0) {
      preferred = ordered::array({rows});
    }
  };
  if (config.contains("dynamic_batching")) {
    prefer_all(config["dynamic_batching"]);
  }
  if (!config.contains("sequence_batching")) {
    return;
  }
  auto& sequences = config["sequence_batching"];
  if (sequences.value("max_sequence_idle_microseconds", std::uint64_t{0}) == 0) {
    sequences["max_sequence_idle_microseconds"] = sequence_idle_microseconds;
  }
  if (sequences.contains("oldest")) {
    prefer_all(sequences["oldest"]);
  }
}

} // namespace

ordered whole_config(ordered given, const ordered& known, std::size_t processes) {
  const bool is_of_triton = !given.empty();
  auto config = std::move(given);
  for (const auto& [name, value] : known.items()) {
    const bool is_given = config.contains(name);
    if (name == "input" || name == "output") {
      auto tensors = value;
      if (is_given) {
        add_given(tensors, config[name]);
      }
      config[name] = std::move(tensors);
    } else if (name == "dynamic_batching" || name == "instance_group" || name == "backend") {
      if (!is_given && !is_of_triton) {
        config[name] = value;
      }
    } else {
      config[name] = value;
    }
  }
  if (is_of_triton) {
    complete_kind(config);
    complete_groups(config["instance_group"], known["name"].get<std::string>(), processes);
    complete_batches(config);
    for (const auto* memory : {"input_pinned_memory", "output_pinned_memory"}) {
      auto& optimization = config["optimization"];
      if (!optimization.contains(memory)) {
        optimization[memory]["enable"] = true;
      }
    }
  }
  return with_defaults(config, "");
}

std::string reported_platform(const worker_facts& facts) {
  if (facts.config.empty()) {
    return facts.platform;
  }
  auto given = ordered::parse(facts.config);
  complete_kind(given);
  const auto platform = given.value("platform", std::string());
  return platform.empty() ? given.value("backend", facts.platform) : platform;
}

} // namespace baton::gateway
