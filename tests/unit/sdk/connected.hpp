// A client of a scripted server.
#pragma once

#include "sdk/cpp/baton/client.hpp"
#include "tests/unit/sdk/fake_server.hpp"

#include <doctest/doctest.h>

#include <utility>

namespace baton::test {

inline constexpr auto patience = std::chrono::milliseconds{5000};

inline client connected(const fake_server& server, const client_options& options = {}) {
  auto made = client::connect(server.endpoint(), options);
  REQUIRE_MESSAGE(made, made.error().message);
  return std::move(*made);
}

// A script that never answers.
inline void silent(fake_server&, fake_server::peer&, const message&) {}

} // namespace baton::test
