// Goal: the embeddings of the CPU engine. Method: compares bits between ways to run the same
// prompt. Compares directions with a plain float32 forward pass and with transformers, whose golden
// logits are a linear image of the embedded hidden states.
#include "tests/support/family_golden.hpp"
#include "tests/support/reference_llama.hpp"
#include "tests/unit/cpu/embeddings.hpp"
#include "tests/unit/cpu/sequences.hpp"
#include "tests/unit/cpu/tensor_group.hpp"
#include "tests/unit/cpu/tiny_file.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace baton;
using namespace baton::testing;
using model::tensor_type;

namespace {

using embedding_values = std::vector<float>;

// Both have length 1 or are scaled to it: their cosine, and the largest difference of a value.
struct likeness {
  double cosine = 0, worst = 0;
};

likeness compare(const embedding_values& found, const std::vector<double>& wanted) {
  double product = 0, found_squares = 0, squares = 0;
  REQUIRE(found.size() == wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    product += double{found[i]} * wanted[i];
    found_squares += double{found[i]} * double{found[i]};
    squares += wanted[i] * wanted[i];
  }
  likeness out{product / std::sqrt(found_squares * squares), 0};
  for (std::size_t i = 0; i < found.size(); ++i)
    out.worst = std::max(out.worst, std::abs(double{found[i]} / std::sqrt(found_squares) -
                                             wanted[i] / std::sqrt(squares)));
  return out;
}

std::vector<double> mean_of(const std::vector<embedding_values>& rows) {
  std::vector<double> mean(rows[0].size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < mean.size(); ++i)
      mean[i] += double{row[i]} / static_cast<double>(rows.size());
  return mean;
}

// [vocabulary]: the model's head applied to an embedding.
embedding_values through_head(const family_golden& golden, const embedding_values& embedding) {
  const bool is_tied = golden.description.has_tied_embeddings;
  const auto head = golden.file->find(is_tied ? "token_embd.weight" : "output.weight");
  REQUIRE(head.has_value());
  embedding_values out(head->rows()), row(head->columns());
  for (std::size_t r = 0; r < head->rows(); ++r) {
    model::dequantize_row(head->type, head->row(r).data(), row.data(), row.size());
    double sum = 0;
    for (std::size_t i = 0; i < row.size(); ++i)
      sum += double{row[i]} * double{embedding[i]};
    out[r] = static_cast<float>(sum);
  }
  return out;
}

const std::vector<tiny_llama> embedding_shapes = {{.type = tensor_type::f32},
                                                  {.hidden = 288,
                                                   .heads = 9,
                                                   .kv_heads = 3,
                                                   .ffn = 96,
                                                   .type = tensor_type::q4_1,
                                                   .embedding_type = tensor_type::q8_0,
                                                   .has_tied_embeddings = true}};

} // namespace

TEST_CASE("an embedding has the same bits for any chunks, batch, threads and instruction set") {
  const auto tokens = some_tokens(150);
  for (const auto& shape : embedding_shapes) {
    const tiny_file tiny(shape);
    for (const auto how : all_poolings) {
      const auto whole = embedding_of(*tiny.load(settings_of(16)), tokens, how, {150});
      CHECK(whole.size() == shape.hidden);
      for (const auto which : available_isas())
        for (const std::uint32_t threads : {1U, 3U}) {
          auto settings = settings_of(16);
          settings.threads = threads;
          settings.forced_isa = which;
          const auto engine = tiny.load(settings);
          const std::vector<part> company = {
              {.sequence = 1, .tokens = {7}, .blocks_from = 8},
              {.sequence = 2, .tokens = {9, 4, 2}, .blocks_from = 9}};
          for (const auto& sizes :
               std::vector<std::vector<std::size_t>>{{1}, {7, 64, 30, 49}, {63, 2}, {128}}) {
            CHECK(embedding_of(*engine, tokens, how, sizes) == whole);
            CHECK(embedding_of(*engine, tokens, how, sizes, company) == whole);
          }
        }
    }
  }
}

TEST_CASE("a row that decodes beside an embedding keeps its own bits") {
  const tiny_file tiny(embedding_shapes[1]);
  const auto engine = tiny.load(settings_of(16));
  const part decoding{.sequence = 1, .tokens = {7}, .blocks_from = 8};
  REQUIRE(engine->run(batch_of({decoding}), {}));
  const embedding_values alone(engine->logits(0).begin(), engine->logits(0).end());
  embedding_of(*engine, some_tokens(60), pooling::mean, {60}, {decoding});
  CHECK(first_difference(alone, engine->logits(0)) == -1);
}

TEST_CASE("two stages make the same embedding as one, and the first stage returns none") {
  const auto tokens = some_tokens(40);
  const tiny_file tiny(embedding_shapes[0]);
  const auto whole = embedding_of(*tiny.load(settings_of()), tokens, pooling::mean, {40});
  const auto first = tiny.load(settings_of(), model::layer_range{0, 1, true, false});
  const auto second = tiny.load(settings_of(), model::layer_range{1, 1, false, true});
  auto batch = batch_of({{.tokens = tokens, .samples = false}});
  batch.pools = {{0, pooling::mean, true, {}}};
  const auto rows = first->run(batch, {});
  REQUIRE_MESSAGE(rows, rows.error().message);
  CHECK(rows->pooled.empty());
  const auto out = second->run(batch, rows->activations);
  REQUIRE_MESSAGE(out, out.error().message);
  REQUIRE(out->pooled.size() == 1);
  CHECK(out->pooled[0].values == whole);
}

TEST_CASE("rank 0 of a group has the whole embedding") {
  const auto tokens = some_tokens(70);
  const tiny_file tiny(embedding_shapes[0]);
  const auto alone = embedding_of(*tiny.load(settings_of(16)), tokens, pooling::mean, {70});
  tensor_group group(*tiny.file, tiny.description, settings_of(16), 2);
  const auto first = embedding_of(group, tokens, pooling::mean, {70});
  CHECK(embedding_of(group, tokens, pooling::mean, {1}) == first);
  CHECK(embedding_of(group, tokens, pooling::mean, {33, 20}) == first);
  const auto like = compare(first, {alone.begin(), alone.end()});
  CHECK(like.cosine > 1 - 1e-6); // sums over ranks round differently
  CHECK(like.worst < 1e-4);
}

// Activations have 16 bits; keys and values are float16. Measured: a cosine of 1 - 3e-9 to 1 -
// 3e-8, and 2e-5 to 7e-5 in a value of a vector of length 1.
TEST_CASE("embeddings match a plain float32 forward pass") {
  const auto tokens = some_tokens(90);
  for (const auto& shape : embedding_shapes) {
    const tiny_file tiny(shape);
    const auto hidden =
        reference_hidden(*tiny.file, tiny.description, {tokens.begin(), tokens.end()});
    const auto engine = tiny.load(settings_of(16));
    const std::vector<std::pair<pooling, std::vector<double>>> wanted = {
        {pooling::mean, mean_of(hidden)},
        {pooling::last, {hidden.back().begin(), hidden.back().end()}},
        {pooling::cls, {hidden.front().begin(), hidden.front().end()}}};
    for (const auto& [how, expected] : wanted) {
      const auto like = compare(embedding_of(*engine, tokens, how, {90}), expected);
      MESSAGE("cosine 1 - ", 1 - like.cosine, ", worst ", like.worst);
      CHECK(like.cosine > 1 - 1e-6);
      CHECK(like.worst < 3e-4);
    }
  }
}

// Bounds as for the logits (family_test.cpp), for vectors of length 1. Without gemma2, whose logits
// are capped.
TEST_CASE("embeddings give the logits of transformers") {
  for (const auto* name : {"qwen2", "qwen3", "llama3", "mistral", "phi3", "smollm3", "gemma3",
                           "mixtral", "qwen3moe"}) {
    CAPTURE(name);
    const family_golden golden(name);
    auto loaded = cpu::engine_cpu::load(*golden.file, golden.description,
                                        model::whole(golden.description), settings_of(16));
    REQUIRE_MESSAGE(loaded, loaded.error().message);
    auto& engine = **loaded;
    REQUIRE((golden.positions[0] == 0 && golden.positions[1] == 1));
    const auto check = [&](pooling how, std::size_t count, const std::vector<double>& wanted) {
      const auto found = embedding_of(engine, part_of(golden.prompt, 0, count), how, {count});
      const auto like = compare(through_head(golden, found), wanted);
      CAPTURE(count);
      CHECK(like.cosine > 1 - 1e-6);
      CHECK(like.worst < 2e-3);
    };
    for (std::size_t i = 0; i < golden.positions.size(); ++i)
      check(pooling::last, golden.positions[i] + 1,
            {golden.logits[i].begin(), golden.logits[i].end()});
    check(pooling::cls, 150, {golden.logits[0].begin(), golden.logits[0].end()});
    check(pooling::mean, 2, mean_of({golden.logits[0], golden.logits[1]}));
  }
}
