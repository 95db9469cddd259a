// Goal: what does not go together is refused with both versions, and what does is not. Method:
// numbers as a driver, torch and NCCL give them.
#include "runtime/gpu/device.hpp"
#include "runtime/gpu/requirements.hpp"

#include <doctest/doctest.h>

#include <functional>

using namespace baton::gpu;

namespace {

// Empty: it was not refused.
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

TEST_CASE("a driver that is missing, or for an older CUDA, is refused; a newer one is not") {
  CHECK(refusal([] { check_driver(2, 0, 13000); }) == "cuda:2: this machine has no NVIDIA driver");
  CHECK(refusal([] { check_driver(0, 12080, 13000); }) ==
        "cuda:0: the driver is for CUDA 12.8, this engine needs 13.0");
  CHECK(refusal([] { check_driver(0, 13000, 13010); }).empty());
  CHECK(refusal([] { check_driver(0, 14000, 13000); }).empty());
}

TEST_CASE("another torch than the one whose headers were compiled is refused") {
  CHECK(refusal([] { check_torch("2.11.0", "2.11.0"); }).empty());
  CHECK(refusal([] { check_torch("2.11.0", "2.12.1"); }) ==
        "was built with torch 2.11.0, torch 2.12.1 is installed: build it again");
}

TEST_CASE("an NCCL that is older than its header is refused") {
  CHECK(refusal([] { check_nccl(22809, 22809); }).empty());
  CHECK(refusal([] { check_nccl(22809, 23007); }).empty());
  CHECK(refusal([] { check_nccl(22809, 22605); }) ==
        "NCCL 2.26.5 is installed, this engine needs 2.28.9 or later");
  CHECK(refusal([] { check_nccl(22809, 0); }).find("NCCL 0.0.0 is installed") == 0);
}
