#include "gateway/routes/web_page.hpp"

#include "schema/result.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace baton::gateway {
namespace {

struct web_file {
  std::string_view name;
  std::string_view media;
  std::string_view tag; // quoted
  std::span<const unsigned char> bytes;
  std::span<const unsigned char> small; // by gzip
};

#include "gateway/web_files.inc"

constexpr std::string_view index_name = "index.html";
constexpr int not_modified = 304;

// The page loads nothing from other hosts, runs no inline script, and may not be framed.
constexpr std::string_view policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const web_file* find_file(std::string_view path) noexcept {
  const auto name =
      path == "/" ? index_name : path.substr(std::min(web_prefix.size(), path.size()));
  const auto it = std::find_if(web_files.begin(), web_files.end(),
                               [&](const web_file& f) { return f.name == name; });
  return it == web_files.end() ? nullptr : &*it;
}

// One tag or a list of them.
bool has_it(std::string_view if_none_match, std::string_view tag) noexcept {
  return if_none_match == "*" || if_none_match.find(tag) != std::string_view::npos;
}

// "gzip", "br, gzip;q=0.5"; not "gzip;q=0" (RFC 9110, section 12.5.3).
bool takes_gzip(std::string_view accept_encoding) noexcept {
  const auto at = accept_encoding.find("gzip");
  if (at == std::string_view::npos) {
    return false;
  }
  const auto weight = accept_encoding.substr(at, accept_encoding.find(',', at) - at);
  const auto q = weight.find("q=");
  return q == std::string_view::npos ||
         weight.find_first_of("123456789", q) != std::string_view::npos;
}

} // namespace

http_reply web_reply(std::string_view path, const web_wishes& wishes) {
  const auto* file = find_file(path);
  if (!file) {
    return error_reply(fail(errc::not_found, "the page has no such file"));
  }
  http_reply reply;
  reply.content_type = file->media;
  // The tag is weak: it identifies the content, whatever the encoding.
  reply.headers = {{"ETag", "W/" + std::string(file->tag)},
                   {"Cache-Control", "no-cache"}, // revalidated each time: an upgrade changes it
                   {"Vary", "Accept-Encoding"},
                   {"Content-Security-Policy", std::string(policy)},
                   {"Cross-Origin-Resource-Policy", "same-origin"},
                   {"Referrer-Policy", "no-referrer"},
                   {"X-Content-Type-Options", "nosniff"}};
  if (has_it(wishes.if_none_match, file->tag)) {
    reply.status = not_modified;
    return reply;
  }
  const bool is_small = takes_gzip(wishes.accept_encoding);
  if (is_small) {
    reply.headers.emplace_back("Content-Encoding", "gzip");
  }
  const auto bytes = is_small ? file->small : file->bytes;
  reply.body.assign(bytes.begin(), bytes.end());
  return reply;
}

} // namespace baton::gateway
