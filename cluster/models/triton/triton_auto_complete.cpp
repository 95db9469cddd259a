#include "cluster/models/triton/triton_auto_complete.hpp"

#include "cluster/files/memory_file.hpp"
#include "cluster/files/text_file.hpp"
#include "cluster/process/child.hpp"
#include "schema/limits.hpp"

#include <algorithm>
#include <csignal>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

namespace baton::cluster {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view hook = "auto_complete_config";
constexpr std::size_t source_bytes_max = 4u << 20;
constexpr std::size_t answers_max = 4 * limits::models_max; // of several versions of each model

bool has_hook(const fs::path& file) {
  const auto source = beginning_of(file, source_bytes_max);
  return source.find(hook) != source.npos;
}

// The exit status is not used: another watcher of this process's children may reap it.
result<auto_completion> read_answer(const std::string& last) {
  const auto space = std::min(last.find(' '), last.size());
  const auto status = std::string_view(last).substr(0, space);
  auto rest = last.substr(std::min(space + 1, last.size()));
  if (status == "completed")
    return auto_completion{.fields = std::move(rest)};
  if (status == "failed")
    return fail(errc::bad_config, "{} of model.py: {}", hook, rest);
  if (status == "unable")
    return auto_completion{.unanswered = std::move(rest)};
  return auto_completion{.unanswered = last.empty() ? "python3 has printed nothing" : last};
}

result<auto_completion> ask_process(const fs::path& file) {
  const auto output = memory_file::create("auto-complete");
  if (!output)
    return output.error();
  const auto log = fmt::format("/proc/self/fd/{}", output->fd());
  const launch what{
      "/usr/bin/env",
      {"env", "python3", "-m", "baton_worker.triton_complete", fs::absolute(file).string()},
      log};
  auto ended = std::make_shared<std::promise<void>>();
  child_watch watch;
  const auto pid =
      watch.start(what, [ended](std::int32_t, const child_end&) { ended->set_value(); });
  if (!pid)
    return pid.error();
  if (ended->get_future().wait_for(auto_complete_max) != std::future_status::ready) {
    watch.signal(*pid, SIGKILL);
    return auto_completion{.unanswered =
                               fmt::format("it takes more than {} s", auto_complete_max.count())};
  }
  return read_answer(last_line(log));
}

// Answers by file and content.
class answers {
public:
  result<auto_completion> get(const fs::path& file, std::uint64_t digest) {
    const auto key = std::pair(file.string(), digest);
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = all_.find(key); known != all_.end())
        return known->second;
    }
    auto answer = ask_process(file);
    const std::lock_guard lock(mutex_);
    if (all_.size() >= answers_max)
      all_.clear();
    all_.insert_or_assign(key, answer);
    return answer;
  }

private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::uint64_t>, result<auto_completion>> all_;
};

} // namespace

result<auto_completion> ask_auto_complete(const fs::path& file, std::uint64_t digest) {
  static answers known;
  if (!has_hook(file))
    return auto_completion();
  return digest == 0 ? ask_process(file) : known.get(file, digest);
}

} // namespace baton::cluster
