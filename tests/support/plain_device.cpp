// A device of plain memory and plain loops. The stage of runtime/gpu is tested on it where there is
// no torch, and it is the reference for devices with torch. It sums in double, so rounding is
// negligible and a row never depends on the other rows. A recording is a list of calls. Variants:
//   plain-sums      reduces over ranks itself, as a device with NCCL; insists on NCCL's call order
//   plain-torn      fails to record; plain-still: does not support recording
//   plain-late      runs nothing before it must, and copies in parallel to kernels as early or late
//                   as device.hpp allows: an access to memory in use gets other numbers
//   plain-paged     has library attention (plain_attention.hpp); plain-prompts: for prompts alone
//   plain-few       multiplies up to two rows by the kernel
//   plain-hosted    has the host group the rows of a mixture of experts
//   plain-alone     does not support ranks; plain-apart: supports one rank a device
//   plain-trapping  has a kernel that traps once the file named by BATON_PLAIN_TRAP exists; then
//                   it is lost to its process. The file is gone: another process has a working one.
//   plain-refusing  is plain-sums, but refuses any epoch while the file named by BATON_PLAIN_REFUSE
//                   exists, as NCCL does for two ranks on one GPU
#include "runtime/gpu/device/device.hpp"
#include "runtime/gpu/device/scalar.hpp"
#include "tests/support/plain_attention.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

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

// The shard's own sum, in place of a device's.
class plain_sums final : public rank_sums {
public:
  plain_sums(const plugin::host& shard, bool& is_under_way, const char* refuses_by)
      : shard_(shard), is_under_way_(is_under_way), refuses_by_(refuses_by) {}

  void enter(std::uint64_t epoch) override {
    if (refuses_by_ != nullptr && epoch != epoch_ && ::access(refuses_by_, F_OK) == 0)
      throw refused(plugin::status::group_failed, "two ranks on one device");
    epoch_ = epoch;
    has_entered_ = true;
  }
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
  const char* refuses_by_; // while this file exists; null: never
  std::uint64_t epoch_ = 0;
  bool has_entered_ = false;
};

using calls = std::vector<std::function<void()>>;

// Calls that a late device has not run yet, in order. Copies out that run in parallel to kernels
// are done at a wait for a later mark.
struct late_work {
  calls list;
  std::size_t done = 0; // of all calls so far

  void run(std::size_t until) { // likewise
    const auto count = until - std::min(until, done);
    for (std::size_t i = 0; i < count; ++i)
      list[i]();
    list.erase(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count));
    done += count;
  }
  std::size_t asked_for() const { return done + list.size(); }
};

class late_mark final : public mark {
public:
  late_mark(std::shared_ptr<late_work> work, calls leaving, bool is_overtaken)
      : work_(std::move(work)), until_(work_->asked_for()), leaving_(std::move(leaving)),
        is_overtaken_(is_overtaken) {}
  bool is_passed() noexcept override { return ++looks_ > 2; }
  // Calls after the mark may have run by then.
  void wait() override {
    work_->run(is_overtaken_ ? work_->asked_for() : until_);
    for (const auto& each : std::exchange(leaving_, {}))
      each();
  }

private:
  std::shared_ptr<late_work> work_;
  std::size_t until_;
  calls leaving_;
  bool is_overtaken_;
  int looks_ = 0;
};

class plain_recording final : public recording {
public:
  using runner = std::function<void(std::function<void()>)>;
  plain_recording(calls made, runner run) : made_(std::move(made)), run_(std::move(run)) {}
  void replay() override {
    for (const auto& each : made_)
      run_(each);
  }

private:
  calls made_;
  runner run_;
};

// The host's kernels; `stream` points to the list that records them, null: they run at once.
template <auto Kernel>
struct kept;
template <class Args, void (*kernel_table::*Kernel)(const Args&, void*)>
struct kept<Kernel> {
  static void call(const Args& args, void* stream) {
    auto* list = *static_cast<calls**>(stream);
    if (list == nullptr)
      (host_kernels().*Kernel)(args, nullptr);
    else
      list->push_back([args] { (host_kernels().*Kernel)(args, nullptr); });
  }
};

template <auto... Kernels>
constexpr kernel_table kept_table() {
  return {kept<Kernels>::call...};
}

class plain_device final : public device {
public:
  explicit plain_device(std::string_view name)
      : name_(name), sums_itself_(name == "plain-sums" || name == "plain-refusing"),
        late_(name == "plain-late" ? std::make_shared<late_work>() : nullptr),
        list_(late_ ? &late_->list : nullptr) {}
  plain_device(const plain_device&) = delete;
  plain_device& operator=(const plain_device&) = delete;
  ~plain_device() override { run_late(); } // including the release of buffers

  std::string name() const override { return name_; }
  // A single row and a row of a prompt are computed in two ways there.
  bool is_exact() const noexcept override {
    return name_ != "plain-prompts" && name_ != "plain-few";
  }
  std::uint32_t few_rows_max(element /*kind*/) const noexcept override {
    return name_ == "plain-few" ? 2 : 0;
  }
  const kernel_table& kernels() const noexcept override {
    using k = kernel_table;
    static constexpr auto table =
        kept_table<&k::embed, &k::norm, &k::rotate, &k::attend, &k::gate, &k::cap, &k::choose,
                   &k::gather, &k::scatter, &k::spread, &k::feed, &k::draw, &k::multiply_few,
                   &k::multiply_tiles, &k::unpack, &k::group, &k::multiply_experts, &k::combine,
                   &k::join, &k::norm_parts>();
    return table;
  }
  void* stream() noexcept override { return &list_; }
  std::uint32_t splits_for(std::uint64_t /*teams*/) const noexcept override { return 3; }
  std::uint32_t expert_rows_max() const noexcept override {
    return name_ == "plain-hosted" ? 0 : UINT32_MAX;
  }
  chosen_attention attention(const attention_shape& /*shape*/) override {
    chosen_attention out;
    out.use.prompts = name_ == "plain-paged" || name_ == "plain-prompts";
    out.use.singles = name_ == "plain-paged";
    if (out.use.prompts) {
      out.name = "plain loops";
      out.library = std::make_unique<plain_attention>(
          [this](std::function<void()> call) { run_or_keep(std::move(call)); });
    }
    return out;
  }
  bool can_record() const noexcept override { return name_ != "plain-still"; }
  std::unique_ptr<recording> record(const std::function<void()>& work) override {
    calls made;
    list_ = &made;
    is_recording_ = true;
    const auto end = [this] {
      list_ = late_ ? &late_->list : nullptr;
      is_recording_ = false;
    };
    try {
      work();
    } catch (...) {
      end();
      throw;
    }
    end();
    if (name_ == "plain-torn")
      throw refused(plugin::status::internal, "torn while recording");
    return std::make_unique<plain_recording>(
        std::move(made), [this](std::function<void()> call) { run_or_keep(std::move(call)); });
  }
  // A released buffer is freed when all earlier calls have run.
  buffer take(std::size_t bytes) override {
    return {std::shared_ptr<void>(memory_of(bytes), [late = late_](void* p) {
      if (late && !late->list.empty())
        late->list.push_back([p] { std::free(p); });
      else
        std::free(p);
    })};
  }
  buffer take_host(std::size_t bytes) override {
    return {std::shared_ptr<void>(memory_of(bytes), std::free)};
  }
  void upload(void* to, const void* from, std::size_t bytes) override {
    runs_now("a copy");
    check_launches();
    if (is_under_way_) // on a device it may wait for earlier calls
      throw refused(plugin::status::internal, "a copy before the ranks have finished");
    run_late();
    std::memcpy(to, from, bytes);
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    runs_now("a copy back");
    check_launches();
    if (is_under_way_) // on a device this would wait for ranks that may be gone
      throw refused(plugin::status::internal, "a copy back before the ranks have finished");
    run_late();
    std::memcpy(to, from, bytes);
  }
  void upload_later(void* to, const void* from, std::size_t bytes) override {
    copy_in_order("a copy", to, from, bytes);
  }
  void download_later(void* to, const void* from, std::size_t bytes) override {
    if (is_under_way_)
      throw refused(plugin::status::internal, "a copy back before the ranks have finished");
    copy_in_order("a copy back", to, from, bytes);
  }
  void copy_later(void* to, const void* from, std::size_t bytes) override {
    copy_in_order("a copy on the device", to, from, bytes);
  }
  void upload_beside(void* to, const void* from, std::size_t bytes) override {
    runs_now("a copy");
    check_launches();
    std::memcpy(to, from, bytes); // it does not have to wait
  }
  void download_beside(void* to, const void* from, std::size_t bytes) override {
    runs_now("a copy back");
    check_launches();
    auto copy = [to, from, bytes] { std::memcpy(to, from, bytes); };
    if (late_)
      leaving_.push_back(copy); // no later call waits for it
    else
      copy();
  }
  std::unique_ptr<mark> set_mark() override {
    check_launches();
    if (!late_)
      return std::make_unique<passed_already>();
    return std::make_unique<late_mark>(late_, std::exchange(leaving_, {}), ++marks_ % 2 == 0);
  }
  bool is_asynchronous() const noexcept override { return name_ != "plain-still"; }
  void zero(void* memory, std::size_t bytes) override {
    run_or_keep([memory, bytes] { std::memset(memory, 0, bytes); });
  }
  // As on a device: the next call reports the trap, and so does every later one.
  void check_launches() override {
    if (is_lost_)
      throw std::runtime_error("an illegal memory access was encountered");
  }
  std::string why_lost() override { return is_lost_ ? "an illegal memory access" : ""; }
  std::string check_ranks(std::uint32_t on_device) override {
    if (name_ == "plain-alone")
      throw refused(plugin::status::no_device, "several ranks need what this machine has not");
    if (name_ == "plain-apart" && on_device > 1)
      throw refused(plugin::status::no_device,
                    std::to_string(on_device) + " ranks of a stage are on one device");
    return name_ == "plain-apart" ? "plain loops" : "";
  }
  std::unique_ptr<rank_sums> sums(const plugin::settings& /*with*/,
                                  const plugin::host& shard) override {
    const char* refuses_by =
        name_ == "plain-refusing" ? std::getenv("BATON_PLAIN_REFUSE") : nullptr;
    return sums_itself_ ? std::make_unique<plain_sums>(shard, is_under_way_, refuses_by) : nullptr;
  }
  void multiply(const product& p) override {
    run_or_keep([this, p] {
      trap_if_requested();
      multiply_now(p);
    });
  }

private:
  static void multiply_now(const product& p) {
    switch (p.kind) {
    case element::f32:
      return multiply_as<float>(p);
    case element::f16:
      return multiply_as<f16>(p);
    case element::bf16:
      return multiply_as<bf16>(p);
    }
  }
  void run_or_keep(std::function<void()> call) {
    if (list_ != nullptr)
      list_->push_back(std::move(call));
    else
      call();
  }
  void trap_if_requested() {
    const char* file = name_ == "plain-trapping" ? std::getenv("BATON_PLAIN_TRAP") : nullptr;
    is_lost_ = is_lost_ || (file != nullptr && std::remove(file) == 0);
  }
  void* memory_of(std::size_t bytes) {
    runs_now("memory");
    trap_if_requested();
    check_launches();
    void* memory = std::malloc(bytes);
    if (memory == nullptr)
      throw std::bad_alloc();
    std::memset(memory, 0xFF, bytes); // NaN of every kind: a read of uninitialised memory shows
    return memory;
  }
  void copy_in_order(const char* what, void* to, const void* from, std::size_t bytes) {
    runs_now(what);
    check_launches();
    run_or_keep([to, from, bytes] { std::memcpy(to, from, bytes); });
  }
  void run_late() {
    if (late_)
      late_->run(late_->asked_for());
  }
  void runs_now(const std::string& what) const {
    if (is_recording_)
      throw refused(plugin::status::internal, what + " while a step is recorded");
  }

  std::string name_;
  bool sums_itself_;
  std::shared_ptr<late_work> late_; // null: calls run at once
  calls* list_;                     // that records calls; null: they run
  bool is_recording_ = false;
  calls leaving_; // copies with no mark after them yet
  std::uint32_t marks_ = 0;
  bool is_under_way_ = false;
  bool is_lost_ = false;
};

} // namespace

std::unique_ptr<device> open_device(const plugin::settings& with) {
  const std::string_view wanted = with.device;
  if (wanted != "plain" && wanted != "plain-sums" && wanted != "plain-torn" &&
      wanted != "plain-still" && wanted != "plain-paged" && wanted != "plain-prompts" &&
      wanted != "plain-few" && wanted != "plain-late" && wanted != "plain-hosted" &&
      wanted != "plain-alone" && wanted != "plain-apart" && wanted != "plain-trapping" &&
      wanted != "plain-refusing")
    throw refused(plugin::status::no_device,
                  "there is no device " + std::string(wanted) + ", only plain");
  return std::make_unique<plain_device>(wanted);
}

meaning meaning_of(const std::exception& thrown) {
  return {plugin::status::internal, thrown.what()};
}

} // namespace baton::gpu
