// The protocols offered in Sec-WebSocket-Protocol (RFC 6455, section 11.3.4). A browser can set no
// other header of the upgrade. So it sends its API key as one of the protocols, percent-encoded:
// "baton, bearer.KEY". The server never selects the key as the protocol. Pure.
#pragma once

#include <string>
#include <string_view>

namespace baton::gateway {

inline constexpr std::string_view socket_protocol = "baton";

// A client that offers protocols fails if none is selected. "baton" is selected if it is offered.
bool offers_protocol(std::string_view offered) noexcept;
// Empty if no key is offered or its percent-encoding is invalid.
std::string key_of_offer(std::string_view offered);

} // namespace baton::gateway
