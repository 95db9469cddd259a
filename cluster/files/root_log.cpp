#include "cluster/files/root_log.hpp"

#include "cluster/files/log_level.hpp"
#include "gateway/base/log_format.hpp"

#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/spdlog.h>

namespace baton::cluster {
namespace {

constexpr const char* root_logger = "root";

} // namespace

void silence_log() {
  spdlog::set_level(spdlog::level::off);
}

result<void> open_root_log(const run_dir& dir, const std::string& configured) {
  if (spdlog::default_logger() && spdlog::default_logger()->name() == root_logger)
    return {};
  const auto file = dir.log(root_logger).string();
  try {
    auto sink = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(file, root_log_bytes_max,
                                                                       root_log_files_max);
    auto logger = std::make_shared<spdlog::logger>(root_logger, std::move(sink));
    logger->set_formatter(gateway::log_format(/*has_colors=*/false));
    logger->flush_on(spdlog::level::trace); // keeps the log of a root that is killed
    // If the disk is full, spdlog would print errors over the progress on the terminal.
    logger->set_error_handler([](const std::string&) {});
    spdlog::set_default_logger(std::move(logger));
  } catch (const spdlog::spdlog_ex& e) {
    return fail(errc::io_failed, "{}: no log of the root: {}", file, e.what());
  }
  use_log_level(configured);
  return {};
}

} // namespace baton::cluster
