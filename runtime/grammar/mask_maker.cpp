#include "runtime/grammar/mask_maker.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace baton::grammar {
namespace {

constexpr std::size_t word_bits = 64;
// Longer tokens are few, and a bounded string takes any shorter one until its end is near.
constexpr unsigned characters_max = 16;
// States looked at to find out whether any plain text may come; beyond, texts are walked over.
constexpr std::size_t states_tried_max = 512;

const character_set& plain_ascii() {
  static const character_set set{{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x7E}};
  return set;
}
const character_set& plain_text() {
  static const character_set set{{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x7E}, {0x80, character_max}};
  return set;
}

bool is_of(std::string_view bytes, const character_set& set) {
  unsigned count = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto c = next_character(bytes, at);
    if (!c || !set.contains(*c) || ++count > characters_max)
      return false;
  }
  return true;
}

void set_bit(token_bits& bits, token_id id) {
  bits[static_cast<std::size_t>(id) / word_bits] |= std::uint64_t{1}
                                                    << static_cast<std::size_t>(id) % word_bits;
}

mask_maker::part part_of(std::vector<token_text> texts, std::size_t size,
                         const character_set& alphabet) {
  mask_maker::part p{token_trie(std::move(texts)), token_bits((size + word_bits - 1) / word_bits),
                     utf8_patterns(alphabet)};
  for (const auto id : p.texts.tokens())
    set_bit(p.bits, id);
  return p;
}

// Whether a state takes any text of so many characters of an alphabet. By induction over the length
// of such a text: a state that is being looked at with as many characters left need not be looked
// at again.
class any_text {
public:
  any_text(automaton& of, const std::vector<byte_pattern>& alphabet, const mask_budget& budget)
      : of_(of), alphabet_(alphabet), budget_(budget) {}

  bool is_taken(automaton::state s, unsigned characters) {
    if (characters == 0)
      return true;
    auto& known = known_[s];
    if (known >= characters)
      return true;
    known = characters;
    if (++tried_ > states_tried_max || budget_.is_spent(of_))
      return false;
    return std::all_of(alphabet_.begin(), alphabet_.end(), [&](const byte_pattern& p) {
      return is_taken(s, p, /*at=*/0, characters - 1);
    });
  }

private:
  bool is_taken(automaton::state s, const byte_pattern& p, std::size_t at, unsigned behind) {
    if (s == automaton::dead)
      return false;
    if (at == p.size)
      return is_taken(s, behind);
    const auto& g = of_.grammar();
    for (std::size_t c = g.class_of(p.bytes[at].first); c <= g.class_of(p.bytes[at].last); ++c)
      if (!is_taken(of_.step_class(s, c), p, at + 1, behind))
        return false;
    return true;
  }

  automaton& of_;
  const std::vector<byte_pattern>& alphabet_;
  const mask_budget& budget_;
  std::unordered_map<automaton::state, unsigned> known_;
  std::size_t tried_ = 0;
};

} // namespace

answer_texts texts_of(const text::tokenizer& words) {
  answer_texts out;
  out.end_ids.assign(words.end_ids().begin(), words.end_ids().end());
  out.all.resize(words.size());
  out.first.resize(words.size());
  bool has_other_first = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto id = static_cast<token_id>(i);
    if (!words.is_text(id) ||
        std::binary_search(out.end_ids.begin(), out.end_ids.end(), id)) // an end even if visible
      continue;
    bool is_first = true;
    out.all[i] = words.piece(id);
    out.first[i] = words.next_piece(id, is_first);
    has_other_first |= out.all[i] != out.first[i];
  }
  if (!has_other_first)
    out.first.clear();
  return out;
}

std::size_t mask_maker::mask::hash() const noexcept {
  std::uint64_t h = (has_ascii ? 1u : 0u) + (has_unicode ? 2u : 0u);
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
  std::vector<token_text> ascii, unicode, others, first;
  for (std::size_t i = 0; i < texts_.all.size(); ++i) {
    const auto id = static_cast<token_id>(i);
    if (!texts_.first.empty() && is_usable(texts_.first[i]))
      first.push_back({texts_.first[i], id});
    const auto& bytes = texts_.all[i];
    if (!is_usable(bytes))
      continue;
    auto& where = is_of(bytes, plain_ascii())  ? ascii
                  : is_of(bytes, plain_text()) ? unicode
                                               : others;
    where.push_back({bytes, id});
  }
  ascii_ = part_of(std::move(ascii), size(), plain_ascii());
  unicode_ = part_of(std::move(unicode), size(), plain_text());
  others_ = token_trie(std::move(others));
  first_ = token_trie(std::move(first));
}

bool mask_maker::takes_any(automaton& of, automaton::state s, const part& p,
                           const mask_budget& budget) const {
  return any_text(of, p.alphabet, budget).is_taken(s, characters_max);
}

// False: the budget is spent.
bool mask_maker::walk(automaton& of, automaton::state s, const token_trie& texts,
                      const mask_budget& budget, std::vector<token_id>& out) const {
  std::array<automaton::state, token_trie::bytes_max + 1> path;
  path[0] = s;
  for (std::size_t i = 0; i < texts.size();) {
    const auto& node = texts.at(i);
    const auto next = of.step(path[node.depth - 1u], node.byte);
    if (next == automaton::dead) {
      i = node.behind;
      continue;
    }
    if (budget.is_spent(of))
      return false;
    path[node.depth] = next;
    const auto tokens = texts.tokens_at(i);
    out.insert(out.end(), tokens.begin(), tokens.end());
    ++i;
  }
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
    m.has_unicode = takes_any(of, s, unicode_, budget);
    m.has_ascii = m.has_unicode || takes_any(of, s, ascii_, budget);
    if (budget.is_spent(of)) // what could not be looked at counts as not taken
      return std::nullopt;
    if ((!m.has_ascii && !walk(of, s, ascii_.texts, budget, m.ids)) ||
        (!m.has_unicode && !walk(of, s, unicode_.texts, budget, m.ids)) ||
        !walk(of, s, others_, budget, m.ids))
      return std::nullopt;
  }
  m.is_empty = m.ids.empty() && !(m.has_ascii && ascii_.texts.size() > 0) &&
               !(m.has_unicode && unicode_.texts.size() > 0);
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
  if (from.has_ascii)
    out = ascii_.bits;
  else
    out.assign((size() + word_bits - 1) / word_bits, 0);
  if (from.has_unicode)
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] |= unicode_.bits[i];
  for (const auto id : from.ids)
    set_bit(out, id);
}

} // namespace baton::grammar
