// Goal: the installed NCCL works through the interface. Method: the calls that need no GPU; without
// one, a communicator is rejected with NCCL's message, and nothing crashes or waits.
#include "runtime/gpu/device/device.hpp"
#include "runtime/gpu/nccl/nccl_library.hpp"
#include "tests/support/deadline_scale.hpp"

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <thread>

using namespace baton::gpu;
using baton::testing::scaled;

TEST_CASE("NCCL is found, makes ids, and rejects a communicator where there is no device") {
  const auto nccl = open_nccl(nullptr);
  const auto first = nccl->make_id(), second = nccl->make_id();
  CHECK(first != second);
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) {
    MESSAGE("a device is there: what it does is seen by the cases on cuda:0");
    return;
  }
  const auto communicator = nccl->begin(first, 0, 1);
  if (communicator == nullptr) {
    MESSAGE(nccl->last_error());
    CHECK(nccl->last_error().starts_with("NCCL: "));
    return;
  }
  // It may be accepted first and fail while it begins.
  const auto until = std::chrono::steady_clock::now() + scaled(std::chrono::seconds(30));
  auto state = nccl->state_of(communicator);
  while (state == nccl_progress::pending && std::chrono::steady_clock::now() < until) {
    std::this_thread::yield();
    state = nccl->state_of(communicator);
  }
  CHECK(state == nccl_progress::failed);
  MESSAGE(nccl->last_error());
  CHECK(nccl->last_error().starts_with("NCCL: "));
  nccl->abort(communicator);
}

TEST_CASE("NCCL reports its version and its file") {
  const auto found = find_nccl();
  CHECK(found.version >= 22800);
  CHECK(std::filesystem::exists(found.file));
  CHECK(found.file.find("nccl") != std::string::npos);
}

TEST_CASE("an NCCL library without a required function is rejected by its name") {
  const auto refusal = [](const char* file) -> std::string {
    try {
      open_nccl(nullptr, file);
      return {};
    } catch (const refused& e) {
      CHECK(e.why() == baton::plugin::status::no_device);
      return e.what();
    }
  };
  CHECK(refusal(OLD_NCCL).starts_with("NCCL 2.26.5 is installed, this engine needs 2.2"));
  CHECK(refusal(GAP_NCCL) == "this NCCL has no ncclGetErrorString");
  CHECK(refusal("libnccl-of-nobody.so").starts_with("several ranks on CUDA devices need NCCL: "));
  CHECK(refusal("libnccl.so.2").empty());
}

TEST_CASE("on cuda:0 a single rank begins a communicator, sums and ends it") {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    MESSAGE("skipped: there is no CUDA device");
    return;
  }
  cudaStream_t stream = nullptr;
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  const auto nccl = open_nccl(stream);
  const auto communicator = nccl->begin(nccl->make_id(), 0, 1);
  REQUIRE_MESSAGE(communicator != nullptr, nccl->last_error());
  const auto wait = [&](const auto& state) {
    const auto until = std::chrono::steady_clock::now() + scaled(std::chrono::seconds(60));
    while (state() == nccl_progress::pending && std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
    return state();
  };
  REQUIRE(wait([&] { return nccl->state_of(communicator); }) == nccl_progress::done);
  const float values[] = {1, 2, 3};
  float* on_device = nullptr;
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&on_device), sizeof values) == cudaSuccess);
  REQUIRE(cudaMemcpy(on_device, values, sizeof values, cudaMemcpyHostToDevice) == cudaSuccess);
  REQUIRE(nccl->add_sum(communicator, on_device, 3));
  CHECK(wait([&] { return nccl->device_state(); }) == nccl_progress::done);
  float back[3] = {};
  REQUIRE(cudaMemcpy(back, on_device, sizeof back, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(back[2] == 3); // one rank: its own value
  nccl->abort(communicator);
  cudaFree(on_device);
  cudaStreamDestroy(stream);
}
