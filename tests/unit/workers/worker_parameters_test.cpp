// KServe's `priority` and `timeout`, as clients send them.
#include "gateway/workers/worker_parameters.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::gateway;
using namespace std::chrono_literals;

namespace {

schedule::worker_limits with(std::uint32_t levels, bool allow_timeout_override) {
  schedule::worker_limits limits;
  limits.priority_levels = levels;
  limits.default_queue_policy.allow_timeout_override = allow_timeout_override;
  return limits;
}

result<schedule::worker_queue::new_request>
read(const std::string& parameters, const schedule::worker_limits& limits = with(3, true)) {
  infer request;
  request.parameters = parameters;
  schedule::worker_queue::new_request into;
  if (auto ok = read_queue_parameters(request, limits, into); !ok)
    return ok.error();
  return into;
}

} // namespace

TEST_CASE("priority and timeout are read if the model has them") {
  const auto both = read(R"({"priority": 2, "timeout": 1500, "other": [1]})");
  REQUIRE(both);
  CHECK(both->priority == 2);
  CHECK(both->queue_timeout == 1500us);
  for (const auto* none : {"", "{}", R"({"priority": 0, "timeout": 0})"}) {
    const auto read_none = read(none);
    REQUIRE(read_none);
    CHECK(read_none->priority == 0);
    CHECK(read_none->queue_timeout == 0us);
  }
}

TEST_CASE("if the model has none, they belong to the handler") {
  for (const auto* own : {R"({"priority": "high", "timeout": -1})", "no JSON"})
    CHECK(read(own, with(0, false)));
  const auto timeout = read(R"({"priority": "high", "timeout": 3})", with(0, true));
  REQUIRE(timeout);
  CHECK(timeout->priority == 0);
  CHECK(timeout->queue_timeout == 3us);
  CHECK(read(R"({"priority": 1, "timeout": "soon"})", with(1, false)));
}

TEST_CASE("one level that allows a timeout is enough for it to be read") {
  auto limits = with(2, false);
  limits.priority_queue_policy[2].allow_timeout_override = true;
  const auto one = read(R"({"timeout": 9})", limits);
  REQUIRE(one);
  CHECK(one->queue_timeout == 9us);
}

TEST_CASE("values out of range are refused by their name") {
  const std::pair<const char*, const char*> wrong[] = {
      {R"({"priority": 4})", "priority"},
      {R"({"priority": -1})", "priority"},
      {R"({"priority": "1"})", "priority"},
      {R"({"priority": 1.5})", "priority"},
      {R"({"timeout": true})", "timeout"},
      {R"({"timeout": 86400000001})", "timeout"},
      {R"({"timeout": 18446744073709551616})", "timeout"},
      {"[]", "parameters"},
      {"{", "parameters"},
  };
  for (const auto& [parameters, param] : wrong) {
    CAPTURE(parameters);
    const auto refused = read(parameters);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == errc::invalid_value);
    CHECK(refused.error().param == param);
  }
}
