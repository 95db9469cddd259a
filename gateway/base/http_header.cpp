#include "gateway/base/http_header.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace baton::gateway {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

namespace {

// Empty: `text` does not begin with `prefix`.
std::optional<std::string_view> after_prefix(std::string_view prefix,
                                             std::string_view text) noexcept {
  const auto is_same = [](unsigned char a, unsigned char b) { return a == std::tolower(b); };
  if (text.size() < prefix.size() ||
      !std::equal(prefix.begin(), prefix.end(), text.begin(), is_same)) {
    return std::nullopt;
  }
  return text.substr(prefix.size());
}

} // namespace

std::optional<request_target> read_target(std::string_view method, std::string_view text) noexcept {
  if (text.starts_with('/') || (text == "*" && method == "OPTIONS")) {
    return request_target{text, {}};
  }
  auto rest = after_prefix("http://", text);
  rest = rest ? rest : after_prefix("https://", text);
  if (!rest) {
    return std::nullopt;
  }
  const auto end = std::min(rest->find_first_of("/?#"), rest->size());
  const auto authority = rest->substr(0, end);
  // A user name in the authority is an attempt to deceive (RFC 9110, section 4.2.4).
  if (authority.empty() || authority.find('@') != authority.npos) {
    return std::nullopt;
  }
  if (end < rest->size() && (*rest)[end] == '/') {
    return request_target{rest->substr(end), authority};
  }
  return request_target{method == "OPTIONS" ? "*" : "/", authority}; // the path is empty
}

std::string_view path_of(std::string_view target) noexcept {
  return target.substr(0, target.find_first_of("?#"));
}

bool is_like(std::string_view pattern, std::string_view path) noexcept {
  for (auto brace = pattern.find('{'); brace != pattern.npos; brace = pattern.find('{')) {
    if (path.substr(0, brace) != pattern.substr(0, brace)) {
      return false;
    }
    path.remove_prefix(brace);
    const auto part = std::min(path.find('/'), path.size());
    if (part == 0) {
      return false;
    }
    path.remove_prefix(part);
    pattern.remove_prefix(pattern.find('}') + 1);
  }
  return pattern == path;
}

bool is_foreign(std::string_view origin, std::string_view host) {
  if (origin.empty()) {
    return false;
  }
  const auto at = origin.find("://");
  return at == std::string_view::npos || lower(origin.substr(at + 3)) != lower(host);
}

bool is_wrong_media(std::string_view content_type, std::string_view encoding) {
  if (!encoding.empty() && lower(encoding) != "identity") {
    return true;
  }
  static constexpr std::array wrong{
      "multipart/",
      "image/",
      "audio/",
      "video/",
      "font/",
      "application/xml",
      "text/xml",
      "text/html",
      "application/pdf",
      "application/zip",
      "application/grpc",
      "application/octet-stream",
      "application/x-protobuf",
  };
  const auto type = lower(content_type);
  if (std::any_of(wrong.begin(), wrong.end(), [&](auto p) { return type.starts_with(p); })) {
    return true;
  }
  const auto charset = type.find("charset=");
  if (charset == std::string::npos) {
    return false;
  }
  auto value = type.substr(charset + 8);
  value.erase(std::remove(value.begin(), value.end(), '"'), value.end());
  return !value.starts_with("utf-8") && !value.starts_with("utf8") &&
         !value.starts_with("us-ascii");
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  const auto digit = [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) ? c - '0' : (c | 0x20) - 'a' + 10;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const bool is_hex = i + 2 < text.size() &&
                        std::isxdigit(static_cast<unsigned char>(text[i + 1])) &&
                        std::isxdigit(static_cast<unsigned char>(text[i + 2]));
    if (!is_hex) {
      return std::nullopt;
    }
    out += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
    i += 2;
  }
  return out;
}

bool is_local_name(std::string_view host) {
  const auto name =
      lower(host.substr(0, host.starts_with('[') ? host.find(']') + 1 : host.find(':')));
  const bool is_number = name.find_first_not_of("0123456789.") == std::string::npos;
  return name.empty() || name == "localhost" || name == "[::1]" ||
         (is_number && name.starts_with("127."));
}

} // namespace baton::gateway
