#include "cluster/hub/http_transfers.hpp"

#include <curl/curl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

namespace baton::cluster {
namespace {

constexpr long redirects_max = 5;
constexpr long connect_seconds_max = 10;
constexpr std::size_t headers_max = 128, header_bytes_max = 16384;

std::string lower(std::string_view text) {
  std::string all(text);
  std::transform(all.begin(), all.end(), all.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return all;
}

std::string_view without_spaces(std::string_view text) {
  constexpr std::string_view spaces = " \t\r\n";
  const auto first = text.find_first_not_of(spaces);
  return first == text.npos ? std::string_view()
                            : text.substr(first, text.find_last_not_of(spaces) - first + 1);
}

// Certificates of a proxy that opens TLS, under the names that curl and Python's requests know.
const char* certificates_of_environment() {
  for (const char* name : {"CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"})
    if (const char* file = std::getenv(name); file != nullptr && *file != 0)
      return file;
  return nullptr;
}

// The certificates of this machine: Debian, Fedora, openSUSE, Alpine. An installation carries
// Debian's libcurl, which knows Debian's file alone.
const char* certificates_of_machine() {
  for (const char* file : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"})
    if (access(file, R_OK) == 0)
      return file;
  return nullptr;
}

bool is_permanent(CURLcode code) noexcept {
  switch (code) {
  case CURLE_UNSUPPORTED_PROTOCOL:
  case CURLE_URL_MALFORMAT:
  case CURLE_TOO_MANY_REDIRECTS:
  case CURLE_PEER_FAILED_VERIFICATION:
  case CURLE_SSL_CACERT_BADFILE:
    return true;
  default:
    return false;
  }
}

} // namespace

std::string http_response::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

class http_transfers::transfer {
public:
  transfer(std::size_t number, sink to)
      : number_(number), to_(std::move(to)), easy_(curl_easy_init()) {}
  transfer(const transfer&) = delete;
  transfer& operator=(const transfer&) = delete;
  ~transfer() {
    curl_slist_free_all(headers_);
    curl_easy_cleanup(easy_);
  }

  CURL* easy() const noexcept { return easy_; }

  bool prepare(const http_request& r) {
    if (easy_ == nullptr)
      return false;
    const auto set = [this](CURLoption option, auto value) {
      return curl_easy_setopt(easy_, option, value) == CURLE_OK;
    };
    bool ok =
        set(CURLOPT_URL, r.url.c_str()) && set(CURLOPT_NOSIGNAL, 1L) &&
        set(CURLOPT_NOBODY, r.is_head ? 1L : 0L) &&
        set(CURLOPT_FOLLOWLOCATION, r.follows_redirects ? 1L : 0L) &&
        set(CURLOPT_MAXREDIRS, redirects_max) && set(CURLOPT_PROTOCOLS_STR, "http,https") &&
        set(CURLOPT_REDIR_PROTOCOLS_STR, r.url.starts_with("https:") ? "https" : "http,https") &&
        set(CURLOPT_CONNECTTIMEOUT, connect_seconds_max) && set(CURLOPT_LOW_SPEED_LIMIT, 1L) &&
        set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(r.silence_max.count())) &&
        set(CURLOPT_TIMEOUT, static_cast<long>(r.duration_max.count())) &&
        set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1)) &&
        set(CURLOPT_USERAGENT, "baton") && set(CURLOPT_ERRORBUFFER, why_) &&
        set(CURLOPT_WRITEFUNCTION, &transfer::on_body) && set(CURLOPT_WRITEDATA, this) &&
        set(CURLOPT_HEADERFUNCTION, &transfer::on_header) && set(CURLOPT_HEADERDATA, this);
    if (r.range)
      ok = ok && set(CURLOPT_RANGE, fmt::format("{}-{}", r.range->first, r.range->last).c_str());
    if (!r.token.empty()) {
      headers_ = curl_slist_append(nullptr, ("Authorization: Bearer " + r.token).c_str());
      ok = ok && headers_ != nullptr && set(CURLOPT_HTTPHEADER, headers_);
    }
    const char* file = certificates_of_environment();
    if (file == nullptr)
      file = certificates_of_machine();
    if (file != nullptr)
      ok = ok && set(CURLOPT_CAINFO, file);
    return ok;
  }

  transfer_end end(CURLcode code) {
    read_status();
    transfer_end e{number_, std::move(response_), {}, is_permanent(code)};
    if (code != CURLE_OK)
      e.cut = why_[0] != 0 ? why_ : curl_easy_strerror(code);
    return e;
  }

private:
  void read_status() noexcept {
    long status = 0;
    curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
    response_.status = static_cast<int>(status);
  }

  // libcurl's C code calls these two: no exception may leave them.
  static std::size_t on_body(char* data, std::size_t, std::size_t size, void* self) noexcept {
    auto& t = *static_cast<transfer*>(self);
    t.read_status();
    try {
      return t.to_(t.response_, {data, size}) ? size : 0;
    } catch (const std::exception&) {
      return 0;
    }
  }
  static std::size_t on_header(char* data, std::size_t, std::size_t size, void* self) noexcept {
    try {
      static_cast<transfer*>(self)->take_header({data, size});
      return size;
    } catch (const std::exception&) {
      return 0;
    }
  }
  void take_header(std::string_view line) {
    if (line.starts_with("HTTP/"))
      return response_.headers.clear(); // of a redirect, or of "100 Continue"
    const auto colon = line.find(':');
    if (colon != line.npos && response_.headers.size() < headers_max &&
        line.size() <= header_bytes_max)
      response_.headers[lower(without_spaces(line.substr(0, colon)))] =
          without_spaces(line.substr(colon + 1));
  }

  std::size_t number_;
  sink to_;
  CURL* easy_;
  curl_slist* headers_ = nullptr;
  http_response response_;
  char why_[CURL_ERROR_SIZE] = {};
};

http_transfers::http_transfers() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  multi_ = curl_multi_init();
}

http_transfers::~http_transfers() {
  stop_all();
  curl_multi_cleanup(multi_);
}

result<void> http_transfers::start(std::size_t number, const http_request& request, sink to) {
  auto t = std::make_unique<transfer>(number, std::move(to));
  if (multi_ == nullptr || !t->prepare(request) ||
      curl_multi_add_handle(multi_, t->easy()) != CURLM_OK)
    return fail(errc::internal, "libcurl cannot begin a transfer of {}", request.url);
  running_.push_back(std::move(t));
  return {};
}

std::vector<transfer_end> http_transfers::wait(std::chrono::milliseconds patience) {
  std::vector<transfer_end> ended;
  int active = 0, left = 0;
  curl_multi_perform(multi_, &active);
  if (active == static_cast<int>(running_.size())) {
    curl_multi_poll(multi_, nullptr, 0, static_cast<int>(patience.count()), nullptr);
    curl_multi_perform(multi_, &active);
  }
  while (const auto* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE)
      continue;
    const auto* easy = message->easy_handle;
    const auto code = message->data.result; // the message ends with its handle
    const auto found = std::find_if(running_.begin(), running_.end(),
                                    [&](const auto& t) { return t->easy() == easy; });
    if (found == running_.end())
      continue;
    ended.push_back((*found)->end(code));
    curl_multi_remove_handle(multi_, (*found)->easy());
    running_.erase(found);
  }
  return ended;
}

void http_transfers::stop_all() {
  for (const auto& t : running_)
    curl_multi_remove_handle(multi_, t->easy());
  running_.clear();
}

transfer_end fetch_once(const http_request& request, std::size_t bytes_max, std::string& body) {
  constexpr std::chrono::seconds look_interval{1};
  body.clear();
  http_transfers all;
  const auto started = all.start(0, request, [&](const http_response&, std::string_view bytes) {
    if (body.size() + bytes.size() > bytes_max)
      return false;
    body += bytes;
    return true;
  });
  if (!started)
    return {0, {}, started.error().message, true};
  for (;;)
    if (auto ended = all.wait(look_interval); !ended.empty())
      return std::move(ended.front());
}

} // namespace baton::cluster
