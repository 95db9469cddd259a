#include "runtime/gpu/device/requirements.hpp"

#include "runtime/gpu/device/device.hpp"

#include <string_view>

namespace baton::gpu {
namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw refused(plugin::status::no_device, text);
}

std::string cuda_version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

std::string nccl_version(int number) {
  return std::to_string(number / 10000) + "." + std::to_string(number % 10000 / 100) + "." +
         std::to_string(number % 100);
}

} // namespace

void check_torch(const std::string& compiled, const std::string& loaded) {
  if (loaded != compiled)
    refuse("was built with torch " + compiled + ", torch " + loaded +
           " is installed: build it again");
}

void check_driver(int index, int driver, int runtime) {
  const std::string device = "cuda:" + std::to_string(index);
  if (driver == 0)
    refuse(device + ": this machine has no NVIDIA driver");
  if (driver / 1000 < runtime / 1000)
    refuse(device + ": the driver is for CUDA " + cuda_version(driver) + ", this engine needs " +
           cuda_version(runtime));
}

void check_nccl(int compiled, int installed) {
  if (installed < compiled)
    refuse("NCCL " + nccl_version(installed) + " is installed, this engine needs " +
           nccl_version(compiled) + " or later");
}

std::string text_of_nccl(int version, const std::string& file) {
  return "NCCL " + nccl_version(version) + " (" + file + ")";
}

void check_ranks_on_device(int version, const std::string& file, const char* several,
                           std::uint32_t ranks) {
  constexpr int takes_several = 23000; // 2.30
  if (ranks <= 1)
    return;
  const auto is_refused = text_of_nccl(version, file) + " refuses " + std::to_string(ranks) +
                          " ranks of a stage on one device: ";
  if (version < takes_several)
    refuse(is_refused + "give each a device of its own, or NCCL 2.30 or later");
  if (several == nullptr || std::string_view(several) != "1")
    refuse(is_refused + "give each a device of its own, or set " + several_ranks_variable +
           "=1 in the environment of `cluster`");
}

} // namespace baton::gpu
