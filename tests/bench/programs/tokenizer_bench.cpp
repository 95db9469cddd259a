// Speed of the tokenizer on one core, for texts from a file and for the worst texts known, at two
// lengths. It can write the ids for a comparison with another tokenizer, and passes the vocabulary
// to that tokenizer. Run by tests/bench/sections/tokenizer.py and by people.
#include "runtime/text/bpe/large_pages.hpp"
#include "runtime/text/tokenizer/tokenizer.hpp"
#include "runtime/text/tokenizer/vocabulary_file.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <ctime>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

using namespace baton;

namespace {

constexpr std::string_view usage =
    "tokenizer_bench MODEL vocabulary             its tokens and merges, as JSON\n"
    "tokenizer_bench MODEL texts FILE [IDS_FILE]  speed of the texts in FILE, a NUL behind each;\n"
    "                                             IDS_FILE gets their ids, 32 bits each\n"
    "tokenizer_bench MODEL worst                  time of 10 MB of each hostile text, in one "
    "piece\n"
    "                                             and beside it in ten\n";

constexpr int passes = 3; // the fastest pass counts: the others were disturbed

// Repeats `unit` to about `bytes` bytes; ends between two units.
std::string repeated(std::string_view unit, std::size_t bytes) {
  std::string text;
  text.reserve(bytes);
  while (text.size() + unit.size() <= bytes)
    text += unit;
  return text;
}

struct hostile {
  std::string_view name;
  std::string_view unit;
};

// One piece or many for a pre-tokenizer; long chains of merges or none for the encoder.
constexpr std::array<hostile, 7> worst_texts = {{
    {"one_letter", "a"},
    {"spaces", " "},
    {"two_letters", "ab"},
    {"cjk_without_spaces", "天地玄黄宇宙洪荒日月盈昃辰宿列张"},
    {"mixed_scripts", "aя中ع😀é"},
    {"marks", "!?"},
    {"alternating_bytes", "\x01\x80"}, // no UTF-8
}};

// In CPU time: one thread works and waits for nothing.
result<double> seconds_of(const text::tokenizer& tokens, const std::vector<std::string>& texts,
                          text::encode_scratch& scratch) {
  const std::clock_t begin = std::clock();
  for (const std::string& one : texts)
    if (const auto ids = tokens.encode_text(one, scratch); !ids)
      return ids.error();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

result<double> best_of_passes(const text::tokenizer& tokens, const std::vector<std::string>& texts,
                              text::encode_scratch& scratch) {
  double best = 0;
  for (int i = 0; i < passes; ++i) {
    const auto seconds = seconds_of(tokens, texts, scratch);
    if (!seconds)
      return seconds;
    best = i == 0 ? *seconds : std::min(best, *seconds);
  }
  return best;
}

void write_vocabulary(const text::vocabulary& words) {
  nlohmann::json out;
  out["pre"] = words.pre;
  out["tokens"] = words.tokens;
  out["merges"] = words.merges;
  fmt::print("{}\n", out.dump());
}

result<std::vector<std::string>> read_texts(const char* path) {
  std::ifstream in(path, std::ios::binary);
  if (!in)
    return fail(errc::io_failed, "{}: cannot be read", path);
  std::vector<std::string> texts;
  for (std::string one; std::getline(in, one, '\0');)
    texts.push_back(one);
  return texts;
}

result<void> write_ids(const text::tokenizer& tokens, const std::vector<std::string>& texts,
                       const char* path) {
  std::ofstream out(path, std::ios::binary);
  for (const std::string& one : texts) {
    const auto ids = tokens.encode_text(one);
    if (!ids)
      return ids.error();
    out.write(reinterpret_cast<const char*>(ids->data()),
              static_cast<std::streamsize>(ids->size() * sizeof(token_id)));
  }
  if (!out.flush())
    return fail(errc::io_failed, "{}: cannot be written", path);
  return {};
}

result<void> measure_texts(const text::tokenizer& tokens, const char* path, const char* ids_path) {
  const auto texts = read_texts(path);
  if (!texts)
    return texts.error();
  if (ids_path != nullptr)
    if (auto written = write_ids(tokens, *texts, ids_path); !written)
      return written;
  text::encode_scratch scratch;
  const auto seconds = best_of_passes(tokens, *texts, scratch);
  if (!seconds)
    return seconds.error();
  std::size_t bytes = 0;
  for (const std::string& one : *texts)
    bytes += one.size();
  fmt::print("{{\"bytes\":{},\"seconds\":{:.6f}}}\n", bytes, *seconds);
  return {};
}

// A virtual machine's host may reclaim memory that was unused for some seconds and then refill it
// page by page. For a long piece that takes a third of the time of 10 MB; ten texts keep their
// memory in use. So this much memory is touched first.
void use_memory() {
  constexpr std::size_t bytes_of_longest = std::size_t{512} << 20U;
  text::large_vector<char> memory;
  memory.reserve(bytes_of_longest);
  for (volatile char* at = memory.data(); at != memory.data() + bytes_of_longest; at += 4096)
    *at = 'a';
}

// The same bytes as ten texts and as one, in turns. A time for a tenth would find a quiet moment
// that the whole does not get. A neighbour on the core would then look like growth.
result<void> measure_worst(const text::tokenizer& tokens) {
  constexpr std::size_t few = 1'000'000, times = 10;
  for (const hostile& what : worst_texts) {
    const std::vector<std::string> short_ones(times, repeated(what.unit, few));
    const std::vector<std::string> long_one = {repeated(what.unit, few * times)};
    double best_short = std::numeric_limits<double>::max(), best_long = best_short;
    text::encode_scratch scratch;
    for (int i = 0; i < passes; ++i)
      for (const auto* texts : {&short_ones, &long_one}) {
        use_memory();
        const auto seconds = seconds_of(tokens, *texts, scratch);
        if (!seconds)
          return seconds.error();
        double& best = texts == &long_one ? best_long : best_short;
        best = std::min(best, *seconds);
      }
    fmt::print("{{\"text\":\"{}\",\"seconds_10_of_1_mb\":{:.6f},\"seconds_10_mb\":{:.6f}}}\n",
               what.name, best_short, best_long);
    std::fflush(stdout);
  }
  return {};
}

result<void> run(int argc, char** argv) {
  const std::string_view what = argv[2];
  const auto words = text::open_vocabulary(argv[1]);
  if (!words)
    return words.error();
  if (what == "vocabulary") {
    write_vocabulary(*words);
    return {};
  }
  const auto tokens = text::tokenizer::create(*words);
  if (!tokens)
    return tokens.error();
  if (what == "worst")
    return measure_worst(*tokens);
  return measure_texts(*tokens, argv[3], argc == 5 ? argv[4] : nullptr);
}

} // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 2 ? argv[2] : "";
  const bool is_sound = what == "texts" ? argc == 4 || argc == 5
                                        : argc == 3 && (what == "vocabulary" || what == "worst");
  if (!is_sound) {
    fmt::print(stderr, "{}", usage);
    return 2;
  }
  if (const auto ok = run(argc, argv); !ok) {
    fmt::print(stderr, "tokenizer_bench: {}\n", ok.error().message);
    return 1;
  }
  return 0;
}
