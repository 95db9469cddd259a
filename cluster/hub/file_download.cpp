#include "cluster/hub/file_download.hpp"

#include "cluster/hub/file_digest.hpp"
#include "cluster/hub/hub_retry.hpp"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <map>
#include <optional>
#include <set>

namespace baton::cluster {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t parts_at_once = 4;
constexpr std::chrono::milliseconds transfer_look_interval{200};
constexpr int whole_status = 200, partial_status = 206;

// "bytes 0-99/1234"
struct content_range {
  std::uint64_t first = 0, bytes = 0;
};

std::optional<content_range> range_of(std::string_view header) {
  constexpr std::string_view unit = "bytes ";
  const auto slash = header.find('/');
  if (!header.starts_with(unit) || slash == header.npos)
    return std::nullopt;
  content_range r;
  const auto* const last = header.data() + header.size();
  const auto first = std::from_chars(header.data() + unit.size(), last, r.first);
  const auto all = std::from_chars(header.data() + slash + 1, last, r.bytes);
  if (first.ec != std::errc() || all.ec != std::errc() || all.ptr != last)
    return std::nullopt;
  return r;
}

//   in parts ---- the server answers a range with 200 ----> whole
class running_download {
public:
  running_download(const download_target& target, const hub_settings& settings,
                   const hub_events& events, download_progress shown, part_record& record)
      : target_(target), settings_(settings), events_(events), shown_(std::move(shown)),
        record_(record) {
    begin_digest();
  }

  result<void> run() {
    for (;;) {
      if (transfers_.running() == 0 && is_complete())
        return {};
      if (!events_.pause(pause_now()))
        return cut(fail(errc::cancelled, "interrupted"));
      if (auto ok = start_parts(); !ok)
        return cut(ok.error());
      const auto ended = transfers_.wait(transfer_look_interval);
      show();
      if (failed_)
        return cut(*failed_);
      if (is_without_ranges_ && !is_whole_) {
        transfers_.stop_all();
        active_.clear();
        is_whole_ = true;
        continue;
      }
      for (const auto& end : ended)
        if (auto ok = finish(end); !ok)
          return cut(ok.error());
    }
  }

  // Whether the bytes are those that the hub lists. Requires: run() has returned without an error.
  result<void> check_digest() {
    if (!digest_)
      return {};
    auto shown = shown_;
    shown.is_checking = true;
    const auto value = digest_->wait([&](std::uint64_t bytes) {
      shown.bytes = shown_.bytes + bytes;
      events_.progress(shown);
      return events_.pause(std::chrono::milliseconds(0));
    });
    if (!value)
      return value.error();
    const bool is_lfs = !target_.sha256.empty();
    const auto& wanted = is_lfs ? target_.sha256 : target_.sha1;
    if (*value != wanted)
      return fail(errc::bad_model_file, "{}: its {} is {}, and the hub lists {}", target_.what,
                  is_lfs ? "SHA-256" : "SHA-1 of git", *value, wanted);
    return {};
  }

private:
  // It covers what earlier processes have received, and then what arrives.
  void begin_digest() {
    digest_.reset();
    if (target_.sha256.empty() && target_.sha1.empty())
      return;
    digest_.emplace(target_.incomplete(),
                    target_.sha256.empty() ? file_digest::kind::git_sha1
                                           : file_digest::kind::sha256,
                    target_.from.bytes);
    digest_->extend(record_.done_from_start());
  }

  error cut(error why) {
    transfers_.stop_all();
    for (std::size_t i = 0; i < record_.parts().size(); ++i)
      if (auto ok = record_.flush(i); !ok)
        return ok.error();
    return why;
  }

  void show() {
    auto now = shown_;
    now.bytes += record_.done();
    events_.progress(now);
    if (digest_)
      digest_->extend(record_.done_from_start());
  }

  bool is_complete() const noexcept { return record_.done() == target_.from.bytes; }

  // Only if no transfer runs that would have to wait as well.
  std::chrono::milliseconds pause_now() const {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(not_before_ - hub_retry::clock::now());
    return transfers_.running() > 0 ? std::chrono::milliseconds(0)
                                    : std::max(left, std::chrono::milliseconds(0));
  }

  result<void> start_parts() {
    if (hub_retry::clock::now() < not_before_)
      return {};
    if (is_whole_)
      return transfers_.running() > 0 || is_complete() ? result<void>() : start_whole();
    const auto& parts = record_.parts();
    for (std::size_t i = 0; i < parts.size() && transfers_.running() < parts_at_once; ++i) {
      if (parts[i].is_done() || active_.contains(i))
        continue;
      const auto& p = parts[i];
      const byte_range range{p.first + p.done, p.first + p.bytes - 1};
      const auto ok = transfers_.start(
          i, request(range), [this, i, range](const http_response& r, std::string_view b) {
            return take_part(i, range, r, b);
          });
      if (!ok)
        return ok;
      active_.insert(i);
    }
    return {};
  }

  http_request request(std::optional<byte_range> range) const {
    return {.url = target_.from.url,
            .token = target_.from.token,
            .range = range,
            .silence_max = settings_.silence_max};
  }

  bool take_part(std::size_t number, const byte_range& asked, const http_response& r,
                 std::string_view bytes) {
    if (r.status == whole_status) {
      is_without_ranges_ = true;
      return false;
    }
    if (r.status != partial_status)
      return false; // an error, whose body is of no use
    const auto sent = range_of(r.header("content-range"));
    const auto& p = record_.parts()[number];
    if (!sent || sent->bytes != target_.from.bytes || sent->first != asked.first) {
      failed_ = fail(errc::bad_model_file,
                     "{}: the server was asked for the bytes from {} of {}, and sends '{}'",
                     target_.what, asked.first, target_.from.bytes, r.header("content-range"));
      return false;
    }
    return keep(number, bytes.substr(0, std::min(bytes.size(), p.bytes - p.done)));
  }

  bool keep(std::size_t number, std::string_view bytes) {
    if (auto ok = record_.append(number, bytes); !ok) {
      failed_ = fail(errc::io_failed, "{}: {}", target_.what, ok.error().message);
      return false;
    }
    retry_.on_progress();
    return true;
  }

  // From the first byte, in one transfer.
  result<void> start_whole() {
    if (auto ok = record_.clear(); !ok)
      return ok;
    begin_digest();
    return transfers_.start(0, request(std::nullopt),
                            [this](const http_response& r, std::string_view bytes) {
                              return r.status == whole_status && take_whole(bytes);
                            });
  }

  bool take_whole(std::string_view bytes) {
    const auto& parts = record_.parts();
    while (!bytes.empty()) {
      const auto next = std::find_if(parts.begin(), parts.end(),
                                     [](const download_part& p) { return !p.is_done(); });
      if (next == parts.end()) {
        failed_ = fail(errc::bad_model_file, "{}: the server sends more than its {} bytes",
                       target_.what, target_.from.bytes);
        return false;
      }
      const auto some = bytes.substr(0, std::min(bytes.size(), next->bytes - next->done));
      if (!keep(static_cast<std::size_t>(next - parts.begin()), some))
        return false;
      bytes.remove_prefix(some.size());
    }
    return true;
  }

  // A transfer has ended: with its part, or too early.
  result<void> finish(const transfer_end& end) {
    active_.erase(end.number);
    const bool is_good = end.cut.empty() && (end.response.status == partial_status ||
                                             end.response.status == whole_status);
    if (is_good && (is_whole_ ? is_complete() : record_.parts()[end.number].is_done()))
      return {};
    if (is_whole_ && attempts_whole_++ >= hub_retry::attempts_max)
      return hub_error(target_.what, end, settings_);
    auto how = end;
    if (is_good)
      how.cut = "the answer ends too early";
    const auto now = hub_retry::clock::now();
    if (now < not_before_ && is_transient(how)) // it ended with others, for the same reason
      return {};
    const auto pause = retry_.pause_after(how, now, std::time(nullptr));
    const auto why = hub_error(target_.what, how, settings_);
    if (!pause)
      return why;
    not_before_ = now + *pause;
    if (*pause > std::chrono::milliseconds(0))
      events_.note(fmt::format("{}; again in {} s", why.message,
                               std::chrono::duration<double>(*pause).count()));
    return {};
  }

  const download_target& target_;
  const hub_settings& settings_;
  const hub_events& events_;
  const download_progress shown_;
  part_record& record_;
  hub_retry retry_;
  hub_retry::clock::time_point not_before_{}; // the next transfer
  std::set<std::size_t> active_;              // parts with a transfer
  std::optional<error> failed_;               // in a callback of a transfer
  bool is_without_ranges_ = false;
  bool is_whole_ = false;
  std::uint32_t attempts_whole_ = 0;  // each begins anew, so that bytes are no progress
  std::optional<file_digest> digest_; // nothing: the hub lists none
  http_transfers transfers_;          // last: its callbacks use the members above
};

} // namespace

std::uint64_t download_target::present() const {
  return recorded_bytes(incomplete(), record(), from.bytes, from.etag);
}

result<void> download_file(const download_target& target, const hub_settings& settings,
                           const hub_events& events, download_progress before) {
  before.file = target.what;
  std::error_code ignored;
  for (bool is_again = false;; is_again = true) {
    auto record = part_record::open(target.incomplete(), target.record(), target.from.bytes,
                                    target.from.etag);
    if (!record)
      return record.error();
    const bool was_resumed = record->was_resumed();
    running_download running(target, settings, events, before, *record);
    if (auto ok = running.run(); !ok)
      return ok;
    const auto good = running.check_digest();
    if (good)
      break;
    if (good.error().code != errc::bad_model_file)
      return good;
    fs::remove(target.incomplete(), ignored);
    fs::remove(target.record(), ignored);
    // Bytes of an earlier process may be lost in a power cut: they are fetched again, once.
    if (!was_resumed || is_again)
      return good;
    events.note(good.error().message + "; the download begins anew");
  }
  std::error_code failed;
  fs::rename(target.incomplete(), target.file, failed);
  fs::remove(target.record(), ignored);
  return failed
             ? result<void>(fail(errc::io_failed, "{}: {}", target.file.string(), failed.message()))
             : result<void>();
}

} // namespace baton::cluster
