// Members of a client's JSON in its own bytes, whatever these are; and the APIs that use them,
// which all skip a byte order mark.
#include "gateway/api/kserve/calls/kserve_infer.hpp"
#include "gateway/api/kserve/calls/kserve_request.hpp"
#include "gateway/api/openai/request/openai_request.hpp"
#include "gateway/api/responses/responses_request.hpp"
#include "gateway/api/tgi/tgi_request.hpp"
#include "gateway/api/torchserve/torchserve_request.hpp"
#include "gateway/api/vllm/vllm_generate.hpp"
#include "gateway/base/json_text.hpp"
#include "gateway/request/json_reader.hpp"
#include "gateway/websocket/websocket_messages.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <memory>

using namespace baton;
using namespace baton::gateway;

namespace {

const std::string mark = "\xef\xbb\xbf";

std::string raw_text_member(std::string_view text, std::vector<std::string_view> path) {
  const auto found = raw_member(text, path);
  return found ? *found : "error: " + found.error().param;
}

// Memory of exactly this size: the sanitizer builds detect a read past the end.
void find_in(std::string_view text) {
  const auto exact = std::make_unique<char[]>(text.size());
  std::copy(text.begin(), text.end(), exact.get());
  const std::string_view all(exact.get(), text.size());
  for (const auto& path : {std::vector<std::string_view>{"a"}, {"a", "b"}, {""}}) {
    const auto found = raw_member(all, path);
    CHECK((found || found.error().code == errc::invalid_request));
    CHECK((!found || all.find(*found) != all.npos));
  }
}

using body_maker = std::function<std::string(const std::string& constraint)>;
using reader = std::function<result<constraint>(const std::string& body)>;

result<constraint> constraint_at_api(const generate& request) {
  if (!request.terms.sampling.constraint) {
    return fail(errc::invalid_request, "no constraint was read");
  }
  return *request.terms.sampling.constraint;
}

template <class Call>
result<constraint> constraint_at_api(const result<Call>& call) {
  if (!call) {
    return call.error();
  }
  if constexpr (requires { call->call.call.request; }) {
    return constraint_at_api(call->call.call.request);
  } else if constexpr (requires { call->call.request; }) {
    return constraint_at_api(call->call.request);
  } else {
    return constraint_at_api(call->request);
  }
}

result<constraint> of_kserve(kserve_route route, result<kserve_call> call) {
  return call
             ? constraint_at_api(read_kserve(route, *std::move(call), "m", testing::default_config))
             : call.error();
}

// Each path of a member's text from a body to a request.
struct constraint_api {
  const char* name;
  std::string before, behind; // around the member
  const char* field;
  reader read;
};

const std::vector<constraint_api>& constraint_apis() {
  const auto openai = [](openai_api api) {
    return [api](const std::string& b) {
      return constraint_at_api(parse_generation(api, b, testing::default_config.request));
    };
  };
  static const std::vector<constraint_api> all{
      {"completions", R"({"prompt":"x",)", "}", "guided_json", openai(openai_api::completions)},
      {"chat", R"({"messages":[{"role":"user","content":"x"}],)", "}", "guided_json",
       openai(openai_api::chat)},
      {"responses", R"({"input":"x","text":{"format":{"type":"json_schema","name":"n",)", "}}}",
       "schema",
       [](const std::string& b) {
         return constraint_at_api(parse_response(b, testing::default_config));
       }},
      {"tgi", R"({"inputs":"x","parameters":{"grammar":{"type":"json",)", "}}}", "value",
       [](const std::string& b) {
         return constraint_at_api(parse_tgi(tgi_route::generate, b, testing::default_config));
       }},
      {"vllm", R"({"prompt":"x",)", "}", "guided_json",
       [](const std::string& b) -> result<constraint> {
         const auto call = parse_vllm_generate(b, testing::default_config.request);
         return call ? constraint_at_api(*call) : fail(errc::invalid_request, "this is not vLLM's");
       }},
      {"torchserve", R"({"prompt":"x",)", "}", "guided_json",
       [](const std::string& b) {
         return constraint_at_api(
             parse_prediction({"application/json", "", b, false}, testing::default_config.request));
       }},
      {"torchserve, of no media type", R"({"prompt":"x",)", "}", "guided_json",
       [](const std::string& b) {
         return constraint_at_api(
             parse_prediction({"", "", b, false}, testing::default_config.request));
       }},
      {"kserve generate", R"({"text_input":"x",)", "}", "guided_json",
       [](const std::string& b) {
         return of_kserve(kserve_route::generate,
                          parse_generate(b, testing::default_config.request));
       }},
      {"kserve sampling_parameters", "{", "}", "guided_json",
       [](const std::string& b) {
         const json outer{{"text_input", "x"}, {"sampling_parameters", b}};
         return of_kserve(kserve_route::generate,
                          parse_generate(outer.dump(), testing::default_config.request));
       }},
      {"tensors with parameters", "{", "}", "guided_json",
       [](const std::string& b) {
         infer given;
         given.parameters = b;
         given.inputs.push_back({"text_input", "BYTES", {1}, std::string("\1\0\0\0x", 5)});
         return constraint_at_api(read_language_infer(given, "m", testing::default_config));
       }},
      {"websocket", R"({"type":"start","id":"a","prompt":"x",)", "}", "guided_json",
       [](const std::string& b) -> result<constraint> {
         const auto given = parse_socket_message(b, testing::default_config);
         if (const auto* no = std::get_if<socket_mistake>(&given)) {
           return no->reason;
         }
         return constraint_at_api(
             std::get<socket_start>(std::get<socket_message>(given)).call.request);
       }},
  };
  return all;
}

} // namespace

TEST_CASE("a member's text is the client's, the last one of duplicates") {
  const std::string text = "{\"a\" :\t{\"z\":1 , \"b\":[ {\"x\":\"}\\\"]\"} ]}\r\n,\"c\": 1.0 }";
  CHECK(raw_text_member(text, {}) == text);
  CHECK(raw_text_member(text, {"a"}) == R"({"z":1 , "b":[ {"x":"}\"]"} ]})");
  CHECK(raw_text_member(text, {"a", "z"}) == "1");
  CHECK(raw_text_member(text, {"a", "b"}) == R"([ {"x":"}\"]"} ])");
  CHECK(raw_text_member(text, {"c"}) == "1.0");
  CHECK(raw_text_member(" \t\r\n" + text + "\n", {"c"}) == "1.0");
  CHECK(raw_text_member(mark + " " + text, {"c"}) == "1.0");
  CHECK(raw_text_member(R"({"a":1,"\u0061":[2],"b":3})", {"a"}) == "[2]");
  CHECK(raw_text_member(R"({"a":{"b":1},"a":{"b":2}})", {"a", "b"}) == "2");
  CHECK(raw_text_member(R"({"":{"":true}})", {"", ""}) == "true");
  CHECK(raw_text_member(R"({"a":"\\","b":"\\\"","c":null})", {"c"}) == "null");
  std::string deep = R"({"a":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  CHECK(raw_text_member(deep, {"a"}).size() == 200'000);
}

TEST_CASE("a missing member or invalid JSON is an error that names it") {
  for (const auto* text : {"",
                           " ",
                           "[]",
                           "\"a\"",
                           "{",
                           "{}",
                           "{\"a\"",
                           "{\"a\":",
                           "{\"a\":}",
                           "{\"a\":,}",
                           "{\"a\":1",
                           "{\"a\":1,",
                           "{\"a\":1,}",
                           "{\"a\":[1}",
                           "{\"a\":\"x}",
                           "{a:1}",
                           "{\"a\" 1}",
                           "{\"b\":1}",
                           "{\"\\ud800\":1}",
                           "{\"a\":\"\\",
                           "\xef\xbb",
                           "\xef\xbb\xbf",
                           "\xef\xbb\xbf\xef\xbb\xbf{\"a\":1}",
                           "\xff\xfe{\"a\":1}"}) {
    CAPTURE(text);
    CHECK(raw_text_member(text, {"a"}) == "error: a");
    CHECK(raw_text_member(text, {"a", "b"}) == "error: a.b");
  }
  CHECK(raw_text_member(R"({"a":1})", {"a", "b"}) == "error: a.b");
}

TEST_CASE("no bytes make a reader of members leave its text") {
  const std::string texts[] = {
      R"({"a":{"b":[1,"\"",{}],"c":"}"},"a":{"b":null}, "\u0061" : -1e5 })",
      mark + R"({"a":"\\\"","":{"a":[[[["]"]]]]}})", R"({"a")", R"({"a":")"};
  for (const auto& text : texts) {
    for (std::size_t end = 0; end <= text.size(); ++end) {
      find_in(text.substr(0, end));
      find_in(text.substr(end));
    }
    for (std::size_t at = 0; at < text.size(); ++at) {
      for (const char c : {'"', '\\', '{', '}', '[', ']', ',', ':', ' ', '\0', '\xef', 'a'}) {
        auto other = text;
        other[at] = c;
        find_in(other);
      }
    }
  }
}

TEST_CASE("a byte order mark is skipped once, at the start only") {
  CHECK(parse_json(mark + "{}", 8));
  CHECK(parse_json(mark + " \r\n\t[1]", 8));
  CHECK(without_mark(mark + "x") == "x");
  CHECK(without_mark("x" + mark) == "x" + mark);
  CHECK(without_mark("\xef\xbb") == "\xef\xbb");
  for (const auto& text : {mark, mark + mark + "{}", " " + mark + "{}", "{}" + mark,
                           std::string("\xfe\xff\0{\0}", 6), std::string("\xff\xfe{\0}\0", 6)}) {
    const auto no = parse_json(text, 8);
    REQUIRE_FALSE(no);
    CHECK(no.error().code == errc::invalid_request);
  }
}

TEST_CASE("every API finds a schema in its own bytes, with a mark, any space and duplicate names") {
  const std::string schema = R"({"type":"object","properties":{"z":{"const":"}\"]"},"a":{}}})";
  for (const auto& d : constraint_apis()) {
    CAPTURE(d.name);
    const auto is_read = [&](const std::string& body, const std::string& as) {
      CAPTURE(body);
      const auto read = d.read(body);
      REQUIRE_MESSAGE(read, read.error().message);
      CHECK(read->text == as);
    };
    const auto field = fmt::format("\"{}\":", d.field);
    const auto plain = d.before + field + schema + d.behind;
    is_read(plain, schema);
    is_read(mark + plain, schema);
    is_read(mark + " \t\r\n" + plain + "\r\n", schema);
    is_read("\n\t " + plain + " ", schema);
    is_read(d.before + field + "{}," + field + " \t" + schema + "\n" + d.behind, schema);
    is_read(mark + d.before + field + "true,\"\\u" +
                fmt::format("{:04x}", static_cast<int>(d.field[0])) +
                std::string(d.field).substr(1) + "\"\n:\r" + schema + d.behind,
            schema);
    CHECK_FALSE(d.read(mark + mark + plain));
    CHECK_FALSE(d.read(plain + mark));
  }
}

TEST_CASE("the smallest bodies that crashed a gateway are refused by name") {
  for (const std::string body :
       {R"({"guided_choice":[]})", R"({"guided_choice":[0]})", R"({"guided_json":{}})",
        R"({"tools":[{}]})", R"({"prompt":"x","guided_choice":[]})",
        R"({"structured_outputs":{"choice":[]}})",
        R"({"inputs":"x","parameters":{"grammar":{}}})"}) {
    for (const auto& text : {mark + body, mark + "\n" + body}) {
      CAPTURE(text);
      for (const auto api : {openai_api::chat, openai_api::completions}) {
        CHECK_FALSE(parse_generation(api, text, testing::default_config.request));
      }
      CHECK_FALSE(parse_response(text, testing::default_config));
      CHECK_FALSE(parse_tgi(tgi_route::root, text, testing::default_config));
    }
  }
}

TEST_CASE("text that is not UTF-8 is written with replacements, and throws nothing") {
  CHECK(json_text(json("a\xff")) == "\"a\xef\xbf\xbd\"");
  CHECK(json_text(nlohmann::ordered_json{{"b", 1}, {"a", "\xc3"}}) ==
        "{\"b\":1,\"a\":\"\xef\xbf\xbd\"}");
}
