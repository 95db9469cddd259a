// Engines with a tiny model, for the conformance checks and the plugin tests.
#pragma once

#include "runtime/cpu/forward/engine_cpu.hpp"
#include "runtime/engine/toy_engine.hpp"
#include "runtime/plugin/plugin_engine.hpp"
#include "tests/conformance/conformance.hpp"
#include "tests/support/places.hpp"
#include "tests/unit/cpu/tiny_file.hpp"

namespace baton::testing {

// The engine with that name in the build's folder.
inline plugin::library open_engine(const std::string& name) {
  auto opened = plugin::library::open(engines_directory() / plugin::file_name_of(name));
  REQUIRE_MESSAGE(opened, opened.error().message);
  return *std::move(opened);
}

inline std::vector<model::layer_range> ranges_of(std::uint32_t layers,
                                                 const std::vector<std::uint32_t>& cuts) {
  std::vector<model::layer_range> out;
  std::uint32_t first = 0;
  for (std::size_t i = 0; i <= cuts.size(); ++i) {
    const auto end = i < cuts.size() ? cuts[i] : layers;
    out.push_back({first, end - first, first == 0, end == layers});
    first = end;
  }
  return out;
}

inline plugin::config plugin_settings(const std::string& device) {
  plugin::config c;
  c.device = device;
  c.blocks = 16;
  c.block_positions = 16;
  c.swap_blocks = 4;
  c.rows_max = 64;
  return c;
}

inline std::unique_ptr<plugin::plugin_engine>
load_plugin(const plugin::library& from, const tiny_file& tiny, const plugin::config& settings,
            std::optional<model::layer_range> range = {}) {
  auto engine = plugin::plugin_engine::load(
      from, *tiny.file, tiny.description, range.value_or(model::whole(tiny.description)), settings);
  REQUIRE_MESSAGE(engine, engine.error().message);
  return *std::move(engine);
}

// The tiny model as a plugin engine computes it.
inline conformance::subject plugin_subject(const plugin::library& from,
                                           std::shared_ptr<const tiny_file> tiny,
                                           const plugin::config& settings, float tolerance) {
  conformance::subject s;
  s.name = from.calls().name;
  s.layers = tiny->description.layer_count;
  s.tolerance = tolerance;
  s.make = [from, tiny, settings](const std::vector<std::uint32_t>& cuts,
                                  const conformance::subject::masker& constrains) {
    conformance::stages out;
    auto with = settings;
    with.masker = constrains;
    for (const auto& range : ranges_of(tiny->description.layer_count, cuts))
      out.push_back(load_plugin(from, *tiny, with, range));
    return out;
  };
  return s;
}

} // namespace baton::testing
