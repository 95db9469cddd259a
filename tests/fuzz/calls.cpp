// Answers with tool calls: the first byte chooses the format and whether a grammar applies, the
// second one how the rest is cut into pieces. The result does not depend on the cuts, and arguments
// that no grammar made are JSON.
#include "gateway/api/openai/calls/call_parser.hpp"
#include "runtime/text/unicode/utf8.hpp"
#include "schema/ensure.hpp"
#include "tests/fuzz/input.hpp"

#include <fmt/format.h>

using namespace baton;
using namespace baton::gateway;

namespace {

void join(call_delta& to, const call_delta& from) {
  to.text += from.text;
  for (const auto& part : from.calls) {
    if (!part.name.empty()) {
      ENSURE(part.index == to.calls.size(), "call {} behind {}", part.index, to.calls.size());
      to.calls.push_back(part);
    } else {
      ENSURE(part.index + 1 == to.calls.size(), "arguments of {}", part.index);
      to.calls.back().arguments += part.arguments;
    }
  }
}

std::string shown(const call_delta& d) {
  auto out = d.text;
  for (const auto& c : d.calls)
    out += fmt::format("\n{} {}", c.name, c.arguments);
  return out;
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2)
    return 0;
  constexpr int formats = static_cast<int>(call_format_last) + 1;
  static const auto schema =
      grammar::parse_json(
          R"({"properties":{"a":{"type":"string"},"b":{"type":["integer","null"]}}})")
          .value();
  const auto how = std::make_shared<const call_reading>(
      call_reading{.format = static_cast<call_format>(data[0] % formats),
                   .names = {"f", "get_weather"},
                   .is_constrained = data[0] / formats % 2 == 1,
                   .schemas = {schema, schema}});
  const auto text = fuzz::text_of(data + 2, size - 2);
  const std::size_t step = 1 + data[1] % 16;
  const auto whole = read_calls(text, how);
  call_parser parser(how);
  call_delta cut;
  for (std::size_t at = 0; at < text.size(); at += step) {
    call_delta piece;
    parser.add(text.substr(at, step), piece);
    join(cut, piece);
  }
  call_delta rest;
  parser.finish(rest);
  join(cut, rest);
  ENSURE(shown(cut) == shown(whole), "cut into pieces of {} it is another answer", step);
  ENSURE(!whole.calls.empty() || whole.text == text, "text is lost");
  const bool is_text = baton::text::utf8_valid_prefix(text) == text.size(); // as every answer
  for (const auto& call : whole.calls)
    ENSURE(how->is_constrained || !is_text || grammar::parse_json(call.arguments),
           "arguments of {} are no JSON", call.name);
  return 0;
}
