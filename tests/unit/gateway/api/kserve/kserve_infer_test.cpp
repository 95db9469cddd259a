// A language model behind the interface of worker models: `infer` over ZeroMQ to a typed request,
// chunks to pieces of tensors.
#include "gateway/api/kserve/calls/kserve_infer.hpp"
#include "schema/limits.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>

#include <cstring>

using namespace baton;
using namespace baton::gateway;

namespace {

std::string infer_raw_text(std::string_view text) {
  const auto size = static_cast<std::uint32_t>(text.size());
  std::string out(4, '\0');
  std::memcpy(out.data(), &size, 4);
  return out + std::string(text);
}

tensor text_tensor(std::string name, std::string_view text) {
  return {std::move(name), "BYTES", {1}, infer_raw_text(text)};
}

infer asking(std::vector<tensor> more = {}) {
  infer m;
  m.inputs = std::move(more);
  m.inputs.push_back(text_tensor("text_input", "hi"));
  return m;
}

result<kserve_generate> read_infer(const infer& m) {
  return read_language_infer(m, "smol", testing::default_config);
}

chunk infer_piece(std::string text, finish how = finish::none, std::uint32_t choice = 0) {
  chunk c;
  c.choice = choice;
  c.count = 1;
  c.text = std::move(text);
  c.finish = how;
  return c;
}

} // namespace

TEST_CASE("tensors, requested outputs and parameters are those of Triton's vLLM backend") {
  auto m = asking({{"stream", "BOOL", {1}, std::string(1, '\1')},
                   text_tensor("sampling_parameters", R"({"temperature":0.5,"max_tokens":7})")});
  m.outputs = {"text_output", "num_output_tokens"};
  m.parameters = R"({"top_k": 3, "timeout": 1500000})";
  const auto r = read_infer(m);
  REQUIRE_MESSAGE(r, r.error().message);
  CHECK(std::get<std::string>(r->request.input) == "hi");
  CHECK(r->request.model == "smol");
  CHECK(r->request.terms.sampling.temperature == 0.5F);
  CHECK(r->request.terms.sampling.top_k == 3);
  CHECK(r->request.terms.stop.max_tokens == 7);
  CHECK(r->request.terms.deadline == std::chrono::milliseconds(1500));
  CHECK(r->shape.is_stream);
  CHECK(r->shape.lead.empty());
  REQUIRE(r->shape.outputs.size() == 2);
  CHECK(r->shape.outputs[1].which == kserve_output::num_output_tokens);
}

TEST_CASE("a schema among the parameters keeps the order of its members") {
  auto m = asking();
  m.parameters =
      R"({"structured_outputs": {"json": {"properties": {"b": {}, "a": {}}, "type": "object"}}})";
  const auto r = read_infer(m);
  REQUIRE_MESSAGE(r, r.error().message);
  const auto& text = r->request.terms.sampling.constraint->text;
  CHECK(text.find(R"("b")") < text.find(R"("a")"));
}

TEST_CASE("an invalid request to a language model is refused by name") {
  auto body = asking();
  body.body = "hi";
  auto twice = asking();
  twice.inputs.push_back(twice.inputs.front());
  auto unknown = asking({text_tensor("INPUT0", "x")});
  auto other_type = asking({{"stream", "INT32", {1}, std::string(4, '\0')}});
  auto cut_off = asking({{"stream", "BOOL", {1}, {}}});
  auto no_output = asking();
  no_output.outputs = {"OUT"};
  auto no_parameter = asking();
  no_parameter.parameters = R"({"colour": "red"})";
  auto no_object = asking();
  no_object.parameters = "[]";
  infer nothing;
  auto shapeless = asking();
  shapeless.inputs[0].shape.assign(limits::dimensions_max + 1, 1);
  const std::pair<infer, std::string_view> cases[] = {
      {body, "body"},           {twice, "text_input"}, {unknown, "INPUT0"},
      {other_type, "stream"},   {cut_off, "stream"},   {no_output, "OUT"},
      {no_parameter, "colour"}, {no_object, ""},       {nothing, "text_input"},
      {shapeless, "inputs"},
  };
  for (const auto& [m, param] : cases) {
    const auto r = read_infer(m);
    CAPTURE(param);
    REQUIRE_FALSE(r);
    CHECK(r.error().param == param);
  }
}

TEST_CASE("without `stream` the whole answer is one piece, with the prompt before it") {
  const auto r = read_infer(asking());
  REQUIRE(r);
  language_pieces collected(r->shape);
  CHECK_FALSE(collected.take(infer_piece(" there")));
  CHECK_FALSE(collected.has_ended());
  const auto last = collected.take(infer_piece("!", finish::stop));
  REQUIRE(last);
  CHECK(collected.has_ended());
  CHECK(last->index == 0);
  CHECK(last->is_last);
  REQUIRE(last->outputs.size() == 1);
  CHECK(last->outputs[0].name == "text_output");
  CHECK(last->outputs[0].datatype == "BYTES");
  CHECK(last->outputs[0].shape == std::vector<std::int64_t>{1});
  CHECK(last->outputs[0].data == infer_raw_text("hi there!"));
  CHECK_FALSE(collected.take(infer_piece("more")));
}

TEST_CASE("with `stream` each chunk is a piece with the new text, all choices together") {
  auto m = asking({{"stream", "BOOL", {1}, std::string(1, '\1')}});
  m.parameters = R"({"n": 2})";
  const auto r = read_infer(m);
  REQUIRE(r);
  language_pieces collected(r->shape);
  std::vector<inferred> all;
  for (const auto& c : {infer_piece("a"), infer_piece("x", finish::stop, 1), chunk{},
                        infer_piece("b", finish::stop)}) {
    if (auto p = collected.take(c)) {
      all.push_back(*std::move(p));
    }
  }
  REQUIRE(all.size() == 3);
  CHECK(all[0].outputs[0].data == infer_raw_text("a") + infer_raw_text(""));
  CHECK(all[1].outputs[0].data == infer_raw_text("") + infer_raw_text("x"));
  CHECK(all[2].outputs[0].data == infer_raw_text("b") + infer_raw_text(""));
  CHECK(all[2].index == 2);
  CHECK_FALSE(all[1].is_last);
  CHECK(all[2].is_last);
}
