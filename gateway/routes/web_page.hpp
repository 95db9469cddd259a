// The web page at "/": the files of gateway/web, which are embedded in the binary, as replies.
// Pure.
#pragma once

#include "gateway/base/http_text.hpp"

#include <string_view>

namespace baton::gateway {

// A file's name follows; the page itself is "/".
inline constexpr std::string_view web_prefix = "/page/";

// Headers of the browser's request.
struct web_wishes {
  std::string_view if_none_match;
  std::string_view accept_encoding;
};

// The file at `path`. 304 if the browser has it already, by its entity tag (RFC 9110, section
// 13.1.2). Errors: not_found.
http_reply web_reply(std::string_view path, const web_wishes& wishes);

} // namespace baton::gateway
