#include "cluster/models/archive_intake.hpp"

#include "cluster/config/readers/config_repository.hpp"
#include "cluster/files/memory_file.hpp"
#include "schema/archive_url.hpp"

#include <spdlog/spdlog.h>

#include <array>
#include <csignal>
#include <fstream>
#include <future>
#include <memory>

namespace baton::cluster {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds stop_look_interval{100};
// Added to the fetch process's own deadline: time to start and to exit.
constexpr std::chrono::seconds fetch_grace{20};

// First word of the last line that baton_worker.fetch prints.
struct fetch_status {
  std::string_view status;
  errc code;
};
constexpr std::array fetch_failures{fetch_status{"refused", errc::model_not_found},
                                    fetch_status{"exists", errc::conflict},
                                    fetch_status{"failed", errc::invalid_request}};
constexpr std::string_view fetched_status = "fetched";

// The exit status is not used: another watcher of this process's children may reap it.
result<void> outcome_of_fetch(const std::string& last, const std::string& url) {
  const auto space = last.find(' ');
  const auto status = std::string_view(last).substr(0, space);
  if (status == fetched_status)
    return {};
  for (const auto& w : fetch_failures)
    if (w.status == status && space != last.npos)
      return fail(w.code, "{}", last.substr(space + 1));
  return fail(errc::io_failed, "Failed to download archive from: {}: {}", url,
              last.empty() ? "python3 -m baton_worker.fetch printed nothing" : last);
}

launch fetch_command(const store_config& store, const std::string& url, const std::string& file,
                     const std::string& log) {
  launch what{"/usr/bin/env", {"env", "python3", "-m", "baton_worker.fetch"}, log};
  for (const auto& pattern : store.allowed_urls)
    what.argv.push_back("--allowed=" + pattern);
  const auto add = [&](std::string option, const std::string& value) {
    what.argv.push_back(std::move(option));
    what.argv.push_back(value);
  };
  add("--store", fs::absolute(store.path).string());
  add("--file", file);
  add("--seconds", std::to_string(store.download_timeout));
  add("--", url);
  return what;
}

// A zip file's directory is at its end; all other formats are read from front to back.
bool is_zip(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::array<char, 2> magic{};
  in.read(magic.data(), magic.size());
  return in.gcount() == magic.size() && magic[0] == 'P' && magic[1] == 'K';
}

} // namespace

archive_intake::archive_intake(const store_config& store, child_watch& children)
    : store_(store), children_(children) {
  for (std::size_t i = 0; i < threads; ++i)
    threads_.emplace_back([this] { work(); });
}

archive_intake::~archive_intake() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  bell_.notify_all();
  for (auto& t : threads_)
    t.join();
}

bool archive_intake::takes_long(const store_config& store, const std::string& which) {
  if (is_archive_url(which))
    return true;
  std::error_code ec;
  const auto path = store.path / which;
  return fs::is_regular_file(path, ec) && !is_zip(path);
}

result<void> archive_intake::take(std::string which, bool takes_present, done then) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= waiting_max)
      return fail(errc::overloaded, "{} archives wait to be read already", waiting_max);
    waiting_.push_back({std::move(which), takes_present, std::move(then)});
  }
  bell_.notify_one();
  return {};
}

void archive_intake::work() {
  for (;;) {
    job next;
    {
      std::unique_lock lock(mutex_);
      bell_.wait(lock, [this] { return is_stopping_ || !waiting_.empty(); });
      if (is_stopping_)
        return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    auto archive = read(next.which, next.takes_present);
    next.then(std::move(archive));
  }
}

result<model_archive> archive_intake::read(const std::string& which, bool takes_present) {
  if (!is_archive_url(which))
    return read_model_archive(store_.path / which);
  const std::string file(file_of_url(which));
  if (!is_archive_name(file))
    return fail(errc::invalid_request, "the URL {} names no archive: '{}' is no name of a file",
                which, file);
  std::error_code ec;
  if (takes_present && fs::exists(store_.path / file, ec))
    return read_model_archive(store_.path / file);
  if (auto ok = fetch(which, file); !ok)
    return ok.error();
  spdlog::info("{} was downloaded as {}", which, file);
  auto archive = read_model_archive(store_.path / file);
  if (!archive) {
    fs::remove(store_.path / file, ec);
    return archive;
  }
  archive->url = which;
  return archive;
}

result<void> archive_intake::fetch(const std::string& url, const std::string& file) {
  const auto output = memory_file::create("archive-fetch");
  if (!output)
    return output.error();
  const auto log = fmt::format("/proc/self/fd/{}", output->fd());
  auto ended = std::make_shared<std::promise<void>>();
  const auto pid = children_.start(fetch_command(store_, url, file, log),
                                   [ended](std::int32_t, const child_end&) { ended->set_value(); });
  if (!pid)
    return pid.error();
  const auto end = ended->get_future();
  const auto late = std::chrono::steady_clock::now() +
                    std::chrono::seconds(store_.download_timeout) + fetch_grace;
  while (end.wait_for(stop_look_interval) != std::future_status::ready) {
    bool is_stopping = false;
    {
      const std::lock_guard lock(mutex_);
      is_stopping = is_stopping_;
    }
    if (!is_stopping && std::chrono::steady_clock::now() < late)
      continue;
    children_.signal(*pid, SIGKILL);
    return fail(errc::invalid_request, "Failed to download archive from: {}: {}", url,
                is_stopping ? "the cluster stops" : "it takes too long");
  }
  return outcome_of_fetch(last_line(log), url);
}

} // namespace baton::cluster
