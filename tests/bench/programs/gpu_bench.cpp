// Measures a plugin engine in process: decode at several batch sizes, prefill, and the time of a
// step with almost nothing to compute. Prints one JSON object per line. Called by gpu.py.
#include "runtime/model/open/open_model.hpp"
#include "runtime/plugin/plugin_engine.hpp"
#include "tests/bench/programs/median.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>

using namespace baton;

namespace {

struct options {
  std::string engine = "torch", device = "cuda:0", model, dtype = "bfloat16", quantization = "none";
  std::uint32_t group = 128;
  bool is_eager = false, is_ahead = false;
  std::uint32_t threads = 8, prompt = 4096, steps = 64, position = 128, rounds = 3;
  std::vector<std::uint32_t> batches{1, 256};
};

using clock_type = std::chrono::steady_clock;

double seconds_since(clock_type::time_point begin) {
  return std::chrono::duration<double>(clock_type::now() - begin).count();
}

void print(const std::string& row, double value, const char* unit) {
  fmt::print("{{\"row\": \"{}\", \"value\": {:.6g}, \"unit\": \"{}\"}}\n", row, value, unit);
  std::fflush(stdout);
}

class bench {
public:
  bench(plugin::plugin_engine& engine, const options& o) : engine_(engine), o_(o) {}

  struct rates {
    double decode = 0;       // tokens/s
    double with_prompts = 0; // the same, including the time of their prompts
    double begin = 0;        // median host seconds to begin a step, if begun ahead
  };
  // Sequences side by side, each with its own blocks; greedy.
  result<rates> decode(std::uint32_t batch) {
    double best = 0, filled = 0;
    for (const bool is_warm : {false, true}) { // their length by then
      const auto begin = clock_type::now();
      if (auto ok = fill_all(batch); !ok)
        return ok.error();
      if (is_warm)
        filled = seconds_since(begin);
    }
    for (std::uint32_t round = 0; round <= o_.rounds; ++round) { // the first warms up
      begins_.clear();
      const auto begin = clock_type::now();
      if (auto ok = o_.is_ahead ? run_ahead(batch) : run_all(batch); !ok)
        return ok.error();
      if (round > 0)
        best = std::max(best, batch * o_.steps / seconds_since(begin));
    }
    const double tokens = batch * o_.steps;
    return rates{best, tokens / (tokens / best + filled), begins_.empty() ? 0 : median(begins_)};
  }

  // Rows of one prompt.
  result<double> prefill() {
    double best = 0;
    for (std::uint32_t round = 0; round <= o_.rounds; ++round) {
      const auto begin = clock_type::now();
      if (auto ok = fill(0, o_.prompt); !ok)
        return ok.error();
      if (round > 0)
        best = std::max(best, o_.prompt / seconds_since(begin));
    }
    return best;
  }

private:
  // Adds as many prompts to a step as its rows allow.
  result<void> fill_all(std::uint32_t batch) {
    const auto at_once = std::max(engine_.limits().rows_max / std::max(o_.position, 1U), 1U);
    for (std::uint32_t i = 0; i < batch; i += at_once) {
      const auto count = std::min(at_once, batch - i);
      if (auto ok = count > 1 ? run(i, count, 0, o_.position) : fill(i, o_.position); !ok)
        return ok;
    }
    return {};
  }

  // The first `positions` positions of a sequence, in steps of rows_max.
  result<void> fill(std::uint32_t sequence, std::uint32_t positions) {
    const auto at_a_time = engine_.limits().rows_max;
    for (std::uint32_t at = 0; at < positions; at += at_a_time)
      if (auto ok = run(sequence, 1, at, std::min(at_a_time, positions - at)); !ok)
        return ok;
    return {};
  }

  result<void> run_all(std::uint32_t batch) {
    for (std::uint32_t step = 0; step < o_.steps; ++step)
      if (auto ok = run(0, batch, o_.position + step, 1); !ok)
        return ok;
    return {};
  }

  // Each step begins before the previous one is over, with tokens that the device draws.
  result<void> run_ahead(std::uint32_t batch) {
    auto now = batch_of(0, batch, o_.position, 1);
    bool is_begun = engine_.begin(now, {});
    for (std::uint32_t step = 1; step < o_.steps; ++step) {
      auto next = batch_of(0, batch, o_.position + step, 1);
      next.tokens.assign(batch, placeholder_token);
      for (std::uint32_t i = 0; i < batch; ++i)
        next.feeds.push_back({i, i, now.batch});
      const auto asked = clock_type::now();
      is_begun = is_begun && engine_.begin(next, {});
      begins_.push_back(seconds_since(asked));
      if (!is_begun)
        return fail(errc::internal, "this engine begins no steps ahead ({})",
                    engine_.limits().device);
      const auto out = engine_.run(now, {});
      if (!out)
        return out.error();
      for (std::uint32_t i = 0; i < batch; ++i)
        next.tokens[i] = out->samples[i].token;
      next.feeds.clear();
      now = std::move(next);
    }
    const auto last = engine_.run(now, {});
    return last ? result<void>() : last.error();
  }

  micro_batch batch_of(std::uint32_t first, std::uint32_t sequences, std::uint32_t position,
                       std::uint32_t rows) {
    const auto& l = engine_.limits();
    const auto blocks =
        (std::max(o_.prompt, o_.position + o_.steps) + l.block_positions - 1) / l.block_positions;
    micro_batch b;
    b.batch = {++batches_};
    b.epoch = {1};
    for (std::uint32_t i = first; i < first + sequences; ++i) {
      slice s;
      s.sequence.ticket.value = i + 1;
      s.position = position;
      s.rows = rows;
      s.samples = true;
      const auto own = (position + rows + l.block_positions - 1) / l.block_positions;
      for (std::uint32_t k = 0; k < own; ++k)
        s.blocks.push_back(i * blocks + k);
      b.slices.push_back(std::move(s));
      for (std::uint32_t r = 0; r < rows; ++r)
        b.tokens.push_back(static_cast<token_id>((position + r + 31 * i) % l.vocabulary_size));
      b.draws.emplace_back().sampling.temperature = 0;
    }
    return b;
  }

  result<void> run(std::uint32_t first, std::uint32_t sequences, std::uint32_t position,
                   std::uint32_t rows) {
    const auto out = engine_.run(batch_of(first, sequences, position, rows), {});
    return out ? result<void>() : out.error();
  }

  plugin::plugin_engine& engine_;
  const options& o_;
  std::vector<double> begins_; // of this round
  std::uint64_t batches_ = 0;
};

result<void> measure(const options& o) {
  const auto file = model::open_model(o.model);
  if (!file)
    return file.error();
  const auto description = model::describe(**file);
  if (!description)
    return description.error();
  const auto path = plugin::find_library(o.engine);
  if (!path)
    return path.error();
  const auto library = plugin::library::open(*path);
  if (!library)
    return library.error();
  plugin::config c;
  c.device = o.device;
  c.weights = o.dtype == "float32"   ? plugin::element::f32
              : o.dtype == "float16" ? plugin::element::f16
                                     : plugin::element::bf16;
  c.kv = c.weights;
  c.quantized = o.quantization == "fp8"    ? plugin::quantization::fp8
                : o.quantization == "int4" ? plugin::quantization::int4
                                           : plugin::quantization::none;
  c.group = o.group;
  c.is_eager = o.is_eager;
  c.log_line = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  c.threads = o.threads;
  const auto most = *std::max_element(o.batches.begin(), o.batches.end());
  c.max_model_len = std::max(o.prompt, o.position + o.steps);
  c.rows_max = std::max(most, std::min(std::max(o.prompt, most * o.position), 4096U));
  c.draws_usual = most;
  c.blocks = most * ((c.max_model_len + c.block_positions - 1) / c.block_positions);
  const auto begin = clock_type::now();
  const auto engine =
      plugin::plugin_engine::load(*library, **file, *description, model::whole(*description), c);
  if (!engine)
    return engine.error();
  print("load", seconds_since(begin), "s");
  const double element = c.weights == plugin::element::f32 ? 4 : 2;
  const double embedding = static_cast<double>(description->vocab_size) * description->hidden_size;
  // The head once; the layers at their quantised size.
  const double layers = static_cast<double>(description->parameter_count) -
                        (description->has_tied_embeddings ? 1 : 2) * embedding;
  const double packed = c.quantized == plugin::quantization::fp8    ? 1
                        : c.quantized == plugin::quantization::int4 ? 0.5 + 4.0 / o.group
                                                                    : element;
  print("weights read by a step", embedding * element + layers * packed, "bytes");
  bench b(**engine, o);
  for (const auto batch : o.batches) {
    const auto rate = b.decode(batch);
    if (!rate)
      return rate.error();
    print(fmt::format("decode batch {}", batch), rate->decode, "tokens/s");
    print(fmt::format("decode batch {} with its prompts", batch), rate->with_prompts, "tokens/s");
    print(fmt::format("step of batch {}", batch), batch / rate->decode * 1e6, "us");
    if (o.is_ahead)
      print(fmt::format("begin of a step of batch {}", batch), rate->begin * 1e6, "us");
  }
  if (o.prompt > 0) {
    const auto rate = b.prefill();
    if (!rate)
      return rate.error();
    print(fmt::format("prefill {}", o.prompt), *rate, "tokens/s");
  }
  return {};
}

} // namespace

int main(int argc, char** argv) {
  options o;
  CLI::App app{"Measures an engine in a library; see docs/develop/gpu.md."};
  app.add_option("--engine", o.engine, "library engine_NAME.so");
  app.add_option("--device", o.device);
  app.add_option("--model", o.model, "GGUF file or directory")->required();
  app.add_option("--dtype", o.dtype)->check(CLI::IsMember({"float32", "float16", "bfloat16"}));
  app.add_option("--quantization", o.quantization, "of the layers' matrices")
      ->check(CLI::IsMember({"none", "fp8", "int4"}));
  app.add_option("--group", o.group, "weights of a group of int4")->check(CLI::IsMember({32, 128}));
  app.add_flag("--eager", o.is_eager, "steps are not recorded");
  app.add_flag("--ahead", o.is_ahead, "steps of decoding are begun before the one ahead is over");
  app.add_option("--threads", o.threads)->check(CLI::PositiveNumber);
  app.add_option("--prompt", o.prompt, "rows of the prefill; 0: none");
  app.add_option("--steps", o.steps)->check(CLI::PositiveNumber);
  app.add_option("--position", o.position, "where decoding begins");
  app.add_option("--rounds", o.rounds)->check(CLI::PositiveNumber);
  app.add_option("--batches", o.batches)->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  if (auto ok = measure(o); !ok) {
    fmt::print(stderr, "gpu_bench: {}\n", ok.error().message);
    return 1;
  }
  return 0;
}
