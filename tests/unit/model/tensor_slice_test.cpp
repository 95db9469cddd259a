// Slices of a layer for the ranks of a group: complete, in order, on the borders of heads and
// blocks, as even as the speeds. A layer that cannot be cut is named.
#include "runtime/model/gguf/gguf.hpp"
#include "runtime/model/slice.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/scratch_directory.hpp"
#include "tests/support/smollm2_shape.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

using namespace baton;
using model::head_cut;
using model::index_range;
using model::tensor_slice;

namespace {

// One byte per weight.
model::description smollm2_of_bytes() {
  return testing::smollm2_shape(3'538'944, 28'311'552);
}

std::vector<tensor_slice> slices_of(const model::description& d, std::uint32_t width,
                                    std::vector<double> speeds = {},
                                    const model::slice_blocks& blocks = {},
                                    head_cut cut = head_cut::anywhere) {
  const auto slices = model::split(d, width, speeds, blocks, cut);
  REQUIRE_MESSAGE(slices, slices.error().message);
  return *slices;
}

using slice_counts = std::vector<std::uint32_t>;

slice_counts counts_of(const std::vector<tensor_slice>& slices, index_range tensor_slice::*part) {
  slice_counts out;
  for (const auto& slice : slices)
    out.push_back((slice.*part).count);
  return out;
}

std::string refusal(const result<std::vector<tensor_slice>>& slices) {
  return slices ? std::string("cut") : slices.error().message;
}

} // namespace

TEST_CASE("slices are consecutive, cover everything and lie on the borders of blocks") {
  for (std::uint32_t heads = 1; heads <= 8; ++heads)
    for (std::uint32_t width = 1; width <= heads; ++width)
      for (const std::uint32_t vocabulary : {320U, 333U, 1000U}) {
        auto d = smollm2_of_bytes();
        d.kv_head_count = heads;
        d.head_count = heads * 3;
        d.vocab_size = vocabulary;
        const auto slices = slices_of(d, width);
        REQUIRE(slices.size() == width);
        std::uint32_t rank = 0;
        for (const auto& [part, all, unit] : {std::tuple(&tensor_slice::heads, d.head_count, 1U),
                                              {&tensor_slice::ffn, 1536U, 32U},
                                              {&tensor_slice::vocabulary, vocabulary, 32U}}) {
          std::uint32_t next = 0;
          for (const auto& slice : slices) {
            CHECK((slice.*part).first == next);
            CHECK((slice.*part).first % unit == 0);
            CHECK((slice.*part).count >= 1);
            next = (slice.*part).end();
          }
          CHECK(next == all);
        }
        for (const auto& slice : slices) {
          CHECK(slice.rank == rank++);
          CHECK(slice.width == width);
          CHECK(slice.kv_heads == model::kv_heads_of(d, slice.heads));
        }
        std::uint32_t next = 0;
        for (const auto& slice : slices_of(d, width, {}, {}, head_cut::between_kv_heads)) {
          CHECK(slice.kv_heads.first == next);
          CHECK(slice.heads == index_range{next * 3, slice.kv_heads.count * 3});
          next = slice.kv_heads.end();
        }
        CHECK(next == heads);
      }
}

TEST_CASE("nine heads over two ranks are five and four, everything else is halved") {
  auto slices = slices_of(smollm2_of_bytes(), 2);
  CHECK(slices[0].heads == index_range{0, 5});
  CHECK(slices[1].heads == index_range{5, 4});
  CHECK(slices[0].kv_heads == index_range{0, 2});
  CHECK(slices[1].kv_heads == index_range{1, 2}); // both ranks share the one in the middle
  CHECK(slices[0].ffn == index_range{0, 768});
  CHECK(slices[1].vocabulary == index_range{24576, 24576});
  slices = slices_of(smollm2_of_bytes(), 2, {}, {}, head_cut::between_kv_heads);
  CHECK(slices[0].kv_heads == index_range{0, 2});
  CHECK(slices[1].kv_heads == index_range{2, 1});
}

TEST_CASE("ranks share a KV head only where the slowest of them then has less work") {
  auto d = smollm2_of_bytes();
  const auto kv_heads = [&](std::uint32_t of_all, std::uint32_t group, std::uint32_t width) {
    d.kv_head_count = of_all;
    d.head_count = of_all * group;
    return counts_of(slices_of(d, width), &tensor_slice::kv_heads);
  };
  CHECK(kv_heads(4, 7, 2) == slice_counts{2, 2});
  CHECK(kv_heads(8, 4, 3) ==
        slice_counts{3, 3, 2}); // 11, 11 and 10 heads would use 3, 4 and 3 of them
  CHECK(kv_heads(4, 7, 3) == slice_counts{2, 2, 2});
  CHECK(kv_heads(1, 4, 2) == slice_counts{1, 1});
  CHECK(kv_heads(2, 4, 4) == slice_counts{1, 1, 1, 1});
}

TEST_CASE("a rank knows which of its heads use which of its KV heads") {
  const auto d = smollm2_of_bytes();
  for (std::uint32_t width = 1; width <= 9; ++width) {
    std::uint32_t next = 0; // among the model's heads
    for (const auto& slice : slices_of(d, width)) {
      const model::head_map heads(d, slice);
      CHECK(next == slice.heads.first);
      for (std::uint32_t kv = 0; kv < slice.kv_heads.count; ++kv) {
        const auto own = heads.of(kv);
        CHECK(own.count >= 1);
        for (auto h = own.first; h < own.end(); ++h, ++next) {
          CHECK(h == next - slice.heads.first);
          CHECK(next / 3 == slice.kv_heads.first + kv);
        }
      }
    }
    CHECK(next == 9);
  }
}

TEST_CASE("a rank holds its part of the layers and the head, and the whole embedding") {
  auto d = smollm2_of_bytes();
  const auto slices = slices_of(d, 2);
  const auto bytes_of = [&](std::size_t rank, const model::layer_range& range) {
    return static_cast<double>(model::rank_bytes(d, range, slices[rank]));
  };
  // 884,736 weights of a layer belong to attention: of 9 + 3 heads, 5 + 2 and 4 + 2; the ffn is
  // halved.
  const double first = 516096 + 1327104, second = 442368 + 1327104;
  const model::layer_range middle{.first = 3, .count = 2};
  CHECK(bytes_of(0, middle) == doctest::Approx(2 * first));
  CHECK(bytes_of(1, middle) == doctest::Approx(2 * second));
  const auto whole = model::whole(d);
  CHECK(bytes_of(1, whole) == doctest::Approx(30 * second + 28311552 + 14155776));
  d.has_tied_embeddings = true; // the head is part of the embedding
  CHECK(bytes_of(1, whole) == doctest::Approx(30 * second + 28311552));
  CHECK(model::rank_bytes(d, whole, model::split(d, 1)->front()) == 30 * 3'538'944 + 28'311'552);
}

TEST_CASE("no other division makes the slowest rank faster") {
  auto d = smollm2_of_bytes();
  for (const auto& speeds : {std::vector{1.0, 1.0}, {1.0, 0.4}, {0.3, 2.0}, {1.0, 5.0}})
    for (std::uint32_t heads = 2; heads <= 12; ++heads) {
      d.kv_head_count = d.head_count = heads;
      const auto taken = counts_of(slices_of(d, 2, speeds), &tensor_slice::kv_heads);
      const auto slowest = [&](std::uint32_t first) {
        return std::max(first / speeds[0], (heads - first) / speeds[1]);
      };
      for (std::uint32_t first = 1; first < heads; ++first)
        CHECK(slowest(taken[0]) <= slowest(first));
    }
  d.kv_head_count = d.head_count = 8;
  const auto uneven = slices_of(d, 3, {1, 2, 1});
  CHECK(counts_of(uneven, &tensor_slice::kv_heads) == slice_counts{2, 4, 2});
  CHECK(counts_of(uneven, &tensor_slice::ffn) == slice_counts{384, 768, 384});
}

TEST_CASE("heads stay together until their columns are whole blocks") {
  auto d = smollm2_of_bytes();
  d.head_size = 16;
  d.head_count = d.kv_head_count = 5; // two heads make a block of 32, the last stays alone
  CHECK(counts_of(slices_of(d, 2), &tensor_slice::kv_heads) == slice_counts{4, 1});
  CHECK(counts_of(slices_of(d, 3), &tensor_slice::kv_heads) == slice_counts{2, 2, 1});
  const auto too_wide = refusal(model::split(d, 4));
  CHECK(too_wide == "'smollm2': 5 heads (2 stay together) cannot be cut for 4 ranks");
  // Blocks of 256 columns (Q4_K) hold four heads, and four of the default model's groups of heads.
  const model::slice_blocks wide{.attention = 256, .ffn = 256};
  CHECK(counts_of(slices_of(smollm2_of_bytes(), 2, {}, wide), &tensor_slice::heads) ==
        slice_counts{8, 1});
  CHECK(refusal(model::split(smollm2_of_bytes(), 2, {}, wide, head_cut::between_kv_heads))
            .find("3 KV heads (4 stay together)") != std::string::npos);
  d = smollm2_of_bytes();
  d.kv_head_count = 8;
  d.head_count = 24;
  CHECK(counts_of(slices_of(d, 2, {}, wide), &tensor_slice::kv_heads) == slice_counts{4, 4});
  CHECK(counts_of(slices_of(d, 2, {}, wide), &tensor_slice::ffn) == slice_counts{768, 768});
}

TEST_CASE("an impossible number of cuts is rejected by name") {
  auto d = smollm2_of_bytes();
  CHECK(refusal(model::split(d, 10)) == "'smollm2': 9 heads cannot be cut for 10 ranks");
  CHECK(refusal(model::split(d, 4, {}, {}, head_cut::between_kv_heads)) ==
        "'smollm2': 3 KV heads cannot be cut for 4 ranks");
  d.ffn_size = 64;
  CHECK(refusal(model::split(d, 3)).find("64 rows of the ffn (32 stay together)") !=
        std::string::npos);
  d.ffn_size = 1536;
  d.vocab_size = 64;
  CHECK(refusal(model::split(d, 3)).find("64 rows of the head") != std::string::npos);
  CHECK(model::split(d, 0).error().code == errc::invalid_value);
  for (const double speed : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), 1e300}) {
    const double speeds[] = {1.0, speed};
    CHECK(model::split(d, 2, speeds).error().code == errc::invalid_value);
  }
  const double one[] = {1.0};
  CHECK(model::split(d, 2, one).error().code == errc::invalid_value);
}

TEST_CASE("a rank's model differs in its heads and its ffn alone") {
  auto d = smollm2_of_bytes();
  const auto slices = slices_of(d, 2);
  auto own = model::sliced(d, slices[1]);
  CHECK(own.head_count == 4);
  CHECK(own.kv_head_count == 2);
  CHECK(own.q_size() == 256);
  CHECK(own.ffn_size == 768);
  CHECK(own.hidden_size == 576);
  CHECK(own.vocab_size == 49152);
  d.expert_count = 4;
  d.expert_ffn_size = 96;
  CHECK(counts_of(slices_of(d, 2), &tensor_slice::ffn) == slice_counts{64, 32});
  own = model::sliced(d, slices_of(d, 2)[1]);
  CHECK(own.expert_ffn_size == 32);
  CHECK(own.ffn_size == 1536);
}

TEST_CASE("a file's slice blocks follow from the tensors that are cut by columns") {
  const testing::scratch_directory scratch;
  const auto blocks_of = [&](const testing::tiny_llama& options) {
    REQUIRE(testing::write_tiny_llama(scratch / "a.gguf", options));
    const auto file = model::gguf_file::open(scratch / "a.gguf");
    REQUIRE(file);
    auto d = model::describe(*file);
    REQUIRE(d);
    const auto blocks = model::slice_blocks_of(*d, *file);
    REQUIRE(blocks);
    d->layer_count = 9;
    CHECK(model::slice_blocks_of(*d, *file).error().code == errc::bad_model_file);
    return std::pair(blocks->attention, blocks->ffn);
  };
  using model::tensor_type;
  CHECK(blocks_of({.type = tensor_type::f32}) == std::pair(32U, 32U));
  CHECK(blocks_of({.type = tensor_type::q4_1}) == std::pair(32U, 32U));
  CHECK(blocks_of({.type = tensor_type::iq4_nl}) == std::pair(32U, 32U));
  CHECK(blocks_of({.type = tensor_type::mxfp4}) == std::pair(32U, 32U));
  for (const auto type : {tensor_type::q4_k, tensor_type::q2_k, tensor_type::iq4_xs,
                          tensor_type::iq3_s, tensor_type::tq1_0})
    CHECK(blocks_of({.hidden = 256,
                     .heads = 1,
                     .kv_heads = 1,
                     .ffn = 256,
                     .type = type,
                     .embedding_type = tensor_type::q8_0}) == std::pair(256U, 256U));
}
