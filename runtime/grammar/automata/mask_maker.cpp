#include "runtime/grammar/automata/mask_maker.hpp"

#include "runtime/grammar/automata/control_text.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <unordered_map>

namespace baton::grammar {
namespace {

constexpr std::size_t word_bits = 64;
// Longer tokens are rare, and a bounded string accepts all shorter ones until near its end.
constexpr unsigned characters_max = 32;
// States visited to decide whether any text of a kind is allowed; above it, texts are walked.
constexpr std::size_t states_tried_max = 512;

struct kind_of_text {
  character_set first, rest;
};

// A token belongs to the first kind that fits. From `plain_ascii` on, each kind contains all
// previous kinds.
constexpr std::size_t plain_ascii = 2;
const std::vector<kind_of_text>& kinds() {
  static const character_set letters{{'a', 'z'}}, space{{' ', ' '}};
  // Without the characters that a JSON string escapes.
  static const character_set ascii{{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x7E}};
  static const character_set text{{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x7E}, {0x80, character_max}};
  static const auto all = character_set::all();
  static const std::vector<kind_of_text> table{
      {letters, letters}, {space, letters}, {ascii, ascii}, {text, text}, {all, all}};
  return table;
}

bool is_of(std::string_view bytes, const kind_of_text& kind) {
  unsigned count = 0;
  for (std::size_t at = 0; at < bytes.size(); ++count) {
    const auto c = next_character(bytes, at);
    if (!c || !(count == 0 ? kind.first : kind.rest).contains(*c) || count == characters_max)
      return false;
  }
  return true;
}

void set_bit(token_bits& bits, token_id id) {
  bits[static_cast<std::size_t>(id) / word_bits] |= std::uint64_t{1}
                                                    << static_cast<std::size_t>(id) % word_bits;
}

mask_maker::part part_of(const std::vector<token_text>& texts, std::size_t size,
                         const kind_of_text& kind) {
  mask_maker::part p{token_trie(texts), token_bits((size + word_bits - 1) / word_bits),
                     utf8_patterns(kind.first), utf8_patterns(kind.rest)};
  for (const auto id : p.texts.tokens())
    set_bit(p.bits, id);
  return p;
}

// Whether a state accepts any text of a part. By induction over the text's length: a state that is
// already being checked for at least as many characters is not checked again.
class any_text {
public:
  any_text(automaton& of, const mask_maker::part& p, const mask_budget& budget)
      : of_(of), part_(p), budget_(budget) {}

  bool is_taken(automaton::state s) { return is_taken(s, part_.first, characters_max - 1); }

private:
  bool is_taken(automaton::state s, unsigned characters) {
    if (characters == 0)
      return true;
    auto& known = known_[s];
    if (known >= characters)
      return true;
    known = characters;
    if (++tried_ > states_tried_max || budget_.is_spent(of_))
      return false;
    return is_taken(s, part_.rest, characters - 1);
  }

  bool is_taken(automaton::state s, const std::vector<byte_pattern>& next, unsigned remaining) {
    return std::all_of(next.begin(), next.end(),
                       [&](const byte_pattern& p) { return is_taken(s, p, /*at=*/0, remaining); });
  }

  bool is_taken(automaton::state s, const byte_pattern& p, std::size_t at, unsigned remaining) {
    if (s == automaton::dead)
      return false;
    if (at == p.size)
      return is_taken(s, remaining);
    const auto& g = of_.grammar();
    for (std::size_t c = g.class_of(p.bytes[at].first); c <= g.class_of(p.bytes[at].last); ++c)
      if (!is_taken(of_.step_class(s, c), p, at + 1, remaining))
        return false;
    return true;
  }

  automaton& of_;
  const mask_maker::part& part_;
  const mask_budget& budget_;
  std::unordered_map<automaton::state, unsigned> known_;
  std::size_t tried_ = 0;
};

} // namespace

answer_texts texts_of(const text::tokenizer& tokenizer) {
  answer_texts out;
  out.end_ids.assign(tokenizer.end_ids().begin(), tokenizer.end_ids().end());
  out.all.resize(tokenizer.size());
  out.first.resize(tokenizer.size());
  bool has_other_first = false;
  for (std::size_t i = 0; i < tokenizer.size(); ++i) {
    const auto id = static_cast<token_id>(i);
    if (std::binary_search(out.end_ids.begin(), out.end_ids.end(), id)) // an end even if visible
      continue;
    if (tokenizer.is_control(id) && !tokenizer.piece(id).empty())
      out.all[i] = out.first[i] = control_text(tokenizer.piece(id));
    // The byte of control tokens is a token of byte vocabularies, but in no text.
    if (!tokenizer.is_text(id) || tokenizer.piece(id).find(control_byte) != std::string_view::npos)
      continue;
    bool is_first = true;
    out.all[i] = tokenizer.piece(id);
    out.first[i] = tokenizer.next_piece(id, is_first);
    has_other_first |= out.all[i] != out.first[i];
  }
  if (!has_other_first)
    out.first.clear();
  return out;
}

std::size_t mask_maker::mask::hash() const noexcept {
  std::uint64_t h = parts;
  const auto mix = [&h](std::uint64_t v) { h = (h ^ v) * 0x9E3779B97F4A7C15ull + (h >> 29); };
  for (const auto id : ids)
    mix(static_cast<std::uint64_t>(id));
  for (const auto word : bits)
    mix(word);
  return h;
}

mask_maker::mask_maker(answer_texts texts) : texts_(std::move(texts)) {
  const auto is_usable = [](const std::string& bytes) {
    return !bytes.empty() && bytes.size() <= token_trie::bytes_max;
  };
  std::vector<std::vector<token_text>> of_kind(kinds().size());
  std::vector<token_text> others, first;
  for (std::size_t i = 0; i < texts_.all.size(); ++i) {
    const auto id = static_cast<token_id>(i);
    if (!texts_.first.empty() && is_usable(texts_.first[i]))
      first.push_back({texts_.first[i], id});
    const auto& bytes = texts_.all[i];
    if (!is_usable(bytes))
      continue;
    const auto kind = std::find_if(kinds().begin(), kinds().end(),
                                   [&](const kind_of_text& k) { return is_of(bytes, k); });
    auto& where =
        kind == kinds().end() ? others : of_kind[static_cast<std::size_t>(kind - kinds().begin())];
    where.push_back({bytes, id});
  }
  for (std::size_t i = 0; i < kinds().size(); ++i)
    parts_.push_back(part_of(of_kind[i], size(), kinds()[i]));
  for (std::size_t i = plain_ascii; i < parts_.size(); ++i)
    for (std::size_t before = 0; before < i; ++before)
      for (std::size_t w = 0; w < parts_[i].bits.size(); ++w)
        parts_[i].bits[w] |= parts_[before].bits[w];
  others_ = token_trie(others);
  first_ = token_trie(first);
}

std::uint8_t mask_maker::parts_taken(automaton& of, automaton::state s,
                                     const mask_budget& budget) const {
  const auto is_taken = [&](std::size_t i) { return any_text(of, parts_[i], budget).is_taken(s); };
  for (std::size_t i = parts_.size(); i-- > plain_ascii;)
    if (is_taken(i))
      return static_cast<std::uint8_t>((2u << i) - 1); // and all before it
  unsigned taken = 0;
  for (std::size_t i = 0; i < plain_ascii; ++i)
    taken |= is_taken(i) ? 1u << i : 0u;
  return static_cast<std::uint8_t>(taken);
}

// False: the budget is spent.
bool mask_maker::walk(automaton& of, automaton::state s, const token_trie& texts,
                      const mask_budget& budget, std::vector<token_id>& out) const {
  std::array<automaton::state, token_trie::bytes_max + 1> path;
  path[0] = s;
  std::size_t taken = 0; // from here to `i`, all nodes are accepted; added together
  const auto append_taken = [&](std::size_t end) {
    const auto tokens = texts.tokens_of(taken, end);
    out.insert(out.end(), tokens.begin(), tokens.end());
  };
  for (std::size_t i = 0; i < texts.size();) {
    const auto& node = texts.at(i);
    const auto next = of.step(path[node.depth - 1u], node.byte);
    if (next == automaton::dead) {
      append_taken(i);
      i = taken = node.subtree_end;
      continue;
    }
    if (budget.is_spent(of))
      return false;
    path[node.depth] = next;
    ++i;
  }
  append_taken(texts.size());
  return true;
}

std::optional<mask_maker::mask> mask_maker::make(automaton& of, automaton::state s,
                                                 bool begins_text,
                                                 const mask_budget& budget) const {
  mask m;
  if (of.accepts(s))
    m.ids = texts_.end_ids;
  if (begins_text && !texts_.first.empty()) {
    if (!walk(of, s, first_, budget, m.ids))
      return std::nullopt;
  } else {
    m.parts = parts_taken(of, s, budget);
    if (budget.is_spent(of)) // unchecked parts count as not accepted
      return std::nullopt;
    for (std::size_t i = 0; i < parts_.size(); ++i)
      if ((m.parts >> i & 1) == 0 && !walk(of, s, parts_[i].texts, budget, m.ids))
        return std::nullopt;
    if (!walk(of, s, others_, budget, m.ids))
      return std::nullopt;
  }
  m.is_empty = m.ids.empty();
  for (std::size_t i = 0; i < parts_.size(); ++i)
    m.is_empty &= (m.parts >> i & 1) == 0 || parts_[i].texts.size() == 0;
  if (m.ids.size() * sizeof(token_id) * 8 > size()) {
    token_bits bits;
    fill(m, bits);
    m = mask();
    m.bits = std::move(bits);
    m.is_empty = false;
  }
  m.ids.shrink_to_fit();
  return m;
}

mask_maker::mask mask_maker::make_end() const {
  mask m;
  m.ids = texts_.end_ids;
  m.is_empty = m.ids.empty();
  return m;
}

void mask_maker::fill(const mask& from, token_bits& out) const {
  if (!from.bits.empty()) {
    out = from.bits;
    return;
  }
  if (from.parts >> plain_ascii != 0) {
    out = parts_[static_cast<std::size_t>(std::bit_width(from.parts)) - 1].bits;
  } else {
    out.assign((size() + word_bits - 1) / word_bits, 0);
    for (std::size_t p = 0; p < plain_ascii; ++p)
      if ((from.parts >> p & 1) != 0)
        for (std::size_t i = 0; i < out.size(); ++i)
          out[i] |= parts_[p].bits[i];
  }
  for (const auto id : from.ids)
    set_bit(out, id);
}

} // namespace baton::grammar
