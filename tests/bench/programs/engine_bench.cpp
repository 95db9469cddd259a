// Speed of the CPU engine alone: prefill and decode in tokens per second for one model file.
// Measures the limits in the same run: memory bandwidth for decoding, products for prefill and
// large batches. With --ranks that many processes share every layer, each with the given threads:
// all run the same batches, rank 0 reports. Prints a table; with --json one object per line. Run by
// people and by the benchmark page, not by tests.
#include "runtime/collective/shared_group.hpp"
#include "runtime/cpu/forward/bandwidth.hpp"
#include "runtime/cpu/forward/engine_cpu.hpp"
#include "runtime/model/description.hpp"
#include "runtime/model/open/open_model.hpp"
#include "tests/bench/programs/product_ceiling.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <map>
#include <optional>

using namespace baton;

namespace {

struct options {
  std::string model = "models/SmolLM2-135M-Instruct.Q4_1.gguf";
  std::vector<std::uint32_t> threads = {1, 2};
  std::uint32_t ranks = 1;
  std::uint32_t rank = 0; // of this process
  std::uint32_t bits = 16;
  cpu::kv_format kv = cpu::kv_format::f16;
  std::optional<cpu::isa> isa;
  int rounds = 5;
  std::uint32_t prompt = 512;                             // rows of the prefill; 0: none
  std::vector<std::uint32_t> batches = {1, 8, 32};        // streams that decode together
  std::uint32_t context = 96;                             // positions before the decoded ones
  std::uint32_t steps = 64;                               // decode steps in one round
  double bar_prefill = 0, bar_batch1 = 0, bar_batch8 = 0; // tokens per second; 0: none
  bool shares_kv = false;                                 // KV in a memory file, as in a shard
  bool json = false;
};

constexpr std::uint32_t streams_max = 32, step_rows_max = 512, max_model_len = 1U << 16U;
constexpr std::uint32_t steps_max = 1U << 10U;

constexpr std::string_view usage =
    "engine_bench [--model PATH] [--threads 1,2] [--bits 8|16] [--isa NAME] [--rounds N]\n"
    "             [--kv f16|f32|q8_0] [--prompt ROWS] [--batches 1,8,32] [--context POSITIONS]\n"
    "             [--steps N] [--ranks N] [--bar-prefill X] [--bar-batch1 X] [--bar-batch8 X] "
    "[--shared-kv]\n"
    "             [--json]\n";

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

std::optional<std::vector<std::uint32_t>> numbers(std::string_view text) {
  std::vector<std::uint32_t> out;
  while (!text.empty()) {
    const auto comma = std::min(text.find(','), text.size());
    const auto one = number<std::uint32_t>(text.substr(0, comma));
    if (!one || *one == 0)
      return std::nullopt;
    out.push_back(*one);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return out;
}

// False for an invalid value.
bool set(options& o, std::string_view key, std::string_view value) {
  const auto take = [](auto& to, auto parsed) {
    if (parsed)
      to = *std::move(parsed);
    return parsed.has_value();
  };
  if (key == "--model")
    return take(o.model, std::optional<std::string>(value));
  if (key == "--threads")
    return take(o.threads, numbers(value));
  if (key == "--ranks")
    return take(o.ranks, number<std::uint32_t>(value)) && o.ranks > 0 &&
           o.ranks <= collective::ranks_max;
  if (key == "--bits")
    return take(o.bits, number<std::uint32_t>(value));
  if (key == "--rounds")
    return take(o.rounds, number<int>(value)) && o.rounds > 0;
  if (key == "--prompt")
    return take(o.prompt, number<std::uint32_t>(value)) && o.prompt <= step_rows_max;
  if (key == "--batches")
    return take(o.batches, numbers(value)) &&
           *std::max_element(o.batches.begin(), o.batches.end()) <= streams_max;
  if (key == "--context")
    return take(o.context, number<std::uint32_t>(value)) && o.context > 0 &&
           o.context <= max_model_len;
  if (key == "--steps")
    return take(o.steps, number<std::uint32_t>(value)) && o.steps > 0 && o.steps <= steps_max;
  if (key == "--kv")
    return take(o.kv, cpu::kv_format_from(value));
  if (key == "--bar-prefill")
    return take(o.bar_prefill, number<double>(value));
  if (key == "--bar-batch1")
    return take(o.bar_batch1, number<double>(value));
  if (key == "--bar-batch8")
    return take(o.bar_batch8, number<double>(value));
  if (key == "--isa") {
    o.isa = cpu::isa_from(value);
    return o.isa.has_value();
  }
  return false;
}

std::optional<options> parse(int argc, char** argv) {
  options o;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--json") {
      o.json = true;
      continue;
    }
    if (std::string_view(argv[i]) == "--shared-kv") {
      o.shares_kv = true;
      continue;
    }
    if (i + 1 >= argc || !set(o, argv[i], argv[i + 1])) {
      fmt::print(stderr, "engine_bench: '{}' is no option, or its value is wrong\n{}", argv[i],
                 usage);
      return std::nullopt;
    }
    ++i;
  }
  return o;
}

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void report(const options& o, const std::string& row, std::vector<double> values,
            std::string_view unit, double bar) {
  if (o.rank > 0)
    return;
  std::sort(values.begin(), values.end());
  const double median = values[values.size() / 2];
  const bool ok = median >= bar;
  if (o.json)
    fmt::print("{{\"row\":\"{}\",\"value\":{:.1f},\"unit\":\"{}\",\"bar\":{:.1f},\"ok\":{},"
               "\"min\":{:.1f},\"max\":{:.1f},\"rounds\":{}}}\n",
               row, median, unit, bar, ok, values.front(), values.back(), values.size());
  else
    fmt::print("{:<28} {:>9.1f} {:<6} min {:>9.1f}  max {:>9.1f}{}\n", row, median, unit,
               values.front(), values.back(),
               bar == 0 ? std::string()
                        : fmt::format("  bar {:.1f} {}", bar, ok ? "ok" : "MISSED"));
  std::fflush(stdout);
}

std::uint32_t blocks_each(const options& o) {
  return (std::max(step_rows_max, o.context + o.steps) + 63) / 64;
}

slice make_slice(const options& o, std::uint32_t sequence, std::uint32_t position,
                 std::uint32_t rows, bool samples) {
  slice s;
  s.sequence.ticket.value = sequence + 1;
  s.position = position;
  s.rows = rows;
  s.samples = samples;
  for (std::uint32_t b = 0; b * 64 < position + rows; ++b)
    s.blocks.push_back(sequence * blocks_each(o) + b);
  return s;
}

// Streams differ, so that in a mixture they choose different experts.
void add(micro_batch& batch, slice s) {
  const auto stream = static_cast<std::uint32_t>(s.sequence.ticket.value);
  for (std::uint32_t i = 0; i < s.rows; ++i)
    batch.tokens.push_back(
        static_cast<token_id>(100 + ((s.position + i) * 7 + stream * 31) % 1000));
  if (s.samples) {
    batch.draws.emplace_back();
    batch.draws.back().sampling.temperature = 0;
  }
  batch.slices.push_back(std::move(s));
}

// The other ranks of a group, as processes that end with this one. Every rank clears the epoch's
// area first, so that the first one to be ready waits for the rest.
class rank_group {
public:
  // Returns in every process; `o.rank` is the rank of this one.
  static result<std::optional<rank_group>> fork(options& o) {
    if (o.ranks == 1)
      return std::optional<rank_group>();
    const int fd = memfd_create("ranks", MFD_CLOEXEC);
    auto memory = collective::group_memory::create(fd, o.ranks);
    if (!memory)
      return memory.error();
    const auto parent = getpid();
    std::vector<pid_t> children;
    for (std::uint32_t rank = 1; rank < o.ranks; ++rank)
      if (const auto child = ::fork(); child < 0) {
        return fail(errc::io_failed, "fork failed");
      } else if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
          _exit(1);
        o.rank = rank;
        children.clear();
        break;
      } else {
        children.push_back(child);
      }
    return std::optional(rank_group(*std::move(memory), o, std::move(children)));
  }
  // Their CPU time counts as this process's only after it has waited for them.
  ~rank_group() {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }
  rank_group(rank_group&&) = default;
  rank_group& operator=(rank_group&&) = delete;

  // For the next engine: in a new epoch.
  result<std::shared_ptr<collective::collective>> next() {
    constexpr std::chrono::seconds patience{60}; // for a rank that loads more slowly
    auto ranks = std::make_shared<collective::shared_collective>(
        rank_, width_, collective::shared_options{patience});
    const epoch_id epoch{++epochs_};
    if (rank_ == 0)
      if (auto ok = memory_.open_epoch(epoch); !ok)
        return ok.error();
    while (memory_.epoch() != epoch)
      usleep(100);
    const auto area = memory_.area_of(epoch);
    if (!area)
      return area.error();
    if (auto ok = ranks->enter(*area); !ok)
      return ok.error();
    return std::shared_ptr<collective::collective>(std::move(ranks));
  }

private:
  rank_group(collective::group_memory memory, const options& o, std::vector<pid_t> children)
      : memory_(std::move(memory)), rank_(o.rank), width_(o.ranks), children_(std::move(children)) {
  }
  collective::group_memory memory_;
  std::uint32_t rank_, width_;
  std::uint64_t epochs_ = 0;
  std::vector<pid_t> children_; // held by rank 0
};

class bench {
public:
  bench(const options& o, cpu::engine_cpu& engine, std::uint32_t threads)
      : o_(o), engine_(engine), threads_(threads) {}

  // The given number of positions of one sequence in one step.
  result<void> prefill() {
    micro_batch batch;
    add(batch, make_slice(o_, 0, 0, o_.prompt, true));
    std::vector<double> values;
    for (int r = 0; r <= o_.rounds; ++r) { // the first touches the memory
      const auto time = step(batch);
      if (!time)
        return time.error();
      if (r > 0)
        values.push_back(o_.prompt / *time);
    }
    report(o_, fmt::format("prefill {}, {} threads", o_.prompt, threads_), values, "tok/s",
           o_.bar_prefill);
    return {};
  }

  // `streams` sequences, each with `context` positions at first.
  result<void> decode(std::uint32_t streams, double bar) {
    for (; filled_ < streams; ++filled_)
      for (std::uint32_t at = 0; at < o_.context; at += step_rows_max) {
        micro_batch batch;
        add(batch, make_slice(o_, filled_, at, std::min(step_rows_max, o_.context - at), false));
        if (const auto time = step(batch); !time)
          return time.error();
      }
    std::vector<double> values;
    for (int r = 0; r < o_.rounds; ++r) {
      double total = 0;
      for (std::uint32_t i = 0; i < o_.steps; ++i) {
        micro_batch batch;
        for (std::uint32_t s = 0; s < streams; ++s)
          add(batch, make_slice(o_, s, o_.context + i, 1, true));
        const auto time = step(batch);
        if (!time)
          return time.error();
        total += *time;
      }
      values.push_back(o_.steps * streams / total);
    }
    report(o_, fmt::format("decode batch {}, {} threads", streams, threads_), values, "tok/s", bar);
    return {};
  }

private:
  result<double> step(const micro_batch& batch) {
    std::optional<error> failure;
    const double time = seconds_of([&] {
      if (const auto out = engine_.run(batch, {}); !out)
        failure = out.error();
    });
    if (failure)
      return *failure;
    return time;
  }

  const options& o_;
  cpu::engine_cpu& engine_;
  std::uint32_t threads_;
  std::uint32_t filled_ = 0; // sequences that have their first positions
};

void report_ceilings(const options& o, const model::model_file& file,
                     const model::description& model, std::uint32_t threads) {
  if (o.rank > 0)
    return;
  const auto found = measure_product_ceilings(file, model, o.isa.value_or(cpu::detect_isa()),
                                              o.bits, threads, o.rounds);
  report(o, "products of a prompt row", {found.prompt.products}, "M", 0);
  report(o, "products of a decoded row", {found.decoded.products}, "M", 0);
  if (found.decoded.rows_a_second.empty())
    return;
  report(o, fmt::format("ceiling of prompts, {} threads", threads), found.prompt.rows_a_second,
         "tok/s", 0);
  report(o, fmt::format("ceiling of decoding, {} threads", threads), found.decoded.rows_a_second,
         "tok/s", 0);
}

// The largest possible speedup over one rank: all bytes, divided by the largest rank's.
void report_evenness(const options& o, const model::description& model,
                     const std::vector<model::tensor_slice>& slices) {
  auto computed = model::whole(model);
  computed.has_embedding = false;
  const auto bytes_of = [&](const model::tensor_slice& slice) {
    return static_cast<double>(model::rank_bytes(model, computed, slice));
  };
  double all = 0, most = 0;
  for (const auto& slice : slices) {
    all += bytes_of(slice);
    most = std::max(most, bytes_of(slice));
  }
  report(o, "weights of all / of the largest rank", {100 * all / most}, "%", 0);
}

// Called before any thread runs here: the ranks are forks of this process.
result<void> run(options& o) {
  auto group = rank_group::fork(o);
  if (!group)
    return group.error();
  const auto file = model::open_model(o.model);
  if (!file)
    return file.error();
  const auto model = model::describe(**file);
  if (!model)
    return model.error();
  const auto weights = cpu::engine_cpu::examine(**file, *model);
  if (!weights)
    return weights.error();
  cpu_set_t all_cpus;
  const bool knows_cpus = sched_getaffinity(0, sizeof all_cpus, &all_cpus) == 0;
  for (const std::uint32_t threads : o.threads) {
    if (knows_cpus) // the previous engine has pinned this thread
      static_cast<void>(sched_setaffinity(0, sizeof all_cpus, &all_cpus));
    std::shared_ptr<collective::collective> ranks;
    if (o.rank == 0) {
      const auto bandwidth = cpu::measure_read_bandwidth(threads, o.rounds);
      if (!bandwidth)
        return bandwidth.error();
      report(o, fmt::format("memory read, {} threads", threads), *bandwidth, "GB/s", 0);
    }
    report(o, "packed weights", {static_cast<double>(*weights) / 1e6}, "MB", 0);
    report_ceilings(o, **file, *model, threads);
    cpu::config settings;
    settings.threads = threads;
    for (std::uint32_t i = 0; i < threads; ++i)
      settings.cpus.push_back(static_cast<int>(o.rank * threads + i));
    settings.kv_blocks = blocks_each(o) * *std::max_element(o.batches.begin(), o.batches.end());
    settings.rows_max = step_rows_max;
    settings.kv_cache_dtype = o.kv;
    settings.activation_bits = o.bits;
    if (o.shares_kv)
      settings.kv_file = memfd_create("engine_bench", MFD_CLOEXEC);
    settings.forced_isa = o.isa;
    if (*group) {
      auto joined = (*group)->next();
      auto slices = model::split(*model, o.ranks, {}, model->cuts);
      if (!joined || !slices)
        return joined ? slices.error() : joined.error();
      ranks = *std::move(joined);
      report_evenness(o, *model, *slices);
      settings.slices = *std::move(slices);
      settings.rank = o.rank;
    }
    std::optional<result<std::unique_ptr<cpu::engine_cpu>>> engine;
    const double load_time = seconds_of([&] {
      engine =
          cpu::engine_cpu::load(**file, *model, model::whole(*model), settings, nullptr, ranks);
    });
    if (!*engine)
      return engine->error();
    if (!o.json && o.rank == 0)
      fmt::print("{}; loaded in {:.2f} s\n", (**engine)->limits().device, load_time);
    bench b(o, ***engine, threads);
    if (o.prompt > 0)
      if (auto ok = b.prefill(); !ok)
        return ok;
    const std::map<std::uint32_t, double> bars = {{1, o.bar_batch1}, {8, o.bar_batch8}};
    for (const std::uint32_t streams : o.batches) {
      const auto bar = bars.find(streams);
      if (auto ok = b.decode(streams, bar == bars.end() ? 0 : bar->second); !ok)
        return ok;
    }
  }
  return {};
}

} // namespace

int main(int argc, char** argv) {
  auto o = parse(argc, argv);
  if (!o)
    return 2;
  if (const auto ok = run(*o); !ok) {
    fmt::print(stderr, "engine_bench: {}\n", ok.error().message);
    return 1;
  }
  return 0;
}
