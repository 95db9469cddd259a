// The device of a stage: memory, copies, matrix products and a table of kernels. One implementation
// covers CPU and CUDA tensors (device_torch.cpp). The tests have a plain one
// (tests/support/plain_device.cpp), so everything above this interface runs without torch.
//
// Failures are exceptions here, as in torch; plugin.cpp catches all of them.
#pragma once

#include "runtime/gpu/device/kernels.hpp"
#include "runtime/gpu/device/paged_attention.hpp"
#include "runtime/gpu/device/rank_sums.hpp"

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

namespace baton::gpu {

class refused : public std::runtime_error {
public:
  refused(plugin::status why, const std::string& text) : std::runtime_error(text), why_(why) {}
  plugin::status why() const noexcept { return why_; }

private:
  plugin::status why_;
};

// Memory of a device, or of the host for copies: freed with the last reference.
struct buffer {
  std::shared_ptr<void> memory;

  template <class T>
  T* as() const noexcept {
    return static_cast<T*>(memory.get());
  }
};

// out = in * weights^T, each output a sum over `columns` in float32.
struct product {
  element kind = element::f32;
  std::uint32_t rows = 0;
  std::uint64_t columns = 0, outputs = 0;
  const void* in = nullptr;      // [rows, columns] of `kind`
  const void* weights = nullptr; // [outputs, columns] of `kind`
  void* out = nullptr;           // [rows, outputs], of `kind` or float32
  bool is_out_f32 = false;
};

// Recorded work of a device, which can be replayed with the same memory.
class recording {
public:
  virtual ~recording() = default;
  virtual void replay() = 0; // in the order of the device's other work
};

// A point in the queue of a device's work.
class mark {
public:
  virtual ~mark() = default;
  // Returns when all earlier work is done. Throws if it failed.
  virtual void wait() = 0;
  // Whether wait() would return or throw immediately.
  virtual bool is_passed() noexcept = 0;
};

// For a device that completes all work synchronously.
class passed_already final : public mark {
public:
  void wait() override {}
  bool is_passed() noexcept override { return true; }
};

class device {
public:
  virtual ~device() = default;

  // "cuda:0 NVIDIA H200, torch 2.11.0"
  virtual std::string name() const = 0;
  // Whether the bits of a product's row are independent of the other rows.
  virtual bool is_exact() const noexcept = 0;
  virtual const kernel_table& kernels() const noexcept = 0;
  virtual void* stream() noexcept = 0; // passed to the kernels

  virtual buffer take(std::size_t bytes) = 0;      // on the device
  virtual buffer take_host(std::size_t bytes) = 0; // pinned: copied at full speed
  // In order with the kernels. upload() is thread-safe; `from` may be reused when it returns.
  // download() returns when all earlier work is done.
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;
  virtual void zero(void* memory, std::size_t bytes) = 0;
  // Asynchronous copies. Host memory must come from take_host(), and the source must not change
  // until a later mark has passed. In order with the kernels:
  virtual void upload_later(void* to, const void* from, std::size_t bytes) = 0;
  virtual void download_later(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy_later(void* to, const void* from, std::size_t bytes) = 0; // on the device
  // Concurrent with the kernels. upload_beside() starts immediately, and later work waits for it.
  // download_beside() starts when all earlier work is done, and only marks wait for it.
  virtual void upload_beside(void* to, const void* from, std::size_t bytes) = 0;
  virtual void download_beside(void* to, const void* from, std::size_t bytes) = 0;
  virtual std::unique_ptr<mark> set_mark() = 0;
  // Whether the device works asynchronously.
  virtual bool is_asynchronous() const noexcept = 0;
  // Throws if one of our kernel launches failed. Does not wait.
  virtual void check_launches() {}
  // Why this process cannot use the device any more; empty: it can. Called after a failure, because
  // a kernel that traps makes every later call fail, with the message of that call.
  virtual std::string why_lost() { return {}; }
  virtual void multiply(const product& p) = 0;
  // Up to this many rows the kernel for few rows is faster than multiply(). The choice changes the
  // bits of a row.
  virtual std::uint32_t few_rows_max(element /*kind*/) const noexcept { return 0; }
  // The most rows for which multiply_tiles() of the kernels is faster than expanding quantised
  // weights first. 0: not for this kind.
  virtual std::uint32_t tile_rows_max(element /*kind*/) const noexcept { return 0; }
  // The number of parts of each context when this many teams have one each, because few teams leave
  // a wide device idle. The choice changes the bits of a row (attend_args::splits).
  virtual std::uint32_t splits_for(std::uint64_t teams) const noexcept = 0;
  // Up to this many rows our own kernels compute a mixture and group its rows on the device
  // (expert_layers.hpp). The choice changes the bits of a row.
  virtual std::uint32_t expert_rows_max() const noexcept { return 0; }
  // The library for such a model's attention; by default none.
  virtual chosen_attention attention(const attention_shape& /*shape*/) { return {}; }
  // Whether record() is supported.
  virtual bool can_record() const noexcept = 0;
  // Records the kernels, products and zero() calls that `work` launches, without running them.
  // `work` may use nothing else. Throws what the device and `work` throw; the device stays usable.
  virtual std::unique_ptr<recording> record(const std::function<void()>& work) = 0;
  // The library that connects a stage's ranks, `on_device` of them on this device: "NCCL 2.28.9
  // (FILE)"; empty: the host. Throws refused(no_device) if it is missing, too old or limited to
  // fewer ranks.
  virtual std::string check_ranks(std::uint32_t /*on_device*/) { return {}; }
  // Sums of this device's memory over the ranks of `with`; null: computed by the host.
  virtual std::unique_ptr<rank_sums> sums(const plugin::settings& with,
                                          const plugin::host& shard) = 0;
};

// Opens the device with this name and its dependencies. Throws refused(no_device), which names what
// is missing.
std::unique_ptr<device> open_device(const plugin::settings& with);

// The meaning of an exception from the device's library.
struct meaning {
  plugin::status why = plugin::status::internal;
  std::string text;
};
meaning meaning_of(const std::exception& thrown);

} // namespace baton::gpu
