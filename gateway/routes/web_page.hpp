// The web page at "/": files of gateway/web that travel inside the binary, as replies. Pure.
#pragma once

#include "gateway/base/http_text.hpp"

#include <string_view>

namespace baton::gateway {

// Behind it the names of the files; the page itself is "/".
inline constexpr std::string_view web_prefix = "/page/";

// What a browser says of itself, as its headers have it.
struct web_wishes {
  std::string_view if_none_match;
  std::string_view accept_encoding;
};

// What `path` names. A browser that has it already, by its entity tag, is told so (304; RFC 9110,
// section 13.1.2). Errors: not_found.
http_reply web_reply(std::string_view path, const web_wishes& wishes);

} // namespace baton::gateway
