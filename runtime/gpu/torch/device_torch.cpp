// CPU and CUDA tensors as the device of a stage: ATen for memory, copies and matrix products. The
// only file that includes torch's headers. It includes only those headers of this tree that need
// just the standard library, because torch brings its own copies of others (docs/decisions/0030).
#include "runtime/gpu/device/device.hpp"
#include "runtime/gpu/device/requirements.hpp"
#include "runtime/gpu/kernels/flashinfer.hpp"
#ifdef BATON_CUDA
#include "runtime/gpu/nccl/nccl_library.hpp"
#include "runtime/gpu/nccl/nccl_sums.hpp"
#endif

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <c10/core/InferenceMode.h>
#include <torch/headeronly/version.h>

#ifdef BATON_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

namespace baton::gpu {

#ifdef BATON_CUDA
// kernels_cuda.cu: why its kernels cannot run on this device; null: they can.
const char* cuda_kernels_refuse();
#endif

namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw refused(plugin::status::no_device, text);
}

// The version of the loaded library, which may differ from the compiled headers.
std::string torch_version() {
  const std::string text = at::show_config();
  constexpr std::string_view mark = "TORCH_VERSION=";
  const auto at = text.find(mark);
  if (at == std::string::npos)
    return "unknown";
  const auto begin = at + mark.size();
  return text.substr(begin, text.find_first_of(", \n", begin) - begin);
}

c10::ScalarType type_of(element e) {
  return e == element::f32 ? at::kFloat : e == element::f16 ? at::kHalf : at::kBFloat16;
}

#ifdef BATON_CUDA
// Explains why there is no such device, in the order in which an operator would check.
void check_cuda(int index) {
  int driver = 0, runtime = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess)
    driver = 0;
  if (cudaRuntimeGetVersion(&runtime) != cudaSuccess)
    refuse("cuda:" + std::to_string(index) + ": the CUDA runtime reports no version");
  check_driver(index, driver, runtime);
  int count = 0;
  if (const auto e = cudaGetDeviceCount(&count); e != cudaSuccess)
    refuse("cuda:" + std::to_string(index) + ": " + cudaGetErrorString(e));
  if (index >= count)
    refuse("cuda:" + std::to_string(index) + ": this machine has " + std::to_string(count) +
           " CUDA devices");
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(index));
  if (const char* why = cuda_kernels_refuse())
    refuse("cuda:" + std::to_string(index) +
           ": was built for other architectures (CMAKE_CUDA_ARCHITECTURES): " + why);
}
#endif

#ifdef BATON_CUDA
class graph final : public recording {
public:
  // Captures on the device and stream that `enter` selects for the calling thread.
  graph(std::function<void()> enter, const std::function<void()>& work) : enter_(std::move(enter)) {
    enter_();
    // Ignores calls of other threads, such as allocations.
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      try {
        graph_.capture_end();
      } catch (...) { // the first exception has more information
      }
      throw;
    }
    graph_.capture_end();
  }
  void replay() override {
    enter_();
    graph_.replay();
  }

private:
  std::function<void()> enter_;
  at::cuda::CUDAGraph graph_;
};
#endif

#ifdef BATON_CUDA
class passed_event final : public mark {
public:
  explicit passed_event(at::cuda::CUDAEvent event) : event_(std::move(event)) {}
  void wait() override { event_.synchronize(); }
  bool is_passed() noexcept override {
    try {
      return event_.query();
    } catch (...) { // wait() reports the failure
      return true;
    }
  }

private:
  at::cuda::CUDAEvent event_;
};
#endif

class torch_device final : public device {
public:
  explicit torch_device(c10::Device where) : where_(where) {
    at::globalContext().setAllowFP16ReductionCuBLAS(false);
    at::globalContext().setAllowBF16ReductionCuBLAS(false);
#ifdef BATON_CUDA
    if (where_.is_cuda()) { // the default stream cannot be recorded
      stream_ = stream_from_pool();
      upload_stream_ = stream_from_pool();
      download_stream_ = stream_from_pool();
    }
#endif
  }

  std::string name() const override {
    std::string text = where_.is_cuda() ? where_.str() : "cpu-torch";
#ifdef BATON_CUDA
    if (where_.is_cuda())
      text += std::string(" ") + at::cuda::getDeviceProperties(where_.index())->name;
#endif
    text += ", torch " TORCH_VERSION;
#ifdef BATON_FLASHINFER
    if (where_.is_cuda())
      text += ", FlashInfer " BATON_FLASHINFER;
#endif
    return text;
  }
  // Libraries choose the order of a product's sums by its shape.
  bool is_exact() const noexcept override {
    return false;
  }

  const kernel_table& kernels() const noexcept override {
#ifdef BATON_CUDA
    if (where_.is_cuda())
      return cuda_kernels();
#endif
    return host_kernels();
  }

  void* stream() noexcept override {
#ifdef BATON_CUDA
    if (where_.is_cuda()) {
      enter();
      return stream_->stream();
    }
#endif
    return nullptr;
  }

  buffer take(std::size_t bytes) override {
    return held(bytes, where_, /*is_pinned=*/false);
  }
  buffer take_host(std::size_t bytes) override {
    return held(bytes, c10::Device(c10::kCPU), where_.is_cuda());
  }

  void upload(void* to, const void* from, std::size_t bytes) override {
    enter();
    if (bytes > 0)
      bytes_at(to, bytes, where_).copy_(bytes_at(from, bytes, c10::Device(c10::kCPU)));
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    enter();
    check_launches();
    if (bytes > 0)
      bytes_at(to, bytes, c10::Device(c10::kCPU)).copy_(bytes_at(from, bytes, where_));
  }
  void zero(void* memory, std::size_t bytes) override {
    enter();
    if (bytes > 0)
      bytes_at(memory, bytes, where_).zero_();
  }
  void upload_later(void* to, const void* from, std::size_t bytes) override {
    copy_on(stream_, to, from, bytes);
  }
  void download_later(void* to, const void* from, std::size_t bytes) override {
    copy_on(stream_, to, from, bytes);
  }
  void copy_later(void* to, const void* from, std::size_t bytes) override {
    copy_on(stream_, to, from, bytes);
  }
  void upload_beside(void* to, const void* from, std::size_t bytes) override {
    copy_on(upload_stream_, to, from, bytes);
    make_wait(stream_, upload_stream_);
  }
  void download_beside(void* to, const void* from, std::size_t bytes) override {
    make_wait(download_stream_, stream_);
    copy_on(download_stream_, to, from, bytes);
  }
  std::unique_ptr<mark> set_mark() override {
#ifdef BATON_CUDA
    if (where_.is_cuda()) {
      enter();
      make_wait(download_stream_, stream_);
      at::cuda::CUDAEvent event;
      event.record(*download_stream_);
      return std::make_unique<passed_event>(std::move(event));
    }
#endif
    return std::make_unique<passed_already>();
  }
  // CPU tensors compute synchronously.
  bool is_asynchronous() const noexcept override {
    return where_.is_cuda();
  }
  void check_launches() override {
#ifdef BATON_CUDA
    if (where_.is_cuda()) // torch only checks its own launches
      C10_CUDA_CHECK(cudaGetLastError());
#endif
  }
  std::string why_lost() override {
#ifdef BATON_CUDA
    if (where_.is_cuda()) {
      enter();
      // Reading clears the error of a single call. An error that destroyed the context, or an
      // unfinished capture, is returned by every call.
      static_cast<void>(cudaGetLastError());
      const auto state = cudaStreamQuery(*stream_);
      if (state != cudaSuccess && state != cudaErrorNotReady)
        return cudaGetErrorString(state);
    }
#endif
    return {};
  }

  void multiply(const product& p) override {
    if (p.rows == 0)
      return;
    enter();
    const c10::InferenceMode no_gradients;
    const auto rows = static_cast<std::int64_t>(p.rows);
    const auto columns = static_cast<std::int64_t>(p.columns);
    const auto outputs = static_cast<std::int64_t>(p.outputs);
    const auto kind = type_of(p.kind);
    const auto in = matrix_at(p.in, rows, columns, kind);
    const auto weights = matrix_at(p.weights, outputs, columns, kind).t();
    auto out = matrix_at(p.out, rows, outputs, p.is_out_f32 ? at::kFloat : kind);
    if (p.kind == element::f32)
      at::mm_out(out, in, weights);
    else if (!where_.is_cuda()) // in float32, as sums require; slow, for tests
      out.copy_(at::mm(in.to(at::kFloat), weights.to(at::kFloat)));
    else if (p.is_out_f32)
      at::mm_out(out, in, weights, at::kFloat);
    else
      at::mm_out(out, in, weights);
  }

  std::uint32_t few_rows_max(element kind) const noexcept override {
    if (kind == element::f32)
      return 0;
    return where_.is_cuda() ? 4 : 1; // CPU tensors: both paths are tested
  }
  std::uint32_t tile_rows_max(element kind) const noexcept override {
    if (kind == element::f32)
      return 0;
    // An H100: at 256 rows both ways take the same time.
    return where_.is_cuda() ? 240 : 24; // CPU tensors: both paths are tested
  }
  std::uint32_t splits_for(std::uint64_t teams) const noexcept override {
    constexpr std::uint64_t enough = 2048, most = 32; // 16 warps on each of 128 multiprocessors
    return where_.is_cuda() ? static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
                                  enough / std::max<std::uint64_t>(teams, 1), 1, most))
                            : 1;
  }
  std::uint32_t expert_rows_max() const noexcept override {
    // These kernels use no tensor cores: the limit is the largest recorded decode step. Few on CPU
    // tensors, so that tests cover both paths.
    return where_.is_cuda() ? 256 : 4;
  }
  chosen_attention attention(const attention_shape& shape) override {
    chosen_attention out;
#ifdef BATON_FLASHINFER
    if (where_.is_cuda()) {
      out.name = "FlashInfer " BATON_FLASHINFER;
      out.use = flashinfer_use(shape, attention_wanted_of(std::getenv("BATON_GPU_ATTENTION")));
      if (out.use.prompts)
        out.library = make_flashinfer(
            shape, {[this](std::size_t bytes) { return take(bytes); },
                    [this](std::size_t bytes) { return take_host(bytes); }, stream()});
    }
#elif defined(BATON_CUDA)
    if (where_.is_cuda()) {
      out.name = "FlashInfer";
      out.use.why_not = "this engine was built without its headers";
    }
#endif
    static_cast<void>(shape);
    return out;
  }
  bool can_record() const noexcept override {
    return where_.is_cuda();
  }
  std::unique_ptr<recording> record(const std::function<void()>& work) override {
#ifdef BATON_CUDA
    if (where_.is_cuda())
      return std::make_unique<graph>([this] { enter(); }, work);
#endif
    static_cast<void>(work);
    throw refused(plugin::status::internal, "CPU tensors cannot be recorded");
  }

  std::string check_ranks(std::uint32_t on_device) override {
#ifdef BATON_CUDA
    if (where_.is_cuda()) {
      const auto found = find_nccl();
      check_ranks_on_device(found.version, found.file, std::getenv(several_ranks_variable),
                            on_device);
      return text_of_nccl(found.version, found.file);
    }
#endif
    static_cast<void>(on_device);
    return {};
  }
  std::unique_ptr<rank_sums> sums(const plugin::settings& with,
                                  const plugin::host& shard) override {
#ifdef BATON_CUDA
    if (where_.is_cuda())
      return std::make_unique<nccl_sums>(open_nccl(stream()), with, shard);
#endif
    static_cast<void>(with);
    static_cast<void>(shard);
    return nullptr;
  }

private:
  // Selects this device and its stream for the allocations and launches of the calling thread.
  void enter() const {
#ifdef BATON_CUDA
    if (where_.is_cuda()) {
      c10::cuda::set_device(where_.index());
      c10::cuda::setCurrentCUDAStream(*stream_);
    }
#endif
  }

#ifdef BATON_CUDA
  using stream_of_device = std::optional<c10::cuda::CUDAStream>; // empty: CPU tensors
  c10::cuda::CUDAStream stream_from_pool() const {
    return c10::cuda::getStreamFromPool(/*isHighPriority=*/false, where_.index());
  }
#else
  struct stream_of_device {};
#endif

  // torch's own copies are only asynchronous for tensors that it created.
  void copy_on(const stream_of_device& on, void* to, const void* from, std::size_t bytes) {
    if (bytes == 0)
      return;
    enter();
#ifdef BATON_CUDA
    if (where_.is_cuda()) {
      C10_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, *on));
      return;
    }
#endif
    static_cast<void>(on);
    std::memcpy(to, from, bytes);
  }
  // Later work on `later` waits for all present work on `earlier`.
  void make_wait(const stream_of_device& later, const stream_of_device& earlier) {
#ifdef BATON_CUDA
    if (where_.is_cuda()) {
      enter();
      at::cuda::CUDAEvent event;
      event.record(*earlier);
      event.block(*later);
    }
#endif
    static_cast<void>(later);
    static_cast<void>(earlier);
  }

  buffer held(std::size_t bytes, c10::Device on, bool is_pinned) {
    enter();
    const auto options = c10::TensorOptions(at::kByte).device(on).pinned_memory(is_pinned);
    at::Tensor memory = at::empty({static_cast<std::int64_t>(bytes)}, options);
    void* data = memory.data_ptr();
    return {std::shared_ptr<void>(data, [memory](void*) {})};
  }

  // Specifying the device avoids a query to the driver.
  static at::Tensor tensor_at(const void* memory, at::IntArrayRef sizes, c10::ScalarType type,
                              c10::Device on) {
    return at::for_blob(const_cast<void*>(memory), sizes)
        .options(c10::TensorOptions(type).device(on))
        .target_device(on)
        .make_tensor();
  }
  static at::Tensor bytes_at(const void* memory, std::size_t bytes, c10::Device on) {
    return tensor_at(memory, {static_cast<std::int64_t>(bytes)}, at::kByte, on);
  }
  at::Tensor matrix_at(const void* memory, std::int64_t rows, std::int64_t columns,
                       c10::ScalarType type) const {
    return tensor_at(memory, {rows, columns}, type, where_);
  }

  c10::Device where_;
  stream_of_device stream_, upload_stream_, download_stream_; // for kernels; for concurrent copies
};

} // namespace

std::unique_ptr<device> open_device(const plugin::settings& with) {
  check_torch(TORCH_VERSION, torch_version());
  attention_wanted_of(std::getenv("BATON_GPU_ATTENTION")); // rejects an invalid value early
  const std::string_view wanted = with.device;
  if (wanted == "cpu-torch") {
    at::set_num_threads(static_cast<int>(with.threads));
    return std::make_unique<torch_device>(c10::Device(c10::kCPU));
  }
  constexpr std::string_view cuda = "cuda:";
  const auto number = wanted.substr(std::min(cuda.size(), wanted.size()));
  const bool is_number = !number.empty() && number.size() <= 3 &&
                         number.find_first_not_of("0123456789") == std::string_view::npos;
  if (!wanted.starts_with(cuda) || !is_number)
    refuse("there is no device " + std::string(wanted) + ", only cuda:N and cpu-torch");
#ifdef BATON_CUDA
  const int index = std::stoi(std::string(number));
  check_cuda(index);
  return std::make_unique<torch_device>(
      c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index)));
#else
  refuse(std::string(wanted) + ": this engine was built for CPU tensors only (BATON_TORCH=cpu)");
#endif
}

meaning meaning_of(const std::exception& thrown) {
  meaning out{plugin::status::internal, thrown.what()};
  if (const auto* e = dynamic_cast<const c10::Error*>(&thrown))
    out.text = e->what_without_backtrace();
  if (dynamic_cast<const c10::OutOfMemoryError*>(&thrown) != nullptr ||
      out.text.find("can't allocate memory") != std::string::npos) // from the CPU allocator
    out.why = plugin::status::does_not_fit;
  return out;
}

} // namespace baton::gpu
