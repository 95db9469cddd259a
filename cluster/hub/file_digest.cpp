#include "cluster/hub/file_digest.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::cluster {
namespace {

constexpr std::size_t read_bytes = 1u << 20;
constexpr std::chrono::milliseconds digest_look_interval{100};

struct free_digest {
  void operator()(EVP_MD_CTX* context) const noexcept { EVP_MD_CTX_free(context); }
};

// OpenSSL's digest; all calls after a failed one do nothing.
class digest {
public:
  explicit digest(const EVP_MD* kind)
      : context_(EVP_MD_CTX_new()),
        is_good_(context_ != nullptr && EVP_DigestInit_ex(context_.get(), kind, nullptr) == 1) {}

  void add(std::string_view bytes) {
    is_good_ = is_good_ && EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1;
  }
  // Lower-case hex digits; empty: a call has failed.
  std::string text() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> value{};
    unsigned size = 0;
    std::string digits;
    if (!is_good_ || EVP_DigestFinal_ex(context_.get(), value.data(), &size) != 1)
      return digits;
    for (unsigned i = 0; i < size; ++i)
      digits += fmt::format("{:02x}", value[i]);
    return digits;
  }

private:
  std::unique_ptr<EVP_MD_CTX, free_digest> context_;
  bool is_good_;
};

} // namespace

file_digest::file_digest(std::filesystem::path file, kind what, std::uint64_t bytes)
    : file_(std::move(file)), kind_(what), bytes_(bytes),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void file_digest::extend(std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    written_ = std::max(written_, bytes);
  }
  changed_.notify_all();
}

result<std::string> file_digest::wait(const digest_progress& on) {
  extend(bytes_);
  std::unique_lock lock(mutex_);
  do {
    const auto read = read_;
    lock.unlock();
    if (!on(read))
      return fail(errc::cancelled, "interrupted");
    lock.lock();
  } while (!changed_.wait_for(lock, digest_look_interval, [this] { return value_.has_value(); }));
  return *value_;
}

void file_digest::run(const std::stop_token& stop) {
  auto value = read_all(stop);
  {
    const std::lock_guard lock(mutex_);
    value_ = std::move(value);
  }
  changed_.notify_all();
}

std::uint64_t file_digest::wait_for_more(std::uint64_t read, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  read_ = read;
  changed_.wait(lock, stop, [&] { return written_ > read; });
  return stop.stop_requested() ? 0 : written_;
}

result<std::string> file_digest::read_all(const std::stop_token& stop) {
  const auto failed = [this] {
    return fail(errc::io_failed, "{}: its digest cannot be computed", file_.string());
  };
  digest sum(kind_ == kind::sha256 ? EVP_sha256() : EVP_sha1());
  if (kind_ == kind::git_sha1) {
    sum.add(fmt::format("blob {}", bytes_));
    sum.add(std::string_view("\0", 1));
  }
  std::ifstream in;
  in.rdbuf()->pubsetbuf(nullptr, 0); // a stream's buffer would hold bytes that are not written yet
  std::vector<char> buffer(read_bytes);
  for (std::uint64_t read = 0; read < bytes_;) {
    const auto end = std::min(wait_for_more(read, stop), bytes_);
    if (end == 0)
      return fail(errc::cancelled, "interrupted");
    if (!in.is_open())
      in.open(file_, std::ios::binary);
    const auto size = std::min<std::uint64_t>(buffer.size(), end - read);
    if (!in.read(buffer.data(), static_cast<std::streamsize>(size)))
      return failed();
    sum.add({buffer.data(), static_cast<std::size_t>(size)});
    read += size;
  }
  auto text = sum.text();
  if (text.empty())
    return failed();
  return text;
}

} // namespace baton::cluster
