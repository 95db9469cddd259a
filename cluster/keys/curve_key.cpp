#include "cluster/keys/curve_key.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace baton::cluster {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view hex_digits = "0123456789abcdef";
constexpr std::string_view public_label = "public";
constexpr std::string_view secret_label = "secret";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

} // namespace

bool is_curve_key(std::string_view text) noexcept {
  return text.size() == 2 * curve_key_bytes &&
         text.find_first_not_of(hex_digits) == std::string_view::npos;
}

std::string key_bytes(std::string_view hex) {
  ENSURE(is_curve_key(hex), "a key was checked when it was read");
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(
        static_cast<char>((hex_digits.find(hex[i]) << 4) | hex_digits.find(hex[i + 1])));
  return bytes;
}

std::string key_text(std::string_view bytes) {
  std::string hex;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex.push_back(hex_digits[byte >> 4]);
    hex.push_back(hex_digits[byte & 15]);
  }
  return hex;
}

fs::path default_key_file() {
  const auto config = environment("XDG_CONFIG_HOME");
  return (config.empty() ? fs::path(environment("HOME")) / ".config" : fs::path(config)) / "baton" /
         "key";
}

result<key_pair> read_key_file(const fs::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0)
    return fail(errno == ENOENT ? errc::not_found : errc::io_failed, "{}: {}{}", file.string(),
                std::strerror(errno), errno == ENOENT ? ": `cluster keygen` makes a key" : "");
  if ((info.st_mode & 077) != 0)
    return fail(errc::io_failed,
                "{}: others may read it: chmod 600, unless they have read it already",
                file.string());
  std::ifstream in(file);
  key_pair pair;
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::string label;
    std::string key;
    if (!(fields >> label) || label.front() == '#')
      continue;
    fields >> key;
    if (label == public_label)
      pair.public_key = key;
    else if (label == secret_label)
      pair.secret_key = key;
    else
      return fail(errc::bad_config, "{}: '{}' is no line of a key file", file.string(), label);
  }
  if (!is_curve_key(pair.public_key) || !is_curve_key(pair.secret_key))
    return fail(errc::bad_config, "{}: holds no key pair (`cluster keygen`)", file.string());
  return pair;
}

result<void> write_key_file(const fs::path& file, const key_pair& pair) {
  std::error_code failed;
  if (file.has_parent_path())
    fs::create_directories(file.parent_path(), failed);
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0)
    return fail(errno == EEXIST ? errc::conflict : errc::io_failed, "{}: {}", file.string(),
                std::strerror(errno));
  const auto text =
      fmt::format("# Baton: this machine's key on the bus. The second line is secret: it is "
                  "this machine's identity.\n{} {}\n{} {}\n",
                  public_label, pair.public_key, secret_label, pair.secret_key);
  const auto written = ::write(fd, text.data(), text.size());
  const bool is_whole = written == static_cast<ssize_t>(text.size()) && ::fsync(fd) == 0;
  ::close(fd);
  if (!is_whole) {
    ::unlink(file.c_str());
    return fail(errc::io_failed, "{}: cannot be written", file.string());
  }
  return {};
}

std::string random_token() {
  std::array<char, 16> bytes{};
  ENSURE(::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
         "no random numbers: {}", std::strerror(errno));
  return key_text({bytes.data(), bytes.size()});
}

bool is_same_secret(std::string_view a, std::string_view b) noexcept {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

keyed_endpoint split_key(const std::string& endpoint) {
  const auto mark = endpoint.rfind('#');
  if (mark == std::string::npos || !is_curve_key(std::string_view(endpoint).substr(mark + 1)))
    return {endpoint, {}};
  return {endpoint.substr(0, mark), endpoint.substr(mark + 1)};
}

trusted_keys::trusted_keys(machine_keys keys, source read) : read_(std::move(read)) {
  take(std::move(keys));
}

void trusted_keys::take(machine_keys keys) const {
  keys_ = std::move(keys);
  const auto all = keys_.all();
  known_ = {all.begin(), all.end()};
}

bool trusted_keys::knows(const std::string& public_key) const {
  std::lock_guard lock(mutex_);
  return known_.contains(public_key);
}

bool trusted_keys::holds(const std::string& public_key) const {
  if (public_key.empty()) // no key presented
    return false;
  std::lock_guard lock(mutex_);
  if (!keys_.trusts(public_key) && read_)
    take(read_());
  return keys_.trusts(public_key);
}

std::string trusted_keys::next_after(const std::string& public_key) const {
  std::lock_guard lock(mutex_);
  if (read_) // the caller was refused with the known keys
    take(read_());
  return keys_.next_after(public_key);
}

void trusted_keys::replace(machine_keys keys) {
  std::lock_guard lock(mutex_);
  take(std::move(keys));
}

} // namespace baton::cluster
