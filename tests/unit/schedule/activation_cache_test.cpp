// Rows that stage 0 may send again without computing them, and rows that it must not.
#include "runtime/schedule/steps/activation_cache.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <memory>

using namespace baton;
using namespace baton::schedule;

namespace {

constexpr std::uint32_t block_positions = 4;

sequence_id number(std::uint64_t n) {
  return {ticket_id{n}, 0};
}

// A row's activations are one number: its token.
payload rows_of(const std::vector<token_id>& tokens) {
  auto memory = std::make_shared<std::vector<token_id>>(tokens);
  const auto* data = reinterpret_cast<const std::byte*>(memory->data());
  return {std::move(memory), data, tokens.size() * sizeof(token_id)};
}

struct piece {
  std::uint64_t sequence;
  std::uint32_t position;
  std::vector<token_id> tokens;
  std::vector<block_index> blocks;
  std::uint32_t drafts = 0;
  std::uint32_t state_from = 0, state_to = 0;
};

micro_batch batch_of(const std::vector<piece>& pieces) {
  micro_batch b;
  for (const piece& p : pieces) {
    slice s;
    s.sequence = number(p.sequence);
    s.position = p.position;
    s.rows = static_cast<std::uint32_t>(p.tokens.size());
    s.blocks = p.blocks;
    s.samples = true;
    s.drafts = p.drafts;
    s.state_from = p.state_from;
    s.state_to = p.state_to;
    b.slices.push_back(s);
    b.tokens.insert(b.tokens.end(), p.tokens.begin(), p.tokens.end());
  }
  b.activations = rows_of(b.tokens);
  return b;
}

// The tokens whose rows are in the cache.
std::optional<std::vector<token_id>> found(activation_cache& sent,
                                           const std::vector<piece>& pieces) {
  const auto parts = sent.find(batch_of(pieces));
  if (!parts)
    return std::nullopt;
  std::vector<token_id> tokens;
  for (const auto& part : *parts)
    for (std::size_t at = 0; at < part.size(); at += sizeof(token_id)) {
      token_id t = 0;
      std::memcpy(&t, part.data() + at, sizeof t);
      tokens.push_back(t);
    }
  return tokens;
}

const piece one{1, 5, {15}, {0, 1}};
const piece two{2, 9, {29}, {2, 3, 4}};
const piece three{3, 0, {30, 31, 32}, {5}};

} // namespace

TEST_CASE("the next epoch begins with rows sent in the last one, in any chunks") {
  activation_cache sent(3, block_positions);
  sent.remember(batch_of({one, two}));
  sent.remember(batch_of({three}));
  CHECK_FALSE(found(sent, {one})); // the epoch continues
  sent.begin_epoch();
  using tokens = std::vector<token_id>;
  CHECK(found(sent, {two, three}) == tokens{29, 30, 31, 32});
  CHECK(found(sent, {one}) == tokens{15});
  CHECK(found(sent, {{3, 1, {31, 32}, {5}}}) == tokens{31, 32});
  SUBCASE("so does the one after it, if nothing else has run") {
    sent.begin_epoch();
    CHECK(found(sent, {one, two}));
    sent.remember(batch_of({one, two}));
    sent.begin_epoch();
    CHECK(found(sent, {two}));
    CHECK_FALSE(found(sent, {three})); // sent two epochs ago
  }
  SUBCASE("until another batch runs") {
    CHECK_FALSE(found(sent, {one, {2, 10, {30}, {2, 3, 4}}}));
    CHECK_FALSE(found(sent, {one}));
  }
}

TEST_CASE("another sequence, position, token or block makes another row") {
  const piece others[] = {{4, 5, {15}, {0, 1}}, {1, 4, {15}, {0, 1}}, {1, 6, {15}, {0, 1}},
                          {1, 5, {16}, {0, 1}}, {1, 5, {15}, {0, 2}}, {1, 5, {15, 16}, {0, 1}}};
  for (const piece& other : others) {
    activation_cache sent(3, block_positions);
    sent.remember(batch_of({one, two}));
    sent.begin_epoch();
    CHECK_FALSE(found(sent, {other}));
  }
}

TEST_CASE("drafts are not kept, rows before them are") {
  activation_cache sent(3, block_positions);
  sent.remember(batch_of({{1, 5, {15, 16, 17}, {0, 1}, 2}}));
  sent.begin_epoch();
  CHECK(found(sent, {one}));
  CHECK_FALSE(found(sent, {{1, 6, {16}, {0, 1}}}));
}

TEST_CASE("rows whose block another sequence has overwritten are gone") {
  activation_cache sent(3, block_positions);
  sent.remember(batch_of({one, two}));
  sent.remember(batch_of({{7, 4, {74}, {2, 1}}})); // shares a prefix with two, and writes block 1
  sent.begin_epoch();
  CHECK(found(sent, {two}));
  CHECK_FALSE(found(sent, {one}));
}

TEST_CASE("nothing is kept of an epoch with a failed step, or beside copies of blocks") {
  activation_cache sent(3, block_positions);
  sent.remember(batch_of({one}));
  sent.spoil();
  sent.remember(batch_of({two}));
  sent.begin_epoch();
  CHECK_FALSE(found(sent, {one}));
  CHECK_FALSE(found(sent, {two}));
  sent.remember(batch_of({one}));
  auto copying = batch_of({two});
  copying.copies.push_back({9, 0, false});
  sent.remember(copying);
  sent.begin_epoch();
  CHECK_FALSE(sent.find(copying));
  sent.begin_epoch();
  sent.remember(batch_of({one}));
  sent.remember(copying);
  sent.begin_epoch();
  CHECK_FALSE(found(sent, {one}));
}

TEST_CASE("the cache keeps no more batches than may be in flight") {
  activation_cache sent(2, block_positions);
  sent.remember(batch_of({one}));
  sent.remember(batch_of({two}));
  sent.remember(batch_of({three}));
  sent.begin_epoch();
  CHECK(found(sent, {two, three}));
  CHECK_FALSE(found(sent, {one}));
}

// The whole step must also have written the state into that slot, and no later step.
TEST_CASE("rows of a model with states are kept for the same step with the same slots") {
  const piece sent_one{4, 8, {48, 49}, {0, 1, 2}, 0, 3, 5};
  const auto is_found = [&](const piece& wanted, const std::vector<piece>& later = {}) {
    activation_cache sent(4, block_positions);
    sent.remember(batch_of({sent_one}));
    for (const piece& p : later)
      sent.remember(batch_of({p}));
    sent.begin_epoch();
    return found(sent, {wanted}).has_value();
  };
  CHECK(is_found(sent_one));
  CHECK_FALSE(is_found({4, 8, {48, 49}, {0, 1, 2}, 0, 3, 6}));
  CHECK_FALSE(is_found({4, 8, {48, 49}, {0, 1, 2}, 0, 2, 5}));
  CHECK_FALSE(is_found({4, 8, {48}, {0, 1, 2}, 0, 3, 5}));
  CHECK_FALSE(is_found({4, 9, {49}, {0, 1, 2}, 0, 3, 5}));
  CHECK(is_found(sent_one, {{6, 0, {60}, {5}, 0, 0, 4}}));
  CHECK(is_found(sent_one, {{6, 12, {60}, {5}, 0, 5, 4}})); // reads it
  CHECK_FALSE(is_found(sent_one, {{6, 0, {60}, {5}, 0, 0, 5}}));
}
