// Goal: incompatible versions are rejected with both versions named, compatible ones accepted.
// Method: version numbers as a driver, torch and NCCL report them.
#include "runtime/gpu/device/device.hpp"
#include "runtime/gpu/device/requirements.hpp"

#include <doctest/doctest.h>

#include <functional>

using namespace baton::gpu;

namespace {

// Empty: accepted.
std::string refusal(const std::function<void()>& check) {
  try {
    check();
    return {};
  } catch (const refused& e) {
    CHECK(e.why() == baton::plugin::status::no_device);
    return e.what();
  }
}

} // namespace

TEST_CASE("a driver that is missing, or for an older CUDA, is rejected; a newer one is not") {
  CHECK(refusal([] { check_driver(2, 0, 13000); }) == "cuda:2: this machine has no NVIDIA driver");
  CHECK(refusal([] { check_driver(0, 12080, 13000); }) ==
        "cuda:0: the driver is for CUDA 12.8, this engine needs 13.0");
  CHECK(refusal([] { check_driver(0, 13000, 13010); }).empty());
  CHECK(refusal([] { check_driver(0, 14000, 13000); }).empty());
}

TEST_CASE("another torch than the one whose headers were compiled is rejected") {
  CHECK(refusal([] { check_torch("2.11.0", "2.11.0"); }).empty());
  CHECK(refusal([] { check_torch("2.11.0", "2.12.1"); }) ==
        "was built with torch 2.11.0, torch 2.12.1 is installed: build it again");
}

TEST_CASE("two ranks on one device are rejected where NCCL would reject each communicator") {
  const auto refusal_of = [](int version, const char* several, std::uint32_t ranks) {
    return refusal([&] { check_ranks_on_device(version, "/lib/nccl.so", several, ranks); });
  };
  CHECK(refusal_of(22809, nullptr, 1).empty());
  CHECK(refusal_of(22809, "1", 2) ==
        "NCCL 2.28.9 (/lib/nccl.so) refuses 2 ranks of a stage on one device: give each a device "
        "of its own, or NCCL 2.30 or later");
  CHECK(refusal_of(22907, "1", 2).starts_with("NCCL 2.29.7 (/lib/nccl.so) refuses 2 ranks"));
  for (const char* off : {static_cast<const char*>(nullptr), "", "0", "yes"})
    CHECK(refusal_of(23007, off, 4)
              .ends_with("set NCCL_MULTI_RANK_GPU_ENABLE=1 in the environment "
                         "of `cluster`"));
  CHECK(refusal_of(23007, "1", 2).empty());
  CHECK(refusal_of(23203, "1", 8).empty());
}

TEST_CASE("the loaded NCCL is named with its version and file") {
  CHECK(text_of_nccl(23007, "/a/libnccl.so.2") == "NCCL 2.30.7 (/a/libnccl.so.2)");
}

TEST_CASE("an NCCL that is older than its header is rejected") {
  CHECK(refusal([] { check_nccl(22809, 22809); }).empty());
  CHECK(refusal([] { check_nccl(22809, 23007); }).empty());
  CHECK(refusal([] { check_nccl(22809, 22605); }) ==
        "NCCL 2.26.5 is installed, this engine needs 2.28.9 or later");
  CHECK(refusal([] { check_nccl(22809, 0); }).find("NCCL 0.0.0 is installed") == 0);
}
