// gRPC messages: the first byte chooses the method, the rest is the client's message. Accepted
// messages must fit the wire.
#include "gateway/base/snapshot.hpp"
#include "gateway/grpc/grpc_api.hpp"
#include "gateway/grpc/library/codec.hpp"
#include "gateway/request/request_check.hpp"
#include "gateway/state/gateway_state.hpp"
#include "schema/codec/codec.hpp"
#include "tests/fuzz/input.hpp"

#include <string>

using namespace baton;
using namespace baton::gateway;

namespace {

// "m" is ready.
gateway_state& facts() {
  static gateway_state all([] {
    gateway_config config;
    config.pipelines = {{process_id{2}, "m"}};
    return config;
  }());
  static const bool is_ready = [] {
    all.change([](snapshot& s) {
      model_card card;
      card.name = "m";
      card.phase = phase::ready;
      s.pipelines[0].card = card;
    });
    return true;
  }();
  ENSURE(is_ready, "the board is not filled");
  return all;
}

chunk last_chunk(std::uint32_t choice) {
  chunk c;
  c.choice = choice;
  c.count = 1;
  c.text = "t";
  c.finish = finish::stop;
  return c;
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0)
    return 0;
  const auto methods = grpc_methods();
  const auto& method = methods[data[0] % methods.size()];
  if (!method.instead.empty())
    return 0;
  auto plan = plan_grpc(method, fuzz::text_of(data + 1, size - 1), protobuf_codec(), facts());
  auto* made = std::get_if<grpc_generate>(&plan);
  if (!made)
    return 0;
  const auto in_range = check_ranges(made->request, facts().config().request);
  ENSURE(in_range, "read, but out of range: {}", in_range.error().message);
  if (check_limits(made->request))
    (void)encode({}, made->request);
  std::vector<std::string> out;
  for (std::uint32_t i = 0; i < made->request.terms.choices; ++i)
    made->answer->add(last_chunk(i), out);
  ENSURE(made->answer->has_ended() && !out.empty(), "{} answers have no end",
         made->request.terms.choices);
  return 0;
}
