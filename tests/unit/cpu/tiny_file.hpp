// A tiny llama with random weights, written, opened and described: the model file of the CPU
// engine's tests.
#pragma once

#include "runtime/cpu/forward/engine_cpu.hpp"
#include "runtime/model/gguf/gguf.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>

namespace baton::testing {

struct tiny_file {
  scratch_directory directory;
  std::optional<model::gguf_file> file;
  model::description description;

  explicit tiny_file(const tiny_llama& options) {
    const auto path = directory / "tiny.gguf";
    REQUIRE(write_tiny_llama(path, options));
    auto opened = model::gguf_file::open(path);
    REQUIRE_MESSAGE(opened, opened.error().message);
    file = *std::move(opened);
    auto described = model::describe(*file);
    REQUIRE_MESSAGE(described, described.error().message);
    description = *std::move(described);
  }

  std::unique_ptr<cpu::engine_cpu> load(const cpu::config& settings,
                                        std::optional<model::layer_range> range = {}) const {
    auto engine = cpu::engine_cpu::load(*file, description,
                                        range.value_or(model::whole(description)), settings);
    REQUIRE_MESSAGE(engine, engine.error().message);
    return *std::move(engine);
  }
};

inline cpu::config settings_of(std::uint32_t bits = 8) {
  cpu::config c;
  c.kv_blocks = 16;
  c.rows_max = 256;
  c.activation_bits = bits;
  return c;
}

inline std::vector<token_id> some_tokens(std::size_t count, std::uint32_t seed = 0) {
  std::vector<token_id> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(static_cast<token_id>((i * i * 31 + i * 7 + seed * 53) % 270));
  return out;
}

} // namespace baton::testing
