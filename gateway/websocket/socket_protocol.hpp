// What a WebSocket's client offers in Sec-WebSocket-Protocol (RFC 6455, section 11.3.4). A browser
// can set no other header of the upgrade, so its API key comes as one of the protocols that it
// offers, percent-encoded: "baton, bearer.KEY". The key is never among what the server answers.
// Pure.
#pragma once

#include <string>
#include <string_view>

namespace baton::gateway {

inline constexpr std::string_view socket_protocol = "baton";

// A client that offers protocols and hears none gives up: this one is chosen if it is among them.
bool offers_protocol(std::string_view offered) noexcept;
// Empty if there is none, or no percent-encoding.
std::string key_of_offer(std::string_view offered);

} // namespace baton::gateway
