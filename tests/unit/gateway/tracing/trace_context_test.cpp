// The caller's trace in headers: accepted values, and those that start a new trace. The cases are
// those of W3C's own test suite (github.com/w3c/trace-context, test/test.py), and more.
#include "gateway/tracing/otlp_endpoint.hpp"
#include "gateway/tracing/trace_context.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace baton;
using namespace baton::gateway;

namespace {

const std::string trace_text = "0af7651916cd43dd8448eb211c80319c";
const std::string span_text = "b7ad6b7169203331";

std::string trace_header(const std::string& version = "00", const std::string& trace = trace_text,
                         const std::string& span = span_text, const std::string& flags = "01") {
  return version + "-" + trace + "-" + span + "-" + flags;
}

} // namespace

TEST_CASE("a traceparent is parsed strictly, and written unchanged") {
  const auto parent = parse_traceparent(trace_header());
  REQUIRE(parent);
  CHECK(hex_of(parent->trace) == trace_text);
  CHECK(hex_of(parent->span) == span_text);
  CHECK(parent->is_sampled());
  CHECK(traceparent_of(*parent) == trace_header());
  const auto unsampled = parse_traceparent(trace_header("00", trace_text, span_text, "00"));
  REQUIRE(unsampled);
  CHECK_FALSE(unsampled->is_sampled());
  CHECK(parse_traceparent("  " + trace_header() + "\t")); // as HTTP trims a field
}

TEST_CASE("unknown flags are not propagated") {
  CHECK(parse_traceparent(trace_header("00", trace_text, span_text, "ff"))->flags == 3);
  CHECK(parse_traceparent(trace_header("00", trace_text, span_text, "fe"))->flags == 2);
  CHECK_FALSE(parse_traceparent(trace_header("00", trace_text, span_text, "fc"))->is_sampled());
}

TEST_CASE("a newer version is parsed as far as this one goes") {
  CHECK(parse_traceparent(trace_header("cc")));
  CHECK(parse_traceparent(trace_header("01") + "-what-the-future-brings"));
  CHECK(parse_traceparent(trace_header("cc") + "-"));
  CHECK_FALSE(parse_traceparent(trace_header("cc") + ".what"));
  CHECK_FALSE(parse_traceparent(trace_header("cc") + "0"));
}

TEST_CASE("an invalid traceparent starts another trace") {
  const std::string zeroes32(32, '0'), zeroes16(16, '0');
  const std::vector<std::string> wrong{
      "",
      "-",
      "00",
      "00-",
      trace_header("ff"),
      trace_header("0"),
      trace_header("000"),
      trace_header("0G"),
      trace_header(" 0"),
      trace_header("00", zeroes32),
      trace_header("00", trace_text, zeroes16),
      trace_header("00", trace_text.substr(1)),
      trace_header("00", trace_text + "0"),
      trace_header("00", "0AF7651916CD43DD8448EB211C80319C"),
      trace_header("00", ".af7651916cd43dd8448eb211c80319c"),
      trace_header("00", trace_text, span_text.substr(1)),
      trace_header("00", trace_text, span_text + "0"),
      trace_header("00", trace_text, "B7AD6B7169203331"),
      trace_header("00", trace_text, span_text, "0"),
      trace_header("00", trace_text, span_text, "001"),
      trace_header("00", trace_text, span_text, "0x"),
      trace_header("00", trace_text, span_text, "0A"),
      trace_header() + "-",
      trace_header() + "-more",
      trace_header() + ",",
      trace_header() + "," + trace_header(),
      "00_" + trace_text + "-" + span_text + "-01",
      "00-" + trace_text + "_" + span_text + "-01",
      "00-" + trace_text + "-" + span_text + "_01",
      std::string(55, '\0'),
      std::string(55, '-'),
      std::string(4096, 'a'),
      "\xff\xfe" + trace_header().substr(2),
  };
  for (const auto& text : wrong) {
    CAPTURE(text);
    CHECK_FALSE(parse_traceparent(text));
  }
}

TEST_CASE("a tracestate is propagated unchanged") {
  CHECK(parse_tracestate("") == "");
  CHECK(parse_tracestate("congo=t61rcWkgMzE") == "congo=t61rcWkgMzE");
  CHECK(parse_tracestate("rojo=00f067aa0ba902b7 ,\t congo=a b!~") ==
        "rojo=00f067aa0ba902b7,congo=a b!~");
  CHECK(parse_tracestate("foo=1,,,bar=2,") == "foo=1,bar=2");
  CHECK(parse_tracestate("t@s=1,0a_-*/=2") == "t@s=1,0a_-*/=2");
  const std::string key(256, 'k'), value(240, 'v');
  CHECK(parse_tracestate(key + "=" + value) == key + "=" + value);
}

TEST_CASE("a tracestate with one wrong member is dropped") {
  const std::string good = "congo=1";
  const std::vector<std::string> wrong{
      "foo",
      "=1",
      "foo=",
      "Foo=1",
      "foo =1",
      "foo=1=2",
      "foo=\x7f",
      "foo=\xc3\xa4",
      "foo=1\n",
      "föö=1",
      "@s=1",
      "t@=1",
      "a@b@c=1",
      "_a=1",
      "congo=2",
      std::string(257, 'k') + "=1",
      "a=" + std::string(257, 'v'),
  };
  for (const auto& member : wrong) {
    CAPTURE(member);
    CHECK(parse_tracestate(good + "," + member) == "");
  }
}

TEST_CASE("a tracestate of too many members is dropped, one of too many bytes loses some") {
  const auto list_of = [](int members, std::size_t bytes_each) {
    std::string list;
    for (int i = 0; i < members; ++i) {
      const auto key = "k" + std::to_string(i) + "=";
      list += (i == 0 ? "" : ",") + key + std::string(bytes_each - key.size(), 'v');
    }
    return list;
  };
  CHECK(parse_tracestate(list_of(32, 8)) == list_of(32, 8));
  CHECK(parse_tracestate(list_of(33, 8)) == "");
  CHECK(parse_tracestate(list_of(4, 127)) == list_of(4, 127)); // 511 bytes
  CHECK(parse_tracestate(list_of(5, 127)) == list_of(4, 127)); // the last one
  const auto large = "large=" + std::string(200, 'v');
  CHECK(parse_tracestate(large + "," + list_of(4, 100)) == list_of(4, 100)); // the large one first
}

TEST_CASE("the sampled share of traces is drawn by the random part of their ids") {
  trace_id id{};
  id.fill(0xff);
  CHECK(is_in_share(id, 1));
  CHECK_FALSE(is_in_share(id, 0.999));
  id.fill(0);
  id[0] = 0xff; // not a part of it
  CHECK(is_in_share(id, 0.001));
  CHECK_FALSE(is_in_share(id, 0));
  id[9] = 0x7f;
  CHECK(is_in_share(id, 0.5));
  id[9] = 0x80;
  CHECK_FALSE(is_in_share(id, 0.5));
}

TEST_CASE("an endpoint is a base or the URL of traces") {
  const auto path_of = [](std::string_view text) { return parse_otlp_endpoint(text)->path; };
  const auto plain = parse_otlp_endpoint("http://127.0.0.1:4318");
  REQUIRE(plain);
  CHECK(*plain == otlp_endpoint{"127.0.0.1", 4318, "/v1/traces"});
  CHECK(plain->host_header() == "127.0.0.1:4318");
  CHECK(path_of("http://otel-collector:4318/") == "/v1/traces");
  CHECK(path_of("http://c:1/otlp") == "/otlp/v1/traces");
  CHECK(path_of("http://c:1/v1/traces") == "/v1/traces");
  CHECK(parse_otlp_endpoint("http://[::1]:4318")->host == "::1");
  CHECK(parse_otlp_endpoint("http://[::1]:4318")->host_header() == "[::1]:4318");
}

TEST_CASE("an invalid endpoint is refused with the accepted forms") {
  const auto given = [](std::string_view text) {
    const auto where = parse_otlp_endpoint(text);
    CAPTURE(text);
    REQUIRE_FALSE(where);
    CHECK(where.error().code == errc::bad_config);
    CHECK(where.error().param == "otlp_endpoint");
    return where.error().message;
  };
  CHECK(given("https://127.0.0.1:4318").find("http:// alone") != std::string::npos);
  CHECK(given("127.0.0.1:4318").find("write http://HOST:PORT") != std::string::npos);
  for (const auto* text :
       {"grpc://c:4317", "http://", "http://c", "http://c:", "http://c:0", "http://c:65536",
        "http://c:43x", "http://:4318", "http://user:key@c:4318", "http://c:4318/a?b=c",
        "http://c:4318/a b", "http://c\r\n:4318", "http://c:4318/\r\nX: y", "http://[::1]",
        "http://[::1:4318", "http://::1:4318"}) {
    given(text);
  }
}
