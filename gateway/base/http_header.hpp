// Checks and parsing of a request's header, before a route is chosen. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace baton::gateway {

std::string lower(std::string_view text); // ASCII letters only
// The target of a request line (RFC 9112, section 3.2), as if it came in origin-form.
struct request_target {
  std::string_view target;    // "/v1/models?x=1"; "*" only for OPTIONS
  std::string_view authority; // of absolute-form: replaces the Host header
};
// Empty: not a form that an http or https server accepts.
std::optional<request_target> read_target(std::string_view method, std::string_view text) noexcept;
std::string_view path_of(std::string_view target) noexcept;
// Whether the path matches the route. A name in braces matches one part that is not empty.
bool is_like(std::string_view pattern, std::string_view path) noexcept;
// Whether the request comes from a page of another site, which must not use a server on its
// visitor's machine. Clients that are not browsers send no Origin.
bool is_foreign(std::string_view origin, std::string_view host);
// True only if clearly not JSON: curl -d sends application/x-www-form-urlencoded, others send
// nothing.
bool is_wrong_media(std::string_view content_type, std::string_view encoding);
// Whether `host`, with or without a port, is a name of this machine itself. A foreign name that its
// owner points at this machine (DNS rebinding) is not local.
bool is_local_name(std::string_view host);
// Empty if `text` is not valid percent-encoding (RFC 3986, section 2.1).
std::optional<std::string> percent_decoded(std::string_view text);

} // namespace baton::gateway
