// Time of token masks on one core: random answers under usual constraints, over the vocabulary of a
// model and one of 262,144 tokens derived from it. Grammars and states seen for the first time
// count. The vocabulary, which a process reads once, is reported separately. Run by
// tests/bench/sections/masks.py and by people.
#include "runtime/grammar/masker.hpp"
#include "runtime/text/tokenizer/vocabulary_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <ctime>
#include <numeric>
#include <random>
#include <string>
#include <vector>

using namespace baton;

namespace {

constexpr std::size_t large_vocabulary = 262'144; // Gemma's
constexpr std::size_t sequences_of_each = 6;
constexpr std::size_t max_tokens = 200;

constexpr std::array<std::pair<constraint_kind, const char*>, 10> constraints = {{
    {constraint_kind::json_object, ""},
    {constraint_kind::json_schema,
     R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},
         "email":{"type":"string","format":"email"},"tags":{"type":"array","items":{"type":"string"}}},
         "required":["name","age","email","tags"],"additionalProperties":false})"},
    {constraint_kind::json_schema,
     R"({"type":"array","items":{"type":"object","properties":{"id":{"type":"integer","minimum":0},
         "price":{"type":"number","minimum":0,"maximum":1000},"title":{"type":"string","maxLength":80},
         "kind":{"enum":["book","film","song"]}},"required":["id","price","title","kind"]}})"},
    {constraint_kind::json_schema,
     R"({"$defs":{"node":{"type":"object","properties":{"value":{"type":"string"},"children":
         {"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["value","children"]}},
         "$ref":"#/$defs/node"})"},
    {constraint_kind::json_schema,
     R"({"anyOf":[{"type":"object","properties":{"ok":{"const":true},"result":{"type":"string"}},
         "required":["ok","result"]},{"type":"object","properties":{"ok":{"const":false},
         "error":{"type":"string"},"code":{"type":"integer"}},"required":["ok","error","code"]}]})"},
    {constraint_kind::json_schema,
     R"({"type":"object","properties":{"known":{"type":"string"}},
         "additionalProperties":{"type":["string","number","null"]}})"},
    {constraint_kind::regex, "[A-Z][a-z]+( [a-z]+){3,40}\\."},
    {constraint_kind::regex, "(.|\\n){0,400}"},
    {constraint_kind::choice, R"(["positive", "negative", "neutral", "mixed"])"},
    {constraint_kind::grammar,
     "root ::= (line \"\\n\")+\nline ::= name \" = \" expr\nname ::= [a-z_] [a-z0-9_]*\n"
     "expr ::= term ([-+*/] term)*\nterm ::= name | [0-9]+ | \"(\" expr \")\""},
}};

// Lengthened words, as in large vocabularies: the share of tokens with quotes, newlines and the
// like stays that of the model.
grammar::answer_texts enlarged(grammar::answer_texts texts) {
  constexpr std::size_t bytes_max = 24;
  std::mt19937 random(1);
  const std::size_t first = texts.all.size();
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  while (texts.all.size() < large_vocabulary) {
    const auto& a = texts.all[random() % first];
    const auto& b = texts.all[random() % first];
    const bool fits = !a.empty() && !b.empty() && a.size() + b.size() <= bytes_max;
    if (fits && std::all_of(b.begin(), b.end(), is_letter))
      texts.all.push_back(a + b);
  }
  return texts;
}

double micros_now() {
  std::timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

token_id choose(const grammar::token_bits& bits, std::mt19937& random) {
  std::size_t allowed = 0;
  for (const auto word : bits)
    allowed += static_cast<std::size_t>(std::popcount(word));
  std::size_t wanted = random() % std::max<std::size_t>(allowed, 1);
  for (std::size_t w = 0; w < bits.size(); ++w) {
    const auto here = static_cast<std::size_t>(std::popcount(bits[w]));
    if (wanted >= here) {
      wanted -= here;
      continue;
    }
    auto word = bits[w];
    for (; wanted > 0; --wanted)
      word &= word - 1;
    return static_cast<token_id>(w * 64 + static_cast<std::size_t>(std::countr_zero(word)));
  }
  return 0;
}

struct followed {
  shared_constraint of;
  sequence_id sequence;
  std::vector<token_id> ids;
  bool is_over = false;
};

struct measured {
  double vocabulary = 0; // the first mask of a process, under a minimal constraint
  std::vector<double> masks;
};

// As a batch of sequences in decode does: each in turn gets its next mask. Microseconds.
result<measured> measure(const grammar::answer_texts& texts) {
  grammar::masker masker(texts);
  measured out;
  grammar::token_bits bits;
  const double start = micros_now();
  if (auto ok = masker.find(constraint{constraint_kind::regex, "a"}, {}, {}, bits); !ok)
    return ok.error();
  out.vocabulary = micros_now() - start;
  std::vector<followed> all;
  for (const auto& [kind, text] : constraints) {
    const shared_constraint c = constraint{kind, text};
    for (std::size_t i = 0; i < sequences_of_each; ++i)
      all.push_back({c, {{all.size() + 1}, 0}, {}, false});
  }
  std::mt19937 random(7);
  for (std::size_t step = 0; step < max_tokens; ++step)
    for (auto& s : all) {
      if (s.is_over)
        continue;
      const double begin = micros_now();
      if (auto ok = masker.find(s.of, s.sequence, s.ids, bits); !ok)
        return ok.error();
      out.masks.push_back(micros_now() - begin);
      s.ids.push_back(choose(bits, random));
      const auto& ends = texts.end_ids;
      s.is_over = std::find(ends.begin(), ends.end(), s.ids.back()) != ends.end();
    }
  return out;
}

result<void> report(const grammar::answer_texts& texts) {
  auto found = measure(texts);
  if (!found)
    return found.error();
  auto& micros = found->masks;
  std::sort(micros.begin(), micros.end());
  const double mean =
      std::accumulate(micros.begin(), micros.end(), 0.0) / static_cast<double>(micros.size());
  const auto at = [&](double share) {
    return micros[static_cast<std::size_t>(share * static_cast<double>(micros.size() - 1))];
  };
  fmt::print("{{\"vocabulary\":{},\"masks\":{},\"once\":{:.2f},\"mean\":{:.2f},\"p50\":{:.2f},"
             "\"p99\":{:.2f},\"max\":{:.2f}}}\n",
             texts.all.size(), micros.size(), found->vocabulary, mean, at(0.5), at(0.99),
             micros.back());
  std::fflush(stdout);
  return {};
}

result<void> run(const char* model) {
  const auto words = text::open_vocabulary(model);
  if (!words)
    return words.error();
  const auto tokens = text::tokenizer::create(*words);
  if (!tokens)
    return tokens.error();
  auto texts = grammar::texts_of(*tokens);
  if (auto ok = report(texts); !ok)
    return ok;
  return report(enlarged(std::move(texts)));
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "masks_bench MODEL    microseconds of processor time for a mask\n");
    return 2;
  }
  if (const auto ok = run(argv[1]); !ok) {
    fmt::print(stderr, "masks_bench: {}\n", ok.error().message);
    return 1;
  }
  return 0;
}
