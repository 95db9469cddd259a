#include "cluster/hub/hub_client.hpp"

#include "cluster/files/json_text.hpp"
#include "cluster/hub/hub_cache.hpp"
#include "cluster/hub/hub_retry.hpp"

#include <nlohmann/json.hpp>

#include <charconv>
#include <ctime>
#include <optional>

namespace baton::cluster {
namespace {

using json = nlohmann::json;

constexpr std::size_t body_bytes_max = 64u << 20;
constexpr std::size_t pages_max = 200;
constexpr int relative_redirects_max = 5;
constexpr std::chrono::seconds question_seconds_max{120};
constexpr int unauthorized_status = 401, forbidden_status = 403, not_found_status = 404,
              too_many_status_code = 429;
constexpr std::string_view unreserved_marks = "-._~";

bool is_success(int status) noexcept {
  return status >= 200 && status < 300;
}
bool is_redirect(int status) noexcept {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// Percent-encoded, but for slashes where `keeps_slashes`.
std::string encoded(std::string_view text, bool keeps_slashes) {
  std::string all;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || unreserved_marks.find(c) != std::string::npos ||
                          (keeps_slashes && c == '/');
    all += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return all;
}

std::optional<std::uint64_t> number_in(const json& object, const char* member) {
  const auto found = object.is_object() ? object.find(member) : object.end();
  return found != object.end() && found->is_number_unsigned()
             ? std::optional(found->get<std::uint64_t>())
             : std::nullopt;
}

std::optional<std::uint64_t> number_of(const std::string& text) {
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return read.ec == std::errc() && !text.empty() ? std::optional(number) : std::nullopt;
}

// The next page in a Link header: <URL>; rel="next"
std::string next_page(const std::string& header) {
  const auto rel = header.find("rel=\"next\"");
  if (rel == header.npos)
    return {};
  const auto from = header.rfind('<', rel), to = header.find('>', from == header.npos ? 0 : from);
  return from == header.npos || to > rel ? std::string() : header.substr(from + 1, to - from - 1);
}

std::optional<hub_file> file_of(const json& entry) {
  hub_file file{text_member(entry, "path"),
                number_in(entry, "size").value_or(0),
                text_member(entry, "oid"),
                {}};
  if (const auto lfs = entry.find("lfs"); lfs != entry.end() && lfs->is_object()) {
    file.sha256 = text_member(*lfs, "oid");
    file.bytes = number_in(*lfs, "size").value_or(file.bytes);
  }
  return is_file_path(file.path) ? std::optional(std::move(file)) : std::nullopt;
}

// "https://host:port" of a URL
std::string_view origin_of(std::string_view url) noexcept {
  const auto host = url.find("://");
  return host == url.npos ? url : url.substr(0, url.find('/', host + 3));
}

std::string token_advice(const hub_settings& settings) {
  return settings.token.empty() ? "set HF_TOKEN to a token that may read it"
                                : "the token that was sent may not read it";
}

} // namespace

error hub_error(const std::string& what, const transfer_end& end, const hub_settings& settings) {
  if (end.response.status == 0 || (is_success(end.response.status) && !end.cut.empty()))
    return fail(errc::io_failed, "{}: {}", what, end.cut);
  const auto code = end.response.header("x-error-code");
  auto detail = end.response.header("x-error-message");
  detail = detail.empty() ? "" : fmt::format(" ({})", detail);
  const auto status = end.response.status;
  if (code == "GatedRepo")
    return fail(status == unauthorized_status ? errc::unauthorized : errc::forbidden,
                "{}: the repository is gated: accept its conditions on its page of {}, and {}{}",
                what, settings.endpoint, token_advice(settings), detail);
  switch (status) {
  case unauthorized_status:
    return fail(errc::unauthorized,
                "{}: the hub answers 401: there is no such repository, or it is private or gated: "
                "{}{}",
                what, token_advice(settings), detail);
  case forbidden_status:
    return fail(errc::forbidden, "{}: the hub answers 403: it is private or gated: {}{}", what,
                token_advice(settings), detail);
  case not_found_status:
    return fail(errc::not_found, "{}: the hub has no such {}{}", what,
                code == "RevisionNotFound" ? "revision"
                : code == "EntryNotFound"  ? "file"
                                           : "repository, revision or file",
                detail);
  case too_many_status_code:
    return fail(errc::rate_limit_exceeded,
                "{}: the hub still answers 429 (too many requests); Retry-After: {}{}", what,
                end.response.header("retry-after").empty() ? "none"
                                                           : end.response.header("retry-after"),
                detail);
  default:
    return fail(errc::io_failed, "{}: the hub answers {}{}", what, status, detail);
  }
}

result<hub_client::answer> hub_client::ask(http_request request, const std::string& what) const {
  request.silence_max = settings_.silence_max;
  request.duration_max = question_seconds_max;
  hub_retry retry;
  for (;;) {
    answer a;
    auto end = fetch_once(request, body_bytes_max, a.body);
    const bool is_answer = end.cut.empty() && end.response.status < 400;
    if (is_answer) {
      a.response = std::move(end.response);
      return a;
    }
    const auto pause = retry.pause_after(end, hub_retry::clock::now(), std::time(nullptr));
    auto why = hub_error(what, end, settings_);
    if (!pause)
      return why;
    events_.note(fmt::format("{}; again in {} s", why.message,
                             std::chrono::duration<double>(*pause).count()));
    if (!events_.pause(*pause))
      return fail(errc::cancelled, "interrupted");
  }
}

result<std::string> hub_client::commit_of(const std::string& repository,
                                          const std::string& revision) const {
  const auto what = fmt::format("{}@{}", repository, revision);
  const auto got = ask({.url = fmt::format("{}/api/models/{}/revision/{}", settings_.endpoint,
                                           repository, encoded(revision, false)),
                        .token = settings_.token},
                       what);
  if (!got)
    return got.error();
  auto commit = text_member(json::parse(got->body, nullptr, /*allow_exceptions=*/false), "sha");
  if (!is_commit(commit))
    return fail(errc::io_failed, "{}: the hub's answer names no commit", what);
  return commit;
}

result<std::vector<hub_file>> hub_client::files(const std::string& repository,
                                                const std::string& commit) const {
  std::vector<hub_file> all;
  auto url = fmt::format("{}/api/models/{}/tree/{}?recursive=1", settings_.endpoint, repository,
                         encoded(commit, false));
  for (std::size_t page = 0; !url.empty() && page < pages_max; ++page) {
    const auto got = ask({.url = url, .token = settings_.token}, repository);
    if (!got)
      return got.error();
    const auto entries = json::parse(got->body, nullptr, /*allow_exceptions=*/false);
    if (!entries.is_array())
      return fail(errc::io_failed, "{}: the hub's answer is no list of files", repository);
    for (const auto& entry : entries) {
      if (text_member(entry, "type") != "file")
        continue;
      auto file = file_of(entry);
      if (!file)
        return fail(errc::io_failed, "{}: the hub lists a file with the name '{}'", repository,
                    text_member(entry, "path"));
      all.push_back(*std::move(file));
    }
    url = next_page(got->response.header("link"));
    if (!url.empty() && origin_of(url) != origin_of(settings_.endpoint))
      return fail(errc::io_failed, "{}: the next page of its files is at another host: {}",
                  repository, url);
  }
  return all;
}

result<remote_blob> hub_client::blob(const std::string& repository, const std::string& commit,
                                     const hub_file& file) const {
  const auto what = fmt::format("{}/{}", repository, file.path);
  remote_blob blob{fmt::format("{}/{}/resolve/{}/{}", settings_.endpoint, repository,
                               encoded(commit, false), encoded(file.path, true)),
                   settings_.token,
                   {},
                   0};
  // A renamed repository redirects to a path of the same host. A redirect to another host leads to
  // the bytes of a file in LFS, and the facts are in its own headers.
  auto url = blob.url;
  for (int i = 0; i < relative_redirects_max; ++i) {
    const auto got = ask(
        {.url = url, .is_head = true, .follows_redirects = false, .token = settings_.token}, what);
    if (!got)
      return got.error();
    const auto& r = got->response;
    const auto to = r.header("location");
    if (is_redirect(r.status) && to.starts_with('/')) {
      url = std::string(origin_of(url)) + to;
      continue;
    }
    const auto linked = r.header("x-linked-etag");
    blob.etag = bare_etag(linked.empty() ? r.header("etag") : linked);
    const auto linked_size = r.header("x-linked-size");
    const auto bytes = number_of(
        !linked_size.empty() || is_redirect(r.status) ? linked_size : r.header("content-length"));
    if (!is_etag(blob.etag))
      return fail(errc::io_failed, "{}: the hub's answer has no ETag", what);
    if (bytes && file.bytes != *bytes)
      return fail(errc::io_failed, "{}: the hub lists {} bytes and offers {}", what, file.bytes,
                  *bytes);
    if (!file.sha256.empty() && blob.etag.size() == file.sha256.size() && blob.etag != file.sha256)
      return fail(errc::io_failed, "{}: the hub lists the SHA-256 {} and offers {}", what,
                  file.sha256, blob.etag);
    const auto sent = r.header("x-repo-commit");
    if (!sent.empty() && sent != commit)
      return fail(errc::io_failed, "{}: the hub offers it of the commit {}, not {}", what, sent,
                  commit);
    blob.url = url;
    blob.bytes = file.bytes;
    return blob;
  }
  return fail(errc::io_failed, "{}: more than {} redirects", what, relative_redirects_max);
}

result<remote_blob> hub_client::blob_at(const std::string& url) const {
  const auto got = ask({.url = url, .is_head = true}, url);
  if (!got)
    return got.error();
  const auto bytes = number_of(got->response.header("content-length"));
  if (!bytes)
    return fail(errc::io_failed, "{}: the server does not report the file's size", url);
  return remote_blob{url, {}, bare_etag(got->response.header("etag")), *bytes};
}

} // namespace baton::cluster
