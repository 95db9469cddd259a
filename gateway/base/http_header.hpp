// What the head of a request says that decides whether it is listened to, and by which route. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace baton::gateway {

std::string lower(std::string_view text); // ASCII's letters
// What a request line names (RFC 9112, section 3.2), as if it came in origin-form.
struct request_target {
  std::string_view target;    // "/v1/models?x=1"; "*" of OPTIONS alone
  std::string_view authority; // of absolute-form: it stands for what Host says
};
// Nothing: it is in none of the forms that are for a server of http and https.
std::optional<request_target> read_target(std::string_view method, std::string_view text) noexcept;
std::string_view path_of(std::string_view target) noexcept;
// Whether a path is of a route: what stands in braces stands for one part that is not empty.
bool is_like(std::string_view pattern, std::string_view path) noexcept;
// A page of another site must not use a server on its visitor's machine. Clients that are no
// browsers send no Origin.
bool is_foreign(std::string_view origin, std::string_view host);
// Only what is clearly no JSON: curl -d says application/x-www-form-urlencoded, others say nothing.
bool is_wrong_media(std::string_view content_type, std::string_view encoding);
// A page of a name that its owner has pointed at this machine is no page of this machine. `host`:
// with its port or without.
bool is_local_name(std::string_view host);
// Nothing if `text` is not percent-encoded (RFC 3986, section 2.1).
std::optional<std::string> percent_decoded(std::string_view text);

} // namespace baton::gateway
