// Whether a gateway knows who serves: from its start on, and each time that a head becomes ready.
#include "gateway/state/gateway_state.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::gateway;

TEST_CASE("a gateway is informed until a ready head owes it the model card") {
  gateway_config config;
  config.pipelines.resize(1);
  gateway_state state(config);
  CHECK_FALSE(state.is_informed()); // it is new
  const auto report_head = [&](phase p) {
    state.change([&](snapshot& s) {
      s.pipelines[0].head.emplace();
      s.pipelines[0].head->phase = p;
    });
  };
  report_head(phase::loading);
  CHECK(state.is_informed()); // and refuses requests with that reason
  report_head(phase::ready);
  CHECK_FALSE(state.is_informed());
  state.change([](snapshot& s) { s.pipelines[0].card = model_card{}; });
  CHECK(state.is_informed());
  state.wait_informed(); // returns at once
}
