#include "cluster/hub/file_digest.hpp"

#include <openssl/evp.h>

#include <array>
#include <fstream>
#include <memory>
#include <string_view>
#include <vector>

namespace baton::cluster {
namespace {

constexpr std::size_t read_bytes = 1u << 20;

struct free_digest {
  void operator()(EVP_MD_CTX* context) const noexcept { EVP_MD_CTX_free(context); }
};

result<std::string> digest_of_file(const std::filesystem::path& file, const EVP_MD* kind,
                                   std::string_view before, const digest_progress& on) {
  const std::unique_ptr<EVP_MD_CTX, free_digest> context(EVP_MD_CTX_new());
  std::ifstream in(file, std::ios::binary);
  if (!in)
    return fail(errc::io_failed, "{}: cannot be read", file.string());
  bool ok = context != nullptr && EVP_DigestInit_ex(context.get(), kind, nullptr) == 1 &&
            EVP_DigestUpdate(context.get(), before.data(), before.size()) == 1;
  std::vector<char> buffer(read_bytes);
  std::uint64_t done = 0;
  while (ok && in) {
    in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    const auto got = static_cast<std::size_t>(in.gcount());
    ok = EVP_DigestUpdate(context.get(), buffer.data(), got) == 1;
    done += got;
    if (!on(done))
      return fail(errc::cancelled, "interrupted");
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (!ok || in.bad() || EVP_DigestFinal_ex(context.get(), digest.data(), &size) != 1)
    return fail(errc::io_failed, "{}: its digest cannot be computed", file.string());
  std::string text;
  for (unsigned i = 0; i < size; ++i)
    text += fmt::format("{:02x}", digest[i]);
  return text;
}

} // namespace

result<std::string> sha256_of_file(const std::filesystem::path& file, const digest_progress& on) {
  return digest_of_file(file, EVP_sha256(), {}, on);
}

result<std::string> git_sha1_of_file(const std::filesystem::path& file, const digest_progress& on) {
  std::error_code failed;
  const auto bytes = std::filesystem::file_size(file, failed);
  if (failed)
    return fail(errc::io_failed, "{}: {}", file.string(), failed.message());
  auto before = fmt::format("blob {}", bytes);
  before += '\0';
  return digest_of_file(file, EVP_sha1(), before, on);
}

} // namespace baton::cluster
