// A kernel that traps, on the current device; returns CUDA's error code for it.
extern "C" int launch_trap();

namespace {

__global__ void trap() {
  asm("trap;");
}

} // namespace

extern "C" int launch_trap() {
  trap<<<1, 1>>>();
  return static_cast<int>(cudaDeviceSynchronize());
}
