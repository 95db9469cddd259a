#include "cluster/commands/model_download.hpp"

#include "cluster/commands/status_line.hpp"
#include "cluster/config/config.hpp"
#include "cluster/config/imported/model_launch.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "cluster/files/shown_bytes.hpp"
#include "cluster/hub/header_check.hpp"
#include "cluster/hub/hub_cache.hpp"
#include "cluster/hub/known_models.hpp"
#include "cluster/hub/ollama/ollama_store.hpp"
#include "cluster/hub/pull.hpp"
#include "cluster/machines/machine.hpp"
#include "cluster/plan/model_fit.hpp"
#include "cluster/process/running_clusters.hpp"
#include "cluster/roles/process.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdio>

namespace baton::cluster {
namespace fs = std::filesystem;
namespace {

using pull_clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds screen_interval{200};
constexpr std::chrono::milliseconds answer_look_interval{50};
constexpr double speed_weight = 0.2; // of the last interval in the shown speed

// Bytes, speed and time left, a few times a second.
class pull_screen {
public:
  hub_events events() {
    return {[this](const std::string& note) {
              line_.clear();
              std::fprintf(stderr, "%s\n", note.c_str());
            },
            [this](const download_progress& now) { show(now); },
            [](std::chrono::milliseconds time) { return wait_for_end(time) == 0; }};
  }
  void clear() { line_.clear(); }

private:
  void show(const download_progress& now) {
    const auto time = pull_clock::now();
    const auto passed = time - shown_at_;
    if (!line_.is_terminal() || passed < screen_interval)
      return;
    shown_at_ = time;
    const auto percent = now.bytes_all == 0 ? 100 : now.bytes * 100 / now.bytes_all;
    if (now.is_checking)
      return line_.show(fmt::format("{}: checking its digest ({} %)", now.file, percent));
    measure(now.bytes, std::chrono::duration<double>(passed).count());
    auto text = fmt::format("{}: {} of {} ({} %)", now.file, shown_bytes(now.bytes),
                            shown_bytes(now.bytes_all), percent);
    if (speed_ > 0) {
      const auto left = static_cast<double>(now.bytes_all - std::min(now.bytes, now.bytes_all));
      text += fmt::format(", {}/s, {} left", shown_bytes(static_cast<std::uint64_t>(speed_)),
                          shown_time(left / speed_));
    }
    line_.show(text);
  }

  void measure(std::uint64_t bytes, double seconds) {
    if (last_bytes_ && bytes >= *last_bytes_) {
      const auto speed = static_cast<double>(bytes - *last_bytes_) / seconds;
      speed_ = speed_ > 0 ? speed_ + speed_weight * (speed - speed_) : speed;
    }
    last_bytes_ = bytes;
  }

  static std::string shown_time(double seconds) {
    const auto all = static_cast<std::uint64_t>(seconds);
    if (all < 60)
      return fmt::format("{} s", all);
    return all < 3600 ? fmt::format("{} min", all / 60)
                      : fmt::format("{} h {} min", all / 3600, all / 60 % 60);
  }

  status_line line_;
  pull_clock::time_point shown_at_{};
  std::optional<std::uint64_t> last_bytes_;
  double speed_ = 0; // bytes a second
};

// Which model a short name is. A path of that name wins where paths are looked for.
void show_known(const std::string& text, bool is_path) {
  const auto* known = find_known_model(text);
  if (known == nullptr)
    return;
  const std::string reference(known->reference);
  if (is_path)
    std::fprintf(stderr, "%s: the path here; the known model of that name is %s\n", text.c_str(),
                 reference.c_str());
  else
    std::fprintf(stderr, "%s: %s\n", text.c_str(), reference.c_str());
}

// The file of a model of Ollama, and the parts of the model that are not used.
void show_ollama(const model_reference& reference, const hub_settings& settings) {
  const auto model = find_ollama_model(settings.ollama, reference.repository);
  if (!model)
    return;
  std::fprintf(stderr, "%s: %s\n", text_of(reference).c_str(), model->blob.c_str());
  if (model->has_settings)
    std::fprintf(stderr,
                 "note: Ollama's template, system message and parameters of it are not used; the "
                 "file has its own template\n");
}

bool is_download(const model_reference& reference) {
  return reference.from == model_reference::source::repository ||
         reference.from == model_reference::source::url;
}

bool is_existing_path(const std::string& text) {
  std::error_code failed;
  return !is_explicit_reference(text) && fs::exists(text, failed);
}

// A directory of the cache is named as its commit is; its repository has the better name.
found_model named(fs::path path, const model_reference& reference) {
  std::error_code failed;
  auto name = name_of_model(path);
  if (reference.from == model_reference::source::repository && fs::is_directory(path, failed))
    name = name_of_model(reference.repository);
  if (reference.from == model_reference::source::ollama) // a blob is named as its digest is
    name = name_of_model(reference.repository.substr(reference.repository.rfind('/') + 1));
  return {std::move(path), std::move(name)};
}

// A download that moves a name to another commit would change the files of a process that starts
// again.
result<void> check_not_moved(const pull_plan& plan, const hub_settings& settings) {
  if (plan.reference.from != model_reference::source::repository)
    return {};
  const hub_cache cache(settings.cache);
  const auto& id = plan.reference.repository;
  const auto before = cache.commit_of(id, plan.reference.revision);
  if (!before || *before == plan.commit)
    return {};
  for (const auto& served : served_files())
    for (const auto& file : cache.files(id, *before)) {
      std::error_code failed;
      const auto directory = fs::canonical(cache.snapshot(id, *before), failed);
      if (served.path == directory || served.path == fs::canonical(directory / file.path, failed))
        return fail(errc::conflict,
                    "the running cluster {} serves {} of the commit {}, and {} is now {}: download "
                    "that by its commit, {}@{}, or stop the cluster",
                    served.cluster, id, *before, plan.reference.revision, plan.commit, id,
                    plan.commit);
    }
  return {};
}

result<pull_plan> planned(const model_reference& reference, const hub_settings& settings,
                          const hub_events& events) {
  const auto memory = facts_of_this_machine().memory_available_bytes;
  auto plan =
      plan_pull(reference, settings, events, memory_room{memory, file_bytes_that_fit(memory)});
  if (!plan)
    return plan;
  events.note(plan->choice.why);
  for (const auto& note : plan->choice.notes)
    events.note(note);
  if (auto ok = check_not_moved(*plan, settings); !ok)
    return ok.error();
  if (auto ok = check_header(*plan, settings, events); !ok)
    return ok.error();
  return plan;
}

result<found_model> fetched(const pull_plan& plan, const hub_settings& settings,
                            pull_screen& screen) {
  auto path = pull(plan, settings, screen.events());
  screen.clear();
  return path ? result<found_model>(named(*std::move(path), plan.reference)) : path.error();
}

// Waits for a line of the terminal. ^C and an end of input are a no.
bool is_agreed() {
  for (;;) {
    if (wait_for_end(std::chrono::milliseconds(0)) != 0)
      return false;
    pollfd in{STDIN_FILENO, POLLIN, 0};
    if (poll(&in, 1, static_cast<int>(answer_look_interval.count())) <= 0)
      continue;
    std::array<char, 64> line{};
    const auto n = read(STDIN_FILENO, line.data(), line.size());
    return n > 0 && (line[0] == 'y' || line[0] == 'Y');
  }
}

result<found_model> found(const std::string& text, const hub_settings& settings) {
  auto path = path_of_model(text, settings);
  if (!path)
    return path.error();
  const auto reference = is_existing_path(text) ? result<model_reference>(model_reference{})
                                                : parse_reference(text, settings.endpoint);
  if (!reference)
    return reference.error();
  if (reference->from == model_reference::source::ollama)
    show_ollama(*reference, settings);
  return named(*std::move(path), *reference);
}

result<found_model> downloaded(const std::string& text, const hub_settings& settings) {
  const auto reference = parse_reference(text, settings.endpoint);
  if (!reference)
    return reference.error();
  pull_screen screen;
  const auto plan = planned(*reference, settings, screen.events());
  return plan ? fetched(*plan, settings, screen) : plan.error();
}

} // namespace

std::vector<served_file> served_files() {
  std::vector<served_file> all;
  for (const auto& c : running_clusters_here()) {
    const auto config = load_config(c.dir.config());
    if (!config)
      continue;
    for (const auto& model : config->models) {
      std::error_code failed;
      if (auto path = fs::canonical(model.path, failed); !failed)
        all.push_back({c.name, std::move(path)});
    }
  }
  return all;
}

result<found_model> find_model(const std::string& text, const hub_settings& settings) {
  show_known(text, is_existing_path(text));
  return found(text, settings);
}

result<found_model> download_model(const std::string& text, const hub_settings& settings) {
  show_known(text, false);
  return downloaded(text, settings);
}

result<found_model> find_or_download(const std::string& text, bool may_download,
                                     const hub_settings& settings) {
  show_known(text, is_existing_path(text));
  auto model = found(text, settings);
  if (model || model.error().code != errc::not_found)
    return model;
  const auto reference = parse_reference(text, settings.endpoint);
  if (!reference || !is_download(*reference))
    return model;
  if (may_download)
    return downloaded(text, settings);
  if (settings.is_offline || isatty(STDIN_FILENO) != 1 || isatty(STDERR_FILENO) != 1)
    return model;
  pull_screen screen;
  const auto plan = planned(*reference, settings, screen.events());
  if (!plan)
    return plan.error();
  std::fprintf(stderr, "%s is not downloaded. Download %s now? [y/N] ", text.c_str(),
               shown_bytes(plan->bytes_missing).c_str());
  return is_agreed() ? fetched(*plan, settings, screen) : model;
}

} // namespace baton::cluster
