// Where a stage computes: memory, copies, matrix products and a table of kernels. CPU and CUDA
// tensors are one implementation (device_torch.cpp); the tests bring a plain one
// (tests/support/plain_device.cpp), so that all above this line runs without torch.
//
// Failures are exceptions here, because torch's are: plugin.cpp catches them all, at the boundary.
#pragma once

#include "runtime/gpu/kernels.hpp"
#include "runtime/gpu/paged_attention.hpp"
#include "runtime/gpu/rank_sums.hpp"

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

// Memory of a device, or of the host for copies to and from it: given back when the last one goes.
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
  const void* in = nullptr;      // [rows, columns] of that kind
  const void* weights = nullptr; // [outputs, columns] of that kind
  void* out = nullptr;           // [rows, outputs], of that kind or float32
  bool is_out_f32 = false;
};

// Work of a device that can be run again as it was, with the memory it had.
class recording {
public:
  virtual ~recording() = default;
  virtual void replay() = 0; // ordered with the device's other work
};

// A point in what a device was asked for.
class mark {
public:
  virtual ~mark() = default;
  // Returns when all before it is done. Throws what has failed.
  virtual void wait() = 0;
  // Whether wait() would return, or throw, at once.
  virtual bool is_passed() noexcept = 0;
};

// Of a device where all is done when it is asked for.
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
  // Whether a row of a product has the same bits whatever rows are beside it.
  virtual bool is_exact() const noexcept = 0;
  virtual const kernel_table& kernels() const noexcept = 0;
  virtual void* stream() noexcept = 0; // what the kernels are given

  virtual buffer take(std::size_t bytes) = 0; // of the device
  virtual buffer
  take_host(std::size_t bytes) = 0; // that the device copies from and to at full speed
  // Ordered with the kernels. upload() may be called by several threads; `from` is free when it
  // returns. download() returns when all that was asked before is done.
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;
  virtual void zero(void* memory, std::size_t bytes) = 0;
  // Copies that nobody waits for: memory of the host is of take_host(), and what they read stays as
  // it is until a mark behind them is passed. In the order of the kernels:
  virtual void upload_later(void* to, const void* from, std::size_t bytes) = 0;
  virtual void download_later(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy_later(void* to, const void* from, std::size_t bytes) = 0; // on the device
  // Beside the kernels. The first begins at once, and all that is asked for later waits for it; the
  // second begins when all that was asked for before is done, and only marks wait for it.
  virtual void upload_beside(void* to, const void* from, std::size_t bytes) = 0;
  virtual void download_beside(void* to, const void* from, std::size_t bytes) = 0;
  virtual std::unique_ptr<mark> set_mark() = 0;
  // Whether it works while nobody waits for it.
  virtual bool works_by_itself() const noexcept = 0;
  // Throws if something of ours that was launched could not be. Does not wait.
  virtual void check_launches() {}
  // Why this process cannot use the device any more; empty: it can. Asked when something has
  // failed: a kernel that traps fails whatever is asked of the device afterwards, in the words of
  // whoever asked.
  virtual std::string why_lost() { return {}; }
  virtual void multiply(const product& p) = 0;
  // Up to how many rows of that kind the kernel of few rows is quicker than multiply(). A row's
  // bits depend on it.
  virtual std::uint32_t few_rows_max(element /*kind*/) const noexcept { return 0; }
  // In how many parts contexts are attended to, where so many teams of lanes would have one each:
  // few of them leave a wide device idle. A row's bits depend on it (attend_args::splits).
  virtual std::uint32_t splits_for(std::uint64_t teams) const noexcept = 0;
  // Up to how many rows a mixture is computed by kernels of our own, which find on the device what
  // rows an expert has (expert_layers.hpp). A row's bits depend on it.
  virtual std::uint32_t expert_rows_max() const noexcept { return 0; }
  // What a library computes of such a model's attention; by default, nothing that is worth a word.
  virtual chosen_attention attention(const attention_shape& /*shape*/) { return {}; }
  // Whether record() is possible.
  virtual bool can_record() const noexcept = 0;
  // What `work` launches is not run but kept: kernels, products and zero(); it may ask for nothing
  // else. Throws what the device and `work` throw; the device can go on then.
  virtual std::unique_ptr<recording> record(const std::function<void()>& work) = 0;
  // By what ranks of a stage meet, `on_device` of them on this device: "NCCL 2.28.9 (FILE)"; "": by
  // the host. Throws refused(no_device) if it is missing, of a wrong version, or takes no so many.
  virtual std::string check_ranks(std::uint32_t /*on_device*/) { return {}; }
  // How this device's memory is summed up over the ranks of `with`; null: by the host.
  virtual std::unique_ptr<rank_sums> sums(const plugin::settings& with,
                                          const plugin::host& shard) = 0;
};

// The device of that name, with everything it needs. Throws refused(no_device), saying what is
// missing.
std::unique_ptr<device> open_device(const plugin::settings& with);

// What an exception of the device's library means.
struct meaning {
  plugin::status why = plugin::status::internal;
  std::string text;
};
meaning meaning_of(const std::exception& thrown);

} // namespace baton::gpu
