#include "cluster/config/readers/api_key_file.hpp"

#include "cluster/config/config.hpp"
#include "cluster/config/readers/config_error.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "cluster/formats/toml_section.hpp"
#include "cluster/keys/curve_key.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>

namespace baton::cluster {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t keys_max = 1024; // a presented key is compared with all of them
constexpr std::size_t digests_max = 4; // per name; rotating a key needs two
constexpr std::uint64_t quota_max = 1u << 31;
constexpr std::string_view key_prefix = "baton_";

result<gateway::key_role> read_role(const std::string& text, const std::string& path,
                                    const std::string& origin) {
  if (text == "user")
    return gateway::key_role::user;
  if (text == "admin")
    return gateway::key_role::admin;
  return bad_key(origin, path + ".role",
                 fmt::format("{}.role is '{}': use \"user\" or \"admin\"", path, text));
}

result<gateway::api_key> read_key(const toml::table* table, const std::string& path,
                                  const std::string& origin) {
  gateway::api_key key;
  std::string role = "user";
  std::vector<std::string> digests;
  toml_section s(table, path, origin);
  s.read("name", key.name);
  s.read("role", role);
  s.read("sha256", digests);
  s.read("requests_per_minute", key.quotas.requests_per_minute, 1, quota_max);
  s.read("concurrent_requests", key.quotas.concurrent_requests, 1, quota_max);
  s.read("tokens_per_minute", key.quotas.tokens_per_minute, 1, quota_max);
  if (auto ok = s.finish(); !ok)
    return ok.error();
  if (!is_name(key.name))
    return bad_key(origin, path + ".name", path + ".name must be 1 to 64 of [A-Za-z0-9._-]");
  auto read = read_role(role, path, origin);
  if (!read)
    return read.error();
  key.role = *read;
  if (digests.empty() || digests.size() > digests_max)
    return bad_key(origin, path + ".sha256",
                   fmt::format("{}.sha256 must be a list of 1 to {}", path, digests_max));
  for (const auto& text : digests) {
    const auto digest = gateway::digest_from_hex(text);
    if (!digest)
      return bad_key(origin, path + ".sha256",
                     path +
                         ".sha256 must be 64 hex digits, as `cluster keygen --api` prints them; it "
                         "is not the key itself");
    key.digests.push_back(*digest);
  }
  return key;
}

result<std::vector<gateway::api_key>> read_keys(const toml::table& root,
                                                const std::string& origin) {
  std::vector<gateway::api_key> keys;
  toml_section top(&root, "", origin);
  const auto* node = top.take("keys");
  if (auto ok = top.finish(); !ok)
    return ok.error();
  if (!node)
    return keys;
  const auto* array = node->as_array();
  if (!array || array->size() > keys_max)
    return bad_key(origin, "keys",
                   fmt::format("keys must be at most {} [[keys]] tables", keys_max));
  std::set<std::string> names;
  std::set<gateway::key_digest> digests;
  for (std::size_t i = 0; i < array->size(); ++i) {
    const auto path = fmt::format("keys[{}]", i);
    const auto* table = array->get(i)->as_table();
    if (!table)
      return bad_key(origin, path, path + " must be a table: [[keys]]");
    auto key = read_key(table, path, origin);
    if (!key)
      return key.error();
    if (!names.insert(key->name).second)
      return bad_key(origin, path + ".name", fmt::format("two keys are named '{}'", key->name));
    for (const auto& digest : key->digests)
      if (!digests.insert(digest).second)
        return bad_key(origin, path + ".sha256",
                       fmt::format("{}.sha256 is in this file twice", path));
    keys.push_back(std::move(*key));
  }
  return keys;
}

// Atomic: concurrent readers never see a partial file.
result<void> replace_file(const fs::path& file, const std::string& text) {
  struct stat info {};
  const auto mode = ::stat(file.c_str(), &info) == 0 ? info.st_mode & 0777 : 0600;
  const auto next = fs::path(fmt::format("{}.{}", file.string(), getpid()));
  const int fd = ::open(next.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0)
    return fail(errc::io_failed, "{}: {}", next.string(), std::strerror(errno));
  const bool is_whole =
      ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fsync(fd) == 0;
  ::close(fd);
  if (is_whole && ::rename(next.c_str(), file.c_str()) == 0)
    return {};
  const int why = errno;
  ::unlink(next.c_str());
  return fail(errc::io_failed, "{}: {}", file.string(), std::strerror(why));
}

} // namespace

result<std::vector<gateway::api_key>> parse_api_keys(std::string_view text,
                                                     const std::string& origin) {
  auto root = parse_toml(text, origin);
  return root ? read_keys(*root, origin) : root.error();
}

result<std::vector<gateway::api_key>> load_api_keys(const fs::path& file) {
  auto text = read_config_file(file);
  return text ? parse_api_keys(*text, file.string()) : text.error();
}

std::string make_api_key() {
  return std::string(key_prefix) + random_token() + random_token();
}

std::string api_key_table(const std::string& name, gateway::key_role role, const std::string& key) {
  return fmt::format("[[keys]]\nname = \"{}\"\nrole = \"{}\"\nsha256 = [\"{}\"]\n", name,
                     role == gateway::key_role::admin ? "admin" : "user",
                     gateway::hex_of(gateway::digest_of_key(key)));
}

result<void> add_api_key(const fs::path& file, const std::string& name, gateway::key_role role,
                         const std::string& key) {
  std::string text = "# Baton: who may use the gateway. The keys themselves are not in here.\n";
  std::error_code failed;
  if (fs::exists(file, failed)) {
    auto known = load_api_keys(file);
    if (!known)
      return known.error();
    for (const auto& one : *known)
      if (one.name == name)
        return fail(errc::conflict,
                    "{}: '{}' has a key: add the sha256 of a new one to its list, and remove the "
                    "old one when it is no longer used",
                    file.string(), name);
    auto before = read_config_file(file);
    if (!before)
      return before.error();
    text = *before;
  }
  text += (text.ends_with('\n') ? "\n" : "\n\n") + api_key_table(name, role, key);
  if (auto ok = parse_api_keys(text, file.string()); !ok)
    return ok.error();
  return replace_file(file, text);
}

} // namespace baton::cluster
