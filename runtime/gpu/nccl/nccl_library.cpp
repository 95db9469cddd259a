// NCCL, opened when a stage has several ranks. torch has loaded its own copy by then, and dlopen
// returns that copy.
#include "runtime/gpu/nccl/nccl_library.hpp"

#include "runtime/gpu/device/device.hpp"
#include "runtime/gpu/device/requirements.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>

#include <cstring>

namespace baton::gpu {
namespace {

static_assert(sizeof(ncclUniqueId) == std::tuple_size_v<nccl_id>);
static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0), "abort and non-blocking communicators");

// The functions, with the types from the header.
struct functions {
  decltype(&::ncclGetVersion) get_version = nullptr;
  decltype(&::ncclGetErrorString) get_error_string = nullptr;
  decltype(&::ncclGetLastError) get_last_error = nullptr;
  decltype(&::ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&::ncclCommInitRankConfig) init_rank = nullptr;
  decltype(&::ncclCommGetAsyncError) get_async_error = nullptr;
  decltype(&::ncclCommAbort) abort = nullptr;
  decltype(&::ncclAllReduce) all_reduce = nullptr;
};

template <class F>
void find(void* library, const char* name, F& out) {
  out = reinterpret_cast<F>(::dlsym(library, name));
  if (out == nullptr)
    throw refused(plugin::status::no_device, std::string("this NCCL has no ") + name);
}

int version_of(const functions& f) {
  int version = 0;
  return f.get_version(&version) == ncclSuccess ? version : 0;
}

functions open_functions(const char* file) {
  void* library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw refused(plugin::status::no_device,
                  std::string("several ranks on CUDA devices need NCCL: ") + ::dlerror());
  functions f;
  find(library, "ncclGetVersion", f.get_version);
  find(library, "ncclGetErrorString", f.get_error_string);
  find(library, "ncclGetLastError", f.get_last_error);
  find(library, "ncclGetUniqueId", f.get_unique_id);
  find(library, "ncclCommInitRankConfig", f.init_rank);
  find(library, "ncclCommGetAsyncError", f.get_async_error);
  find(library, "ncclCommAbort", f.abort);
  find(library, "ncclAllReduce", f.all_reduce);
  check_nccl(NCCL_VERSION_CODE, version_of(f));
  return f;
}

class nccl_library final : public nccl_calls {
public:
  nccl_library(void* stream, const char* file)
      : nccl_(open_functions(file)), stream_(static_cast<cudaStream_t>(stream)) {}

  nccl_id make_id() override {
    ncclUniqueId made;
    if (const auto answer = nccl_.get_unique_id(&made); answer != ncclSuccess) {
      note(answer, nullptr);
      throw refused(plugin::status::group_failed, last_);
    }
    nccl_id id;
    std::memcpy(id.data(), &made, id.size());
    return id;
  }

  nccl_communicator begin(const nccl_id& id, std::uint32_t rank, std::uint32_t width) override {
    ncclUniqueId unique;
    std::memcpy(&unique, id.data(), id.size());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t made = nullptr;
    const auto answer =
        nccl_.init_rank(&made, static_cast<int>(width), unique, static_cast<int>(rank), &config);
    if (is_taken_in(answer))
      return made;
    note(answer, made);
    if (made != nullptr)
      abort(made);
    return nullptr;
  }

  nccl_progress state_of(nccl_communicator of) override {
    ncclResult_t state = ncclInternalError;
    const auto asked = nccl_.get_async_error(static_cast<ncclComm_t>(of), &state);
    if (asked == ncclSuccess && state == ncclSuccess)
      return nccl_progress::done;
    if (asked == ncclSuccess && state == ncclInProgress)
      return nccl_progress::pending;
    note(asked == ncclSuccess ? state : asked, static_cast<ncclComm_t>(of));
    return nccl_progress::failed;
  }

  bool add_sum(nccl_communicator in, float* values, std::size_t count) override {
    const auto answer = nccl_.all_reduce(values, values, count, ncclFloat32, ncclSum,
                                         static_cast<ncclComm_t>(in), stream_);
    if (!is_taken_in(answer))
      note(answer, static_cast<ncclComm_t>(in));
    return is_taken_in(answer);
  }

  nccl_progress device_state() override {
    const auto state = cudaStreamQuery(stream_);
    if (state == cudaSuccess)
      return nccl_progress::done;
    if (state == cudaErrorNotReady)
      return nccl_progress::pending;
    last_ = cudaGetErrorString(state);
    return nccl_progress::failed;
  }

  void abort(nccl_communicator what) noexcept override {
    static_cast<void>(nccl_.abort(static_cast<ncclComm_t>(what)));
  }

  std::string last_error() const override { return last_; }

private:
  void note(ncclResult_t state, ncclComm_t in) {
    last_ = std::string("NCCL: ") + nccl_.get_error_string(state);
    if (const char* more = nccl_.get_last_error(in); more != nullptr && *more != 0)
      last_ += std::string(" (") + more + ")";
  }
  static bool is_taken_in(ncclResult_t answer) {
    return answer == ncclSuccess || answer == ncclInProgress;
  }

  functions nccl_;
  cudaStream_t stream_;
  std::string last_ = "no reason given";
};

} // namespace

nccl_found find_nccl(const char* file) {
  const auto f = open_functions(file);
  Dl_info where{};
  const bool is_known =
      ::dladdr(reinterpret_cast<void*>(f.get_version), &where) != 0 && where.dli_fname != nullptr;
  return {version_of(f), is_known ? where.dli_fname : file};
}

std::unique_ptr<nccl_calls> open_nccl(void* stream, const char* file) {
  return std::make_unique<nccl_library>(stream, file);
}

} // namespace baton::gpu
