// A device of plain memory and plain loops: what the stage of runtime/gpu is tested on where there
// is no torch, and the oracle of the devices that have it. Sums are double, so that they hardly
// round and a row never depends on the rows beside it. As "plain-sums" it sums up over ranks by
// itself, as a device with NCCL does, and insists on the order of calls that NCCL needs.
#include "runtime/gpu/device.hpp"
#include "runtime/gpu/scalar.hpp"

#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

namespace baton::gpu {
namespace {

template <class T>
void multiply_as(const product& p) {
  const auto* in = static_cast<const T*>(p.in);
  const auto* weights = static_cast<const T*>(p.weights);
  for (std::uint64_t r = 0; r < p.rows; ++r)
    for (std::uint64_t o = 0; o < p.outputs; ++o) {
      double sum = 0;
      for (std::uint64_t k = 0; k < p.columns; ++k)
        sum += static_cast<double>(widen(in[r * p.columns + k])) *
               static_cast<double>(widen(weights[o * p.columns + k]));
      const std::uint64_t at = r * p.outputs + o;
      if (p.is_out_f32)
        static_cast<float*>(p.out)[at] = static_cast<float>(sum);
      else
        narrow(static_cast<float>(sum), static_cast<T*>(p.out)[at]);
    }
}

// The shard's own sum, as if it were the device's.
class plain_sums final : public rank_sums {
public:
  plain_sums(const plugin::host& shard, bool& is_under_way)
      : shard_(shard), is_under_way_(is_under_way) {}

  void enter(std::uint64_t /*epoch*/) override { has_entered_ = true; }
  void sum(float* values, std::size_t count) override {
    if (!has_entered_)
      throw refused(plugin::status::internal, "a sum before an epoch");
    plugin::failure why;
    if (const auto s = shard_.all_reduce(shard_.context, values, count, &why);
        s != plugin::status::ok)
      throw refused(s, why.message);
    is_under_way_ = true;
  }
  void finish() override { is_under_way_ = false; }

private:
  plugin::host shard_;
  bool& is_under_way_;
  bool has_entered_ = false;
};

class plain_device final : public device {
public:
  explicit plain_device(bool sums_itself) : sums_itself_(sums_itself) {}

  std::string name() const override { return sums_itself_ ? "plain-sums" : "plain"; }
  bool is_exact() const noexcept override { return true; }
  const kernel_table& kernels() const noexcept override { return host_kernels(); }
  void* stream() noexcept override { return nullptr; }
  buffer take(std::size_t bytes) override {
    void* memory = std::malloc(bytes);
    if (memory == nullptr)
      throw std::bad_alloc();
    std::memset(memory, 0xFF, bytes); // NaN of every kind: what is read before it was written shows
    return {std::shared_ptr<void>(memory, std::free)};
  }
  buffer take_host(std::size_t bytes) override { return take(bytes); }
  void upload(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    if (is_under_way_) // on a device this would wait for ranks that may be gone
      throw refused(plugin::status::internal, "a copy back before the ranks have finished");
    std::memcpy(to, from, bytes);
  }
  void zero(void* memory, std::size_t bytes) override { std::memset(memory, 0, bytes); }
  std::unique_ptr<rank_sums> sums(const plugin::settings& /*with*/,
                                  const plugin::host& shard) override {
    return sums_itself_ ? std::make_unique<plain_sums>(shard, is_under_way_) : nullptr;
  }
  void multiply(const product& p) override {
    switch (p.kind) {
    case element::f32:
      return multiply_as<float>(p);
    case element::f16:
      return multiply_as<f16>(p);
    case element::bf16:
      return multiply_as<bf16>(p);
    }
  }

private:
  bool sums_itself_;
  bool is_under_way_ = false;
};

} // namespace

std::unique_ptr<device> open_device(const plugin::settings& with) {
  const std::string_view wanted = with.device;
  if (wanted != "plain" && wanted != "plain-sums")
    throw refused(plugin::status::no_device,
                  "there is no device " + std::string(wanted) + ", only plain");
  return std::make_unique<plain_device>(wanted == "plain-sums");
}

meaning meaning_of(const std::exception& thrown) {
  return {plugin::status::internal, thrown.what()};
}

} // namespace baton::gpu
