#include "cluster/hub/header_check.hpp"

#include "cluster/files/memory_file.hpp"
#include "runtime/model/description.hpp"
#include "runtime/model/gguf/gguf.hpp"
#include "runtime/text/vocabulary/vocabulary_gguf.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

namespace baton::cluster {
namespace {

constexpr std::uint64_t header_growth = 4;
constexpr std::chrono::seconds header_seconds_max{60};
constexpr int range_status = 206;

// The bytes of a file of the plan.
result<remote_blob> blob_of(const pull_plan& plan, std::size_t file, const hub_settings& settings,
                            const hub_events& events) {
  const hub_client client(settings, events);
  if (plan.reference.from == model_reference::source::url)
    return client.blob_at(urls_of_model(plan.reference.text).at(file));
  return client.blob(plan.reference.repository, plan.commit, plan.choice.files.at(file));
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

// The header in the first bytes of a file. Errors: as check_header_bytes.
result<model::gguf_file> header_in(std::span<const char> beginning, std::uint64_t file_bytes) {
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
  return model::gguf_file::open_header(fmt::format("/proc/self/fd/{}", memory->fd()), file_bytes);
}

// Errors: those of the header, and not_ready (the server sends no ranges, or the header is long).
result<model::gguf_file> header_of(const remote_blob& from, const hub_settings& settings) {
  std::string beginning;
  for (auto end = checked_step_bytes; end <= checked_bytes_max; end *= header_growth) {
    if (!append_range(beginning, end, from, settings))
      break;
    auto file = header_in(beginning, from.bytes);
    if (file || file.error().code != errc::not_ready || beginning.size() == from.bytes)
      return file;
  }
  return fail(errc::not_ready, "the header is not read");
}

// The headers of all parts as one model.
result<model::gguf_file> headers_of(const pull_plan& plan, const hub_settings& settings,
                                    const hub_events& events) {
  std::optional<model::gguf_file> all;
  for (std::size_t i = 0; i < plan.choice.files.size(); ++i) {
    const auto from = blob_of(plan, i, settings, events);
    auto part =
        from ? header_of(*from, settings) : result<model::gguf_file>(fail(errc::not_ready, "no"));
    if (!part)
      return part;
    if (!all) {
      all.emplace(*std::move(part));
    } else if (auto ok = all->add_part(*std::move(part)); !ok) {
      return fail(ok.error().code, "{}: {}", plan.choice.files[i].path, ok.error().message);
    }
  }
  if (auto ok = all->check_parts(); !ok)
    return ok.error();
  return *std::move(all);
}

// A model whose kind of tokenizer is not read would be refused only after its download.
result<void> check_contents(const model::gguf_file& file) {
  if (const auto model = model::describe(file); !model)
    return model.error();
  const auto tokenizer = text::tokenizer_model_of(file);
  if (!tokenizer && tokenizer.error().code == errc::unsupported_model)
    return tokenizer.error();
  return {};
}

} // namespace

result<void> check_header_bytes(std::span<const char> beginning, std::uint64_t file_bytes) {
  const auto file = header_in(beginning, file_bytes);
  if (!file)
    return file.error();
  return check_contents(*file);
}

result<void> check_header(const pull_plan& plan, const hub_settings& settings,
                          const hub_events& events) {
  if (plan.choice.gguf.empty() || plan.bytes_missing == 0)
    return {};
  const auto file = headers_of(plan, settings, events);
  const auto checked = file ? check_contents(*file) : result<void>(file.error());
  if (checked)
    return {};
  const auto code = checked.error().code;
  if (code != errc::unsupported_model && code != errc::bad_model_file)
    return {};
  return fail(code, "{}: {} does not run here, and is not downloaded: {}", text_of(plan.reference),
              plan.choice.gguf, checked.error().message);
}

} // namespace baton::cluster
