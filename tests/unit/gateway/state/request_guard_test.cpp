// Any exception in one request becomes an error of that request and goes no further.
#include "gateway/state/request_guard.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

using namespace baton;
using namespace baton::gateway;

TEST_CASE("work that succeeds has no fault") {
  int done = 0;
  CHECK_FALSE(guarded("http", [&] { ++done; }));
  CHECK_FALSE(guarded("http", [&] { return ++done; }));
  CHECK(done == 2);
}

TEST_CASE("any exception becomes one error, without its text") {
  const std::function<void()> throws[] = {
      [] { throw std::runtime_error("secret"); },
      [] { throw std::bad_alloc(); },
      [] { throw 5; },
      [] { (void)std::vector<int>(1).at(2); },
      [] { (void)std::stoi("x"); },
      [] { (void)nlohmann::json("\xff").dump(); },
      [] { [[maybe_unused]] const auto j = nlohmann::json::parse("{"); },
      [] { (void)nlohmann::json("a").get<int>(); },
      [] { (void)std::optional<int>().value(); },
  };
  for (const auto& work : throws) {
    const auto fault = guarded("http", work);
    REQUIRE(fault);
    CHECK(fault->code == errc::internal);
    CHECK(row_of(fault->code).http_status == 500);
    CHECK(fault->param.empty());
    CHECK(fault->message.find("secret") == std::string::npos);
  }
}
