#include "cluster/hub/header_check.hpp"

#include "cluster/files/memory_file.hpp"
#include "runtime/model/description.hpp"
#include "runtime/model/gguf/gguf.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace baton::cluster {
namespace {

constexpr std::uint64_t header_growth = 4;
constexpr std::chrono::seconds header_seconds_max{60};
constexpr int range_status = 206;

result<remote_blob> blob_of(const pull_plan& plan, const hub_settings& settings,
                            const hub_events& events) {
  const hub_client client(settings, events);
  if (plan.reference.from == model_reference::source::url)
    return client.blob_at(plan.reference.text);
  return client.blob(plan.reference.repository, plan.commit, plan.choice.files.front());
}

// Appends [text.size(), end) of the file. False: the server sent something else.
bool append_range(std::string& text, std::uint64_t end, const remote_blob& from,
                  const hub_settings& settings) {
  std::string body;
  const auto got = fetch_once({.url = from.url,
                               .token = from.token,
                               .range = byte_range{text.size(), end - 1},
                               .silence_max = settings.silence_max,
                               .duration_max = header_seconds_max},
                              end - text.size(), body);
  const auto wanted = std::min(end, from.bytes) - text.size();
  if (!got.cut.empty() || got.response.status != range_status || body.size() != wanted)
    return false;
  text += body;
  return true;
}

} // namespace

result<void> check_header_bytes(std::span<const char> beginning, std::uint64_t file_bytes) {
  const auto memory = memory_file::create("baton-header");
  if (!memory)
    return memory.error();
  while (!beginning.empty()) {
    const auto n = write(memory->fd(), beginning.data(), beginning.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return fail(errc::io_failed, "no memory for a header: {}", std::strerror(errno));
    beginning = beginning.subspan(static_cast<std::size_t>(n));
  }
  const auto file =
      model::gguf_file::open_header(fmt::format("/proc/self/fd/{}", memory->fd()), file_bytes);
  if (!file)
    return file.error();
  const auto model = model::describe(*file);
  return model ? result<void>() : model.error();
}

result<void> check_header(const pull_plan& plan, const hub_settings& settings,
                          const hub_events& events) {
  if (plan.choice.gguf.empty() || plan.bytes_missing == 0)
    return {};
  const auto from = blob_of(plan, settings, events);
  if (!from)
    return {};
  std::string beginning;
  for (auto end = checked_step_bytes; end <= checked_bytes_max; end *= header_growth) {
    if (!append_range(beginning, end, *from, settings))
      return {};
    const auto ok = check_header_bytes(beginning, from->bytes);
    if (ok)
      return {};
    const auto code = ok.error().code;
    if (code == errc::unsupported_model || code == errc::bad_model_file)
      return fail(code, "{}: {} does not run here, and is not downloaded: {}",
                  text_of(plan.reference), plan.choice.gguf, ok.error().message);
    if (code != errc::not_ready || beginning.size() == from->bytes)
      return {};
  }
  return {};
}

} // namespace baton::cluster
