// Cuts of a model into stages: complete, in order, even in cost, and measured in bytes.
#include "runtime/model/gguf/gguf.hpp"
#include "runtime/model/slice.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/scratch_directory.hpp"
#include "tests/support/smollm2_shape.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <set>

using namespace baton;
using model::decode_load;
using model::layer_range;

namespace {

// Thirty layers of 2.2 MB, a head of 30 MB, three KV heads of 64: the shape of SmolLM2-135M.
model::description smollm2_of_layers() {
  auto d = testing::smollm2_shape(2'216'448, 30'081'024);
  d.output_norm_bytes = 2304;
  return d;
}

model::description plain(std::uint32_t layers, std::uint64_t head_bytes = 0) {
  model::description d;
  d.layer_count = layers;
  d.head_bytes = head_bytes;
  d.layer_bytes.assign(layers, 1000);
  return d;
}

std::vector<std::uint32_t> layer_counts(const result<std::vector<layer_range>>& ranges) {
  REQUIRE_MESSAGE(ranges, ranges.error().message);
  std::vector<std::uint32_t> list;
  std::ranges::transform(*ranges, std::back_inserter(list), &layer_range::count);
  return list;
}

using layers = std::vector<std::uint32_t>;

} // namespace

TEST_CASE("every cut covers all layers once, with the embedding first and the head last") {
  for (std::uint32_t layer_count = 1; layer_count <= 12; ++layer_count) {
    for (std::uint32_t stages = 1; stages <= layer_count; ++stages) {
      const auto ranges = model::partition(plain(layer_count, 3500), stages);
      REQUIRE(ranges);
      REQUIRE(ranges->size() == stages);
      std::uint32_t next = 0;
      for (const auto& range : *ranges) {
        CHECK(range.first == next);
        CHECK(range.count >= 1);
        CHECK(range.has_embedding == (range.first == 0));
        CHECK(range.has_head == (range.end() == layer_count));
        next = range.end();
      }
      CHECK(next == layer_count);
    }
  }
}

TEST_CASE("no cut into two stages is better than the chosen one") {
  for (const std::uint64_t head : {0U, 500U, 2500U, 7000U, 50000U}) {
    const auto model = plain(9, head);
    const auto cost = [&](std::uint32_t first_count) {
      const double last = (9.0 - first_count) * 1000.0 + static_cast<double>(head);
      return std::max(first_count * 1000.0, last);
    };
    const auto taken = layer_counts(model::partition(model, 2));
    for (std::uint32_t count = 1; count < 9; ++count) {
      CHECK(cost(taken[0]) <= cost(count));
    }
  }
}

TEST_CASE("the head adds cost to the last stage") {
  CHECK(layer_counts(model::partition(plain(30), 2)) == layers{15, 15});
  CHECK(layer_counts(model::partition(plain(30, 4000), 2)) == layers{17, 13});
  CHECK(layer_counts(model::partition(plain(30, 1000000), 2)) == layers{29, 1});
  // The best cut measured for this model at 16 streams and more.
  CHECK(layer_counts(model::partition(smollm2_of_layers(), 2)) == layers{17, 13});
  // A single row reads little KV, so the head costs more relative to a layer.
  CHECK(layer_counts(model::partition(smollm2_of_layers(), 2, {}, decode_load{.rows = 1})) ==
        layers{21, 9});
}

TEST_CASE("the stages that are not the slowest are even among themselves") {
  auto before_head =
      layer_counts(model::partition(plain(12, 6000), 4)); // the head alone is the slowest
  CHECK(before_head.back() == 1);
  std::ranges::sort(before_head);
  CHECK(before_head == layers{1, 3, 4, 4});
  auto sizes = layer_counts(model::partition(plain(10), 4));
  std::ranges::sort(sizes);
  CHECK(sizes == layers{2, 2, 3, 3});
}

TEST_CASE("a slower device gets fewer layers") {
  CHECK(layer_counts(model::partition(plain(30), 2, std::vector{1.0, 2.0})) == layers{10, 20});
  CHECK(layer_counts(model::partition(plain(30), 3, std::vector{3.0, 2.0, 1.0})) ==
        layers{15, 10, 5});
  CHECK(layer_counts(model::partition(plain(4), 2, std::vector{1.0, 1000.0})) == layers{1, 3});
  CHECK(layer_counts(model::partition(plain(9), 3, std::vector{0.01, 1.0, 1.0})) ==
        layers{1, 4, 4});
}

TEST_CASE("an impossible cut is rejected with a reason") {
  const auto code = [](std::uint32_t stages, std::vector<double> speeds) {
    const auto r = model::partition(plain(3), stages, speeds);
    return r ? std::optional<errc>() : r.error().code;
  };
  CHECK(code(4, {}) == errc::does_not_fit);
  CHECK(code(0, {}) == errc::invalid_value);
  CHECK(code(2, {1.0}) == errc::invalid_value);
  CHECK(code(2, {1.0, 0.0}) == errc::invalid_value);
  CHECK(code(2, {1.0, -1.0}) == errc::invalid_value);
  CHECK(code(2, {1.0, std::numeric_limits<double>::quiet_NaN()}) == errc::invalid_value);
  CHECK(code(2, {1.0, std::numeric_limits<double>::infinity()}) == errc::invalid_value);
  CHECK(code(2, {1.0, 1e-300}) == errc::invalid_value);
  CHECK_FALSE(code(3, {1.0, 1e-6, 1e6}));
}

TEST_CASE("the stages of a file name every tensor and count its bytes") {
  const testing::scratch_directory scratch;
  for (const bool tied : {false, true}) {
    REQUIRE(
        testing::write_tiny_llama(scratch / "a.gguf", {.layers = 5, .has_tied_embeddings = tied}));
    const auto file = model::gguf_file::open(scratch / "a.gguf");
    REQUIRE(file);
    const auto d = model::describe(*file);
    REQUIRE(d);
    std::uint64_t all = 0;
    for (const auto& tensor : file->tensors()) {
      all += tensor.bytes.size();
    }
    CHECK(model::tensors_of(*d, model::whole(*d)).size() == file->tensors().size());
    CHECK(model::stage_bytes(*d, *file, model::whole(*d)).value() == all);
    const auto ranges = model::partition(*d, 3);
    REQUIRE(ranges);
    std::set<std::string> names;
    std::uint64_t sum = 0;
    for (const auto& range : *ranges) {
      const auto list = model::tensors_of(*d, range);
      names.insert(list.begin(), list.end());
      CHECK(std::set(list.begin(), list.end()).size() == list.size());
      sum += model::stage_bytes(*d, *file, range).value();
    }
    CHECK(names.size() == file->tensors().size());
    CHECK(sum == all + (tied ? d->embedding_bytes : 0)); // held by both ends
  }
}

TEST_CASE("a tensor missing in another file is an error with its name") {
  const testing::scratch_directory scratch;
  REQUIRE(testing::write_tiny_llama(scratch / "a.gguf", {.layers = 2}));
  const auto file = model::gguf_file::open(scratch / "a.gguf");
  REQUIRE(file);
  auto d = model::describe(*file);
  REQUIRE(d);
  d->layers.emplace_back(); // of another file
  const auto bytes = model::stage_bytes(*d, *file, {.first = 2, .count = 1});
  REQUIRE_FALSE(bytes);
  CHECK(bytes.error().message.find("'blk.2.attn_norm.weight'") != std::string::npos);
}
