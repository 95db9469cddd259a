// Goal: wrapped FlashInfer attention gives the results of our own kernel. Method: both on random
// steps on cuda:0, over KV blocks whose unused positions are NaN. Single rows also as a recorded
// step: planned, captured, and replayed for another step.
#include "runtime/gpu/device/scalar.hpp"
#include "runtime/gpu/kernels/flashinfer.hpp"
#include "tests/unit/cpu/isas.hpp"
#include "tests/unit/gpu/random_step.hpp"

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cmath>

using namespace baton;
using namespace baton::testing;
using namespace baton::gpu;

namespace baton::gpu {
void attend_on_cuda(const attend_args& a, void* stream); // kernels_cuda_attend.cu
}

#ifdef BATON_FLASHINFER

namespace {

bool has_cuda_device() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0)
    return true;
  MESSAGE("skipped: there is no CUDA device");
  return false;
}

buffer device_memory(std::size_t bytes) {
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, std::max<std::size_t>(bytes, 1)) == cudaSuccess);
  REQUIRE(cudaMemset(memory, 0xFF, bytes) == cudaSuccess); // NaN in every type
  return {std::shared_ptr<void>(memory, [](void* m) { cudaFree(m); })};
}

buffer host_memory(std::size_t bytes) {
  void* memory = nullptr;
  REQUIRE(cudaMallocHost(&memory, std::max<std::size_t>(bytes, 1)) == cudaSuccess);
  return {std::shared_ptr<void>(memory, [](void* m) { cudaFreeHost(m); })};
}

template <class T>
buffer on_device(const std::vector<T>& values) {
  const buffer memory = device_memory(values.size() * sizeof(T));
  REQUIRE(cudaMemcpy(memory.as<void>(), values.data(), values.size() * sizeof(T),
                     cudaMemcpyHostToDevice) == cudaSuccess);
  return memory;
}

// As 16 bits of the given kind.
std::vector<std::uint16_t> narrowed(const std::vector<float>& from, element kind) {
  std::vector<std::uint16_t> out;
  out.reserve(from.size());
  for (const float x : from) {
    f16 half;
    bf16 brain;
    narrow(x, half);
    narrow(x, brain);
    out.push_back(kind == element::f16 ? half.bits : brain.bits);
  }
  return out;
}
std::vector<float> widened(const buffer& from, std::size_t count, element kind) {
  std::vector<std::uint16_t> bits(count);
  REQUIRE(cudaMemcpy(bits.data(), from.as<void>(), count * sizeof(std::uint16_t),
                     cudaMemcpyDeviceToHost) == cudaSuccess);
  std::vector<float> out;
  out.reserve(count);
  for (const auto b : bits)
    out.push_back(kind == element::f16 ? widen(f16{b}) : widen(bf16{b}));
  return out;
}

struct model_of_test {
  element kind;
  std::uint32_t heads, kv_heads, size, window;
  float cap;
};

// A step's queries, pages and tables on the device; `a` as kernel_table::attend has it.
struct laid_out {
  laid_out(const random_step& step, const step_extent& e, const model_of_test& m)
      : row_elements((m.heads + 2 * m.kv_heads) * m.size),
        result_count(std::size_t{step.batch.rows} * m.heads * m.size) {
    const std::size_t page = std::size_t{m.kv_heads} * e.block_positions * m.size;
    queries = on_device(narrowed(
        random_floats(std::size_t{step.batch.rows} * row_elements, 5,
                      4.0F / std::sqrt(static_cast<float>(m.size))), // scores of moderate size
        m.kind));
    keys = on_device(narrowed(used(step, e, m, random_floats(e.blocks * page, 6, 2)), m.kind));
    values = on_device(narrowed(used(step, e, m, random_floats(e.blocks * page, 7)), m.kind));
    positions = on_device(step.positions);
    tables = on_device(step.tables);
    pages = on_device(step.groups.pages());
    out = device_memory(result_count * sizeof(std::uint16_t));
    a.kind = m.kind;
    a.rows = step.batch.rows;
    a.heads = m.heads;
    a.row_elements = row_elements;
    a.projected = queries.as<void>();
    a.out = out.as<void>();
    a.positions = positions.as<std::uint32_t>();
    a.tables = tables.as<std::uint32_t>();
    a.blocks = pages.as<std::uint32_t>();
    a.window = m.window;
    a.soft_cap = m.cap;
    a.kv = {m.kind, keys.as<void>(), values.as<void>(), e.block_positions, m.kv_heads, m.size};
    a.splits = 1;
  }

  // NaN where no sequence of the step has a position.
  static std::vector<float> used(const random_step& step, const step_extent& e,
                                 const model_of_test& m, std::vector<float> numbers) {
    std::vector<std::uint32_t> reach(e.blocks);
    for (const auto& s : step.slices)
      for (std::uint32_t i = 0; i < s.block_count; ++i)
        reach[s.blocks[i]] =
            std::max(reach[s.blocks[i]],
                     std::min(e.block_positions, s.position + s.rows - i * e.block_positions));
    for (std::uint32_t block = 0; block < e.blocks; ++block)
      for (std::uint32_t head = 0; head < m.kv_heads; ++head)
        for (std::uint32_t p = reach[block]; p < e.block_positions; ++p) {
          const auto at = ((std::size_t{block} * m.kv_heads + head) * e.block_positions + p);
          std::fill_n(numbers.begin() + static_cast<std::ptrdiff_t>(at * m.size), m.size, NAN);
        }
    return numbers;
  }

  attend_args part(const query_group& group) const {
    attend_args p = a;
    p.rows = group.rows;
    p.projected = queries.as<std::uint16_t>() + std::size_t{group.first_row} * row_elements;
    p.out = out.as<std::uint16_t>() + std::size_t{group.first_row} * a.heads * a.kv.head_size;
    return p;
  }
  std::vector<float> results() const {
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    return widened(out, result_count, a.kind);
  }
  void forget_results() {
    REQUIRE(cudaMemset(out.as<void>(), 0xFF, result_count * sizeof(std::uint16_t)) == cudaSuccess);
  }

  std::uint32_t row_elements;
  std::size_t result_count;
  buffer queries, keys, values, positions, tables, pages, out;
  attend_args a{};
};

// The tables of a group on the device.
struct tables_on_device {
  tables_on_device(const query_group& group, const buffer& pages)
      : rows(on_device(group.row_begin)), begin(on_device(group.page_begin)),
        last(on_device(group.last_page)), tables{group.queries(),
                                                 group.rows,
                                                 rows.as<std::int32_t>(),
                                                 begin.as<std::int32_t>(),
                                                 last.as<std::int32_t>(),
                                                 pages.as<std::uint32_t>() + group.first_page} {}
  buffer rows, begin, last;
  query_tables tables;
};

// Both round their results to 16 bits. FlashInfer also rounds weights before it multiplies them
// with values, merges 16-bit parts, and caps by an approximate tanh.
void check_near(const std::vector<float>& found, const std::vector<float>& expected,
                const model_of_test& m) {
  const float tolerance = (m.kind == element::f16 ? 0.004F : 0.02F) * (m.cap > 0 ? 2 : 1);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    REQUIRE(std::abs(found[i] - expected[i]) <= tolerance * (1 + std::abs(expected[i])));
  }
}

attention_shape shape_of(const model_of_test& m, std::uint32_t page) {
  attention_shape s;
  s.kind = s.kv = m.kind;
  s.heads = m.heads;
  s.kv_heads = m.kv_heads;
  s.head_size = m.size;
  s.block_positions = page;
  s.rows_max = 1024;
  s.soft_cap = m.cap;
  s.windows = {m.window};
  return s;
}

std::vector<model_of_test> attention_models() {
  std::vector<model_of_test> out;
  for (const auto kind : {element::f16, element::bf16})
    for (const auto& [heads, kv_heads, size] :
         {std::tuple(32U, 8U, 128U), {9U, 3U, 64U}, {14U, 2U, 64U}, {6U, 6U, 128U}, {8U, 4U, 256U}})
      for (const auto& [window, cap] :
           {std::pair(0U, 0.0F), {37U, 0.0F}, {0U, 20.0F}, {37U, 20.0F}})
        out.push_back({kind, heads, kv_heads, size, window, cap});
  return out;
}

struct stream_of_test {
  stream_of_test() { REQUIRE(cudaStreamCreate(&stream) == cudaSuccess); }
  ~stream_of_test() { cudaStreamDestroy(stream); }
  stream_of_test(const stream_of_test&) = delete;
  stream_of_test& operator=(const stream_of_test&) = delete;
  cudaStream_t stream = nullptr;
};

} // namespace

TEST_CASE("without a device FlashInfer is rejected with CUDA's message") {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) {
    MESSAGE("a device is there: what it does is seen by the cases on cuda:0");
    return;
  }
  const auto shape = shape_of({element::bf16, 32, 8, 128, 0, 0}, 64);
  const attention_memory none{[](std::size_t) { return buffer{}; },
                              [](std::size_t) { return buffer{}; }, nullptr};
  try {
    make_flashinfer(shape, none);
    FAIL("it was made");
  } catch (const refused& e) {
    MESSAGE(e.what());
    CHECK(e.why() == plugin::status::internal);
    CHECK(std::string(e.what()).starts_with("FlashInfer, an event: "));
  }
}

TEST_CASE("on cuda:0 FlashInfer attends as our own kernel does") {
  if (!has_cuda_device())
    return;
  const stream_of_test s;
  std::uint32_t seed = 1;
  for (const auto& m : attention_models())
    for (const std::uint32_t page : {16U, 64U})
      for (const auto& [singles, prompts, positions, rows] : {std::tuple(0U, 1U, 0U, 700U),
                                                              {3U, 2U, 900U, 300U},
                                                              {40U, 3U, 300U, 40U},
                                                              {2U, 0U, 1500U, 1U}}) {
        const step_extent e{singles, prompts, positions, std::max(rows, 2U), page, 1600 / page};
        const random_step step(e, ++seed);
        laid_out on(step, e, m);
        CAPTURE(seed);
        CAPTURE(m.size);
        CAPTURE(m.heads);
        attend_on_cuda(on.a, s.stream);
        const auto expected = on.results();
        on.forget_results();
        const auto shape = shape_of(m, page);
        const auto use = flashinfer_use(shape);
        REQUIRE(use.prompts);
        const auto library = make_flashinfer(shape, {device_memory, host_memory, s.stream});
        const auto& groups = step.groups;
        const tables_on_device one(groups.singles(), on.pages), many(groups.prompts(), on.pages);
        for (const bool is_recorded : {false, true}) {
          on.forget_results();
          if (prompts > 0) {
            library->plan_prompts(groups.prompts().tables(groups.pages()));
            library->attend_prompts(on.part(groups.prompts()), many.tables);
          }
          if (singles > 0 && use.singles) {
            library->plan_singles(groups.singles().tables(groups.pages()), is_recorded);
            library->attend_singles(on.part(groups.singles()), one.tables);
          } else if (singles > 0) {
            attend_on_cuda(on.part(groups.singles()), s.stream);
          }
          check_near(on.results(), expected, m);
        }
      }
}

TEST_CASE("on cuda:0 FlashInfer's single rows are replayed for other lengths") {
  if (!has_cuda_device())
    return;
  const stream_of_test s;
  const model_of_test m{element::bf16, 32, 8, 128, 0, 0};
  for (const std::uint32_t singles : {1U, 5U, 64U, 300U}) {
    CAPTURE(singles);
    // Short ones first: the recording must also serve long ones, which are split into more parts.
    const step_extent few{singles, 0, 20, 1, 64, 40}, many{singles, 0, 2000, 1, 64, 40};
    const random_step first(few, singles), second(many, singles + 1);
    laid_out later(second, many, m);
    const auto library = make_flashinfer(shape_of(m, 64), {device_memory, host_memory, s.stream});
    // One buffer for the tables of both, as in step_rows.
    const buffer pages = device_memory(std::size_t{singles} * 40 * sizeof(std::uint32_t));
    tables_on_device tables(second.groups.singles(), pages);
    const auto lay = [&](const random_step& step) {
      const auto& group = step.groups.singles();
      const auto copy = [](const buffer& to, const auto& from) {
        REQUIRE(cudaMemcpy(to.as<void>(), from.data(), from.size() * sizeof(from[0]),
                           cudaMemcpyHostToDevice) == cudaSuccess);
      };
      copy(tables.rows, group.row_begin);
      copy(tables.begin, group.page_begin);
      copy(tables.last, group.last_page);
      copy(pages, step.groups.pages());
      library->plan_singles(group.tables(step.groups.pages()), /*is_recorded=*/true);
    };
    lay(first);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    REQUIRE(cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    library->attend_singles(later.a, tables.tables);
    REQUIRE(cudaStreamEndCapture(s.stream, &graph) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&ready, graph, 0) == cudaSuccess);
    attend_on_cuda(later.a, s.stream);
    const auto expected = later.results();
    for (int again = 0; again < 2; ++again) {
      later.forget_results();
      lay(second);
      REQUIRE(cudaGraphLaunch(ready, s.stream) == cudaSuccess);
      check_near(later.results(), expected, m);
    }
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
  }
}

#else

TEST_CASE("FlashInfer's attention is not in this build") {
  MESSAGE("skipped: scripts/setup.sh fetches its headers, BATON_FLASHINFER names them");
}

#endif
