// Every way in which a batch can violate the limits, as one change to a valid batch.
#include "runtime/engine/engine.hpp"

#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <limits>

using namespace baton;
using namespace baton::engine;

namespace {

capacity validate_limits() {
  return {.blocks = 8,
          .block_positions = 4,
          .swap_blocks = 3,
          .rows_max = 16,
          .hidden_size = 2,
          .vocabulary_size = 100,
          .max_model_len = 20,
          .model_hash = 1,
          .device = "test"};
}

// A chunk of six rows at position 3, and a decode row at position 8.
micro_batch good_batch() {
  micro_batch b;
  b.batch = {7};
  b.epoch = {1};
  b.slices = {{{{1}, 0}, 3, 6, false, {5, 0, 2}}, {{{2}, 0}, 8, 1, true, {1, 3, 4}}};
  b.tokens = {1, 2, 3, 4, 5, 99, 0};
  b.draws.resize(1);
  return b;
}

} // namespace

TEST_CASE("a batch within the limits is accepted at the first and at a later stage") {
  CHECK(validate(good_batch(), {}, validate_limits(), true).has_value());
  CHECK(validate(good_batch(), std::vector<float>(14), validate_limits(), false).has_value());
}

TEST_CASE("copies within the limits are accepted, of any block") {
  auto b = good_batch();
  b.copies = {{7, 2, true}, {7, 2, false}, {5, 0, true}};
  CHECK(validate(b, {}, validate_limits(), true).has_value());
}

TEST_CASE("two slices may read a block that neither writes") {
  auto b = good_batch();
  b.slices[0].position = 4; // blocks 1 and 2 of each slice are written, the first is only read
  b.slices[0].rows = 6;
  b.slices[1].blocks[0] = b.slices[0].blocks[0];
  CHECK(validate(b, {}, validate_limits(), true).has_value());
}

TEST_CASE("slices of a model with states go from one slot to another") {
  auto limits = validate_limits();
  limits.state_slots = 4;
  const auto with = [&](std::array<std::uint32_t, 4> slots, std::uint32_t drafts = 0) {
    auto b = good_batch();
    b.slices[0].state_from = slots[0];
    b.slices[0].state_to = slots[1];
    b.slices[1].state_from = slots[2];
    b.slices[1].state_to = slots[3];
    if (drafts > 0) {
      b.slices[0].samples = true;
      b.slices[0].drafts = drafts;
      b.draws.resize(2 + drafts);
    }
    return validate(b, {}, limits, true).has_value();
  };
  CHECK(with({1, 2, 3, 4}));
  CHECK(with({1, 2, 1, 4})); // both begin with the same cached prefix
  CHECK_FALSE(with({1, 2, 3, 4}, 1));
  CHECK_FALSE(with({1, 5, 3, 4}));
  CHECK_FALSE(with({5, 2, 3, 4}));
  CHECK_FALSE(with({1, 0, 3, 4}));
  CHECK_FALSE(with({0, 2, 3, 4})); // position 3 has a state
  CHECK_FALSE(with({1, 1, 3, 4}));
  CHECK_FALSE(with({1, 2, 3, 2}));
  CHECK_FALSE(with({1, 2, 2, 4}));
  CHECK_FALSE(with({1, 2, 3, 1}));
  limits.state_slots = 0;
  CHECK_FALSE(with({1, 2, 3, 4}));
}

TEST_CASE("a batch that violates the limits is rejected") {
  const std::vector<std::pair<const char*, std::function<void(micro_batch&)>>> changes = {
      {"no slices",
       [](auto& b) {
         b.slices.clear();
         b.tokens.clear();
         b.draws.clear();
       }},
      {"no rows", [](auto& b) { b.slices[1].rows = 0; }},
      {"more tokens than rows", [](auto& b) { b.tokens.push_back(1); }},
      {"fewer tokens than rows", [](auto& b) { b.tokens.pop_back(); }},
      {"more rows than fit",
       [](auto& b) {
         b.slices[0] = {{{1}, 0}, 0, 17, false, {5, 0, 2, 6, 7}};
         b.tokens.resize(18);
       }},
      {"past the context", [](auto& b) { b.slices[1].position = 20; }},
      {"position and rows overflow",
       [](auto& b) { b.slices[1].position = std::numeric_limits<std::uint32_t>::max(); }},
      {"rows overflow", [](auto& b) { b.slices[0].rows = ~0u; }},
      {"a block too few", [](auto& b) { b.slices[1].blocks.pop_back(); }},
      {"a block too many", [](auto& b) { b.slices[1].blocks.push_back(6); }},
      {"no blocks", [](auto& b) { b.slices[0].blocks.clear(); }},
      {"a block that does not exist", [](auto& b) { b.slices[0].blocks[1] = 8; }},
      {"a block twice in a slice", [](auto& b) { b.slices[0].blocks[1] = 5; }},
      {"a block written by both", [](auto& b) { b.slices[1].blocks[2] = 2; }},
      {"a block read by one and written by the other", [](auto& b) { b.slices[1].blocks[0] = 2; }},
      {"a block written by the later and read by the earlier",
       [](auto& b) {
         b.slices[0].position = 4;
         b.slices[1].blocks[2] = b.slices[0].blocks[0];
       }},
      {"a negative token", [](auto& b) { b.tokens[3] = -1; }},
      {"a token past the vocabulary", [](auto& b) { b.tokens[3] = 100; }},
      {"a draw too few", [](auto& b) { b.draws.clear(); }},
      {"a draw too many", [](auto& b) { b.draws.resize(2); }},
      {"guesses where nothing is drawn", [](auto& b) { b.slices[0].drafts = 1; }},
      {"as many guesses as rows",
       [](auto& b) {
         b.slices[1].drafts = 1;
         b.draws.resize(2);
       }},
      {"guesses without their draws",
       [](auto& b) {
         b.slices[0].samples = true;
         b.slices[0].drafts = 2;
         b.draws.resize(2);
       }},
      {"a copy of a block past the end",
       [](auto& b) {
         b.copies = {{8, 0, true}};
       }},
      {"a copy past the end of swap space",
       [](auto& b) {
         b.copies = {{0, 3, false}};
       }},
      {"a draw out of range", [](auto& b) { b.draws[0].sampling.top_p = 2; }},
      {"a banned token past the vocabulary", [](auto& b) { b.draws[0].banned = {100}; }},
  };
  for (const auto& [what, change] : changes) {
    CAPTURE(what);
    auto b = good_batch();
    change(b);
    auto ok = validate(b, {}, validate_limits(), true);
    REQUIRE_FALSE(ok.has_value());
    CHECK(ok.error().code == errc::invalid_value);
  }
}

TEST_CASE("activations match the number of rows, with none at the first stage") {
  CHECK_FALSE(validate(good_batch(), std::vector<float>(14), validate_limits(), true).has_value());
  CHECK_FALSE(validate(good_batch(), {}, validate_limits(), false).has_value());
  CHECK_FALSE(validate(good_batch(), std::vector<float>(13), validate_limits(), false).has_value());
}
