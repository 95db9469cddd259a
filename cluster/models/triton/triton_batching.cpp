#include "cluster/models/triton/triton_batching.hpp"

#include "cluster/config/config.hpp"
#include "schema/limits.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

namespace baton::cluster {
namespace {

constexpr std::int64_t micros_max = 86'400'000'000; // a day

double seconds_of(std::chrono::microseconds time) {
  return static_cast<double>(time.count()) / 1e6;
}

// A ModelQueuePolicy.
schedule::queue_policy read_policy(pbtxt_fields& of) {
  schedule::queue_policy policy;
  const auto action = of.text("timeout_action");
  if (!action.empty() && action != "REJECT" && action != "DELAY")
    of.refuse("timeout_action", "REJECT or DELAY");
  policy.is_delayed = action == "DELAY";
  policy.timeout =
      std::chrono::microseconds(of.integer("default_timeout_microseconds", 0, micros_max));
  policy.allow_timeout_override = of.flag("allow_timeout_override");
  policy.max_queue_size =
      static_cast<std::size_t>(of.integer("max_queue_size", 0, worker_queued_max));
  return policy;
}

std::string line_of(std::uint32_t level, const schedule::queue_policy& policy) {
  return fmt::format("  {{ level = {}, queue_timeout = {:.6f}, queue_timeout_action = \"{}\", "
                     "allow_timeout_override = {}, max_queue_size = {} }},\n",
                     level, seconds_of(policy.timeout), policy.is_delayed ? "delay" : "reject",
                     policy.allow_timeout_override, policy.max_queue_size);
}

class batching_translation {
public:
  explicit batching_translation(pbtxt_fields& config)
      : config_(config), batching_(config.message("dynamic_batching")),
        default_(batching_.message("default_queue_policy")) {}

  result<triton_batching> write() {
    write_batches();
    write_levels();
    for (const auto* part : {&config_, &batching_, &default_})
      if (part->wrong())
        return *part->wrong();
    return std::move(out_);
  }

private:
  template <class... Args>
  void line(fmt::format_string<Args...> text, Args&&... args) {
    out_.toml += fmt::format(text, std::forward<Args>(args)...) + '\n';
  }
  void note(std::string text) { out_.notes.push_back(std::move(text)); }

  void write_batches() {
    const auto most = config_.integer("max_batch_size", 0, limits::batch_items_max);
    const bool forms_batches = config_.find("dynamic_batching") && most > 0;
    const auto delay =
        std::chrono::microseconds(batching_.integer("max_queue_delay_microseconds", 0, micros_max));
    const auto preferred =
        batching_.integers("preferred_batch_size", 1, std::max<std::int64_t>(most, 1));
    line("batch_size = {}", forms_batches ? most : 1);
    line("max_batch_delay = {:.6f}", forms_batches ? seconds_of(delay) : 0);
    if (forms_batches && !preferred.empty())
      line("preferred_batch_size = [{}]", fmt::join(preferred, ", "));
    if (batching_.flag("preserve_ordering"))
      line("preserve_ordering = true");
    if (most > 0 && !config_.find("dynamic_batching"))
      note("batch_size is 1, as without dynamic_batching: what a client sends is not split");
  }

  void write_levels() {
    const auto policy = read_policy(default_);
    const auto levels = batching_.integer("priority_levels", 0, schedule::priority_levels_max);
    if (policy.timeout.count() > 0)
      line("queue_timeout = {:.6f}", seconds_of(policy.timeout));
    if (policy.is_delayed)
      line("queue_timeout_action = \"delay\"");
    if (policy.allow_timeout_override)
      line("allow_timeout_override = true");
    if (levels == 0) {
      check_order(policy.is_delayed, 1);
      return write_bound(policy.max_queue_size);
    }
    const auto otherwise = batching_.integer("default_priority_level", 0, levels);
    if (otherwise == 0)
      batching_.refuse("default_priority_level", "a priority level");
    line("priority_levels = {}\ndefault_priority_level = {}", levels, otherwise);
    std::map<std::uint32_t, schedule::queue_policy> own;
    for (auto& entry : batching_.messages("priority_queue_policy")) {
      const auto level = entry.integer("key", 0, levels);
      auto value = entry.message("value");
      own[static_cast<std::uint32_t>(level)] = read_policy(value);
      for (const auto* part : {&entry, &value})
        if (part->wrong())
          batching_.fail_with(*part->wrong());
      if (level == 0)
        batching_.refuse("priority_queue_policy.key", "a priority level");
    }
    write_policies(static_cast<std::uint32_t>(levels), policy, own);
  }

  void write_policies(std::uint32_t levels, const schedule::queue_policy& policy,
                      const std::map<std::uint32_t, schedule::queue_policy>& own) {
    std::string lines;
    std::optional<std::size_t> all = 0; // the total queue bound
    bool is_any_delayed = policy.is_delayed;
    for (std::uint32_t level = 1; level <= levels; ++level) {
      const auto known = own.find(level);
      const auto& one = known == own.end() ? policy : known->second;
      is_any_delayed = is_any_delayed || one.is_delayed;
      if (one.max_queue_size == 0)
        all.reset();
      else if (all)
        *all += one.max_queue_size;
      if (known != own.end() || one.max_queue_size > 0)
        lines += line_of(level, one);
    }
    check_order(is_any_delayed, levels);
    if (!lines.empty())
      line("priority_queue_policy = [\n{}]", lines);
    write_bound(std::min<std::size_t>(all.value_or(0), worker_queued_max));
  }

  // Triton refuses both combinations.
  void check_order(bool is_any_delayed, std::uint32_t levels) {
    if (batching_.flag("preserve_ordering") && (is_any_delayed || levels > 1))
      batching_.refuse("preserve_ordering", "false beside DELAY and several priority levels");
  }

  void write_bound(std::size_t requests) {
    if (requests > 0)
      line("max_queued = {}", requests);
    else
      note(std::string(queue_default_note));
  }

  pbtxt_fields& config_;
  pbtxt_fields batching_;
  pbtxt_fields default_;
  triton_batching out_;
};

} // namespace

result<triton_batching> import_triton_batching(pbtxt_fields& config) {
  return batching_translation(config).write();
}

} // namespace baton::cluster
