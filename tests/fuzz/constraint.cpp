// A request's output constraint: the first byte chooses the language, 'T' requires tool calls, 'S'
// is a structural tag. An accepted constraint must have texts, and its masks must lead to a random
// one.
#include "runtime/grammar/compile.hpp"
#include "runtime/grammar/masker.hpp"
#include "schema/ensure.hpp"
#include "tests/fuzz/input.hpp"

using namespace baton;

namespace {

// Every byte is a token; the end is the last one.
grammar::answer_texts bytes_alone() {
  grammar::answer_texts out;
  for (int byte = 0; byte < 256; ++byte)
    out.all.emplace_back(1, static_cast<char>(byte));
  out.all.emplace_back();
  out.end_ids = {256};
  return out;
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0)
    return 0;
  const auto kind = data[0] == 'T'   ? constraint_kind::calls
                    : data[0] == 'S' ? constraint_kind::tags
                                     : static_cast<constraint_kind>(1 + data[0] % 5);
  const shared_constraint asked = constraint{kind, std::string(fuzz::text_of(data + 1, size - 1))};
  if (!grammar::compile(*asked))
    return 0;
  // Little memory: the masks of an answer do not depend on the cache. Little work: 64 masks of the
  // slowest grammar take half a minute in this build otherwise.
  grammar::masker masker(bytes_alone(), {.grammar_bytes = 1u << 20,
                                         .step_bytes = 16u << 20,
                                         .step_work = 200'000,
                                         .token_work = 5'000});
  std::vector<token_id> ids;
  grammar::token_bits bits;
  for (std::size_t i = 0; i < 64; ++i) {
    if (auto ok = masker.find(asked, {{1}, 0}, ids, bits); !ok)
      return 0; // too much memory
    token_id next = 0;
    for (std::size_t tried = 0, start = data[i % size] + i; tried < 257; ++tried)
      if (const auto id = (start + tried) % 257; (bits[id / 64] >> (id % 64) & 1) != 0) {
        next = static_cast<token_id>(id);
        break;
      }
    ids.push_back(next);
    if (next == 256)
      break;
  }
  return 0;
}
