// Perplexity of a model file on a text, comparable with llama-perplexity: chunks of 512 tokens,
// each on its own. BOS replaces a chunk's first token if the model's prompts begin with it. In the
// second half of a chunk every token is scored that has a successor. Run by
// tests/bench/sections/perplexity.py and by people.
#include "runtime/cpu/forward/engine_cpu.hpp"
#include "runtime/model/gguf/gguf.hpp"
#include "runtime/text/tokenizer/tokenizer.hpp"
#include "runtime/text/vocabulary/vocabulary_gguf.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>

using namespace baton;

namespace {

constexpr std::string_view usage = "perplexity_bench MODEL TEXT_FILE BITS THREADS CHUNKS\n";
constexpr std::uint32_t chunk_tokens = 512, half = chunk_tokens / 2, block_positions = 64;

struct options {
  std::string model, text;
  std::uint32_t bits = 16, threads = 2, chunks = 4;
};

std::optional<options> parse(int argc, char** argv) {
  if (argc != 6)
    return std::nullopt;
  options o{argv[1], argv[2]};
  const auto number = [](std::string_view text, std::uint32_t& to) {
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), to);
    return code == std::errc{} && end == text.data() + text.size() && to > 0;
  };
  const bool is_sound =
      number(argv[3], o.bits) && number(argv[4], o.threads) && number(argv[5], o.chunks);
  return is_sound ? std::optional(o) : std::nullopt;
}

double log_sum_exp(std::span<const float> logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  return most +
         std::log(std::accumulate(logits.begin(), logits.end(), 0.0, [&](double sum, float x) {
           return sum + std::exp(double{x} - most);
         }));
}

// Rows [begin, end) of a chunk. With `scores` there are logits behind each row.
micro_batch rows_of(std::span<const token_id> chunk, std::uint32_t begin, std::uint32_t end,
                    bool scores) {
  slice s;
  s.sequence.ticket.value = 1;
  s.position = begin;
  s.rows = end - begin;
  s.samples = scores;
  s.drafts = scores ? s.rows - 1 : 0; // a draw behind each row, as for draft tokens
  s.blocks.resize((end + block_positions - 1) / block_positions);
  std::iota(s.blocks.begin(), s.blocks.end(), block_index{0});
  micro_batch batch;
  batch.draws.resize(s.draws());
  for (draw& one : batch.draws)
    one.sampling.temperature = 0;
  batch.slices.push_back(std::move(s));
  batch.tokens.assign(chunk.begin() + begin, chunk.begin() + end);
  return batch;
}

// Sum of the negative log-likelihoods of the scored tokens.
result<double> loss_of(cpu::engine_cpu& engine, std::span<const token_id> chunk) {
  if (const auto out = engine.run(rows_of(chunk, 0, half, /*scores=*/false), {}); !out)
    return out.error();
  if (const auto out = engine.run(rows_of(chunk, half, chunk_tokens - 1, true), {}); !out)
    return out.error();
  double sum = 0;
  for (std::uint32_t i = half; i + 1 < chunk_tokens; ++i) {
    const auto logits = engine.logits(i - half);
    sum += log_sum_exp(logits) - double{logits[static_cast<std::size_t>(chunk[i + 1])]};
  }
  return sum;
}

result<std::vector<token_id>> tokens_of(const options& o, const model::gguf_file& file,
                                        std::optional<token_id>& bos) {
  std::ifstream in(o.text, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(in), {}};
  if (content.empty())
    return fail(errc::io_failed, "{}: cannot be read, or is empty", o.text);
  const auto words = text::vocabulary_from(file);
  if (!words)
    return words.error();
  const auto tokenizer = text::tokenizer::create(*words);
  if (!tokenizer)
    return tokenizer.error();
  if (tokenizer->adds_bos())
    bos = tokenizer->bos();
  auto ids = tokenizer->encode_prompt(content, false);
  if (ids && ids->size() < std::size_t{o.chunks} * chunk_tokens)
    return fail(errc::invalid_value, "{} has {} tokens, {} chunks need {}", o.text, ids->size(),
                o.chunks, o.chunks * chunk_tokens);
  return ids;
}

result<double> run(const options& o) {
  const auto file = model::gguf_file::open(o.model);
  if (!file)
    return file.error();
  const auto model = model::describe(*file);
  if (!model)
    return model.error();
  std::optional<token_id> bos;
  auto ids = tokens_of(o, *file, bos);
  if (!ids)
    return ids.error();
  const auto engine = cpu::engine_cpu::load(*file, *model, model::whole(*model),
                                            {.threads = o.threads,
                                             .kv_blocks = chunk_tokens / block_positions,
                                             .activation_bits = o.bits});
  if (!engine)
    return engine.error();
  double sum = 0;
  for (std::uint32_t c = 0; c < o.chunks; ++c) {
    const std::span chunk = std::span(*ids).subspan(std::size_t{c} * chunk_tokens, chunk_tokens);
    if (bos)
      chunk[0] = *bos;
    const auto loss = loss_of(**engine, chunk);
    if (!loss)
      return loss;
    sum += *loss;
  }
  return std::exp(sum / (o.chunks * (half - 1)));
}

} // namespace

int main(int argc, char** argv) {
  const auto o = parse(argc, argv);
  if (!o) {
    fmt::print(stderr, "{}", usage);
    return 2;
  }
  const auto perplexity = run(*o);
  if (!perplexity) {
    fmt::print(stderr, "perplexity_bench: {}\n", perplexity.error().message);
    return 1;
  }
  fmt::print("{{\"perplexity\":{:.4f}}}\n", *perplexity);
  return 0;
}
