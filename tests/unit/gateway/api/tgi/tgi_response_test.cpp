// Typed answers to TGI's JSON, whole and as events; its errors.
#include "gateway/api/tgi/tgi_error.hpp"
#include "gateway/api/tgi/tgi_response.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <limits>

using namespace baton;
using namespace baton::gateway;
using nlohmann::json;

namespace {

// Two tokens; the second is half of the last character, with the third.
chunk three_tokens() {
  chunk c;
  c.index = c.count = c.output_tokens = 3;
  c.prompt_tokens = 5;
  c.text = "ab\xC3\xA9";
  c.ids = {11, 12, 13};
  c.details = {{{"ab", 11, -0.5F}, {{"ab", 11, -0.5F}, {"x", 7, -2.0F}}, 2},
               {{"\xC3", 12, -1.0F}, {}, 2},
               {{"\xA9", 13, -1.5F}, {}, 4}};
  return c;
}

chunk tgi_end(finish how, std::uint32_t output_tokens) {
  chunk c;
  c.finish = how;
  c.prompt_tokens = 5;
  c.index = c.output_tokens = output_tokens;
  return c;
}

chunk eos() {
  auto c = tgi_end(finish::stop, 4);
  c.count = 1;
  c.ids = {2};
  c.details = {{{"<eos>", 2, -0.25F, /*is_control=*/true}, {}, 0}};
  return c;
}

tgi_shape shape() {
  tgi_shape s;
  s.has_details = true;
  return s;
}

std::vector<json> tgi_events_of(const std::string& text) {
  std::vector<json> out;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = text.find("\n\n", begin);
    REQUIRE(end != text.npos);
    REQUIRE(text.substr(begin, 6) == "data:{");
    out.push_back(json::parse(text.substr(begin + 5, end - begin - 5)));
    begin = end + 2;
  }
  return out;
}

std::string tgi_header(const http_reply& r, std::string_view name) {
  for (const auto& [n, v] : r.headers) {
    if (n == name) {
      return v;
    }
  }
  return "none";
}

reply_times times() {
  using std::chrono::milliseconds;
  reply_times t;
  t.opened = t.read + milliseconds(3);
  t.granted = t.opened + milliseconds(7);
  t.ended = t.granted + milliseconds(80);
  return t;
}

} // namespace

TEST_CASE("a token's text is its part of the answer, for a control token its name") {
  auto tokens = tokens_of(three_tokens());
  REQUIRE(tokens.size() == 3);
  CHECK(tokens[0].text == "ab");
  CHECK(tokens[1].text.empty());
  CHECK(tokens[2].text == "\xC3\xA9");
  CHECK_FALSE(tokens[2].is_special);
  tokens = tokens_of(eos());
  CHECK(tokens[0].text == "<eos>");
  CHECK(tokens[0].is_special);
  auto wrong = three_tokens(); // an offset beyond the text does not read past it
  wrong.details[0].text_end = 3000;
  wrong.details[1].text_end = 1;
  CHECK(tokens_of(wrong)[0].text == wrong.text);
  CHECK(tokens_of(wrong)[1].text.empty());
}

TEST_CASE("the prompt's tokens are the prefill of the details, the first without a logprob") {
  tgi_unary w(shape());
  chunk prompt;
  prompt.prompt_details = {{{"<s>", 1, 0, /*is_control=*/true}, {}}, {{"sa", 3, -1.5F}, {}}};
  w.add(prompt);
  w.add(prompt); // again, from a restarted head
  w.add(three_tokens());
  w.add(eos());
  const auto d = json::parse(w.reply({}, times()).body)["details"];
  CHECK(d["prefill"] == json({{{"id", 1}, {"text", "<s>"}, {"logprob", nullptr}},
                              {{"id", 3}, {"text", "sa"}, {"logprob", -1.5}}}));
  CHECK(d["tokens"].size() == 4);
}

TEST_CASE("a whole answer has TGI's shape and headers") {
  auto s = shape();
  s.top_n_tokens = 2;
  s.seed = 42;
  s.prompt_characters = 9;
  tgi_unary w(s);
  w.add(three_tokens());
  CHECK_FALSE(w.is_complete());
  w.add(eos());
  REQUIRE(w.is_complete());
  const auto r = w.reply({}, times());
  const auto j = json::parse(r.body);
  CHECK(j["generated_text"] == "ab\xC3\xA9");
  const auto& d = j["details"];
  CHECK(d["finish_reason"] == "eos_token");
  CHECK(d["generated_tokens"] == 4);
  CHECK(d["seed"] == 42);
  CHECK(d["prefill"] == json::array());
  REQUIRE(d["tokens"].size() == 4);
  CHECK(d["tokens"][0] == json{{"id", 11}, {"text", "ab"}, {"logprob", -0.5}, {"special", false}});
  CHECK(d["tokens"][3] ==
        json{{"id", 2}, {"text", "<eos>"}, {"logprob", -0.25}, {"special", true}});
  REQUIRE(d["top_tokens"].size() == 4);
  CHECK(d["top_tokens"][0][1]["id"] == 7);
  CHECK(tgi_header(r, "x-prompt-tokens") == "5");
  CHECK(tgi_header(r, "x-generated-tokens") == "4");
  CHECK(tgi_header(r, "x-total-time") == "90");
  CHECK(tgi_header(r, "x-validation-time") == "3");
  CHECK(tgi_header(r, "x-queue-time") == "7");
  CHECK(tgi_header(r, "x-inference-time") == "80");
  CHECK(tgi_header(r, "x-time-per-token") == "20");
  CHECK(tgi_header(r, "x-compute-characters") == "9");
  CHECK(tgi_header(r, "x-compute-type") == "baton");
  CHECK(tgi_header(r, "x-compute-time") == "0.09");
}

TEST_CASE("without details there is the text alone, and at the root a list with its prompt") {
  tgi_shape s;
  s.is_list = true;
  s.lead = "say: ";
  tgi_unary w(s);
  w.add(three_tokens());
  w.add(tgi_end(finish::length, 3));
  CHECK(json::parse(w.reply({}, times()).body) ==
        json::array({{{"generated_text", "say: ab\xC3\xA9"}}}));
}

TEST_CASE("the likeliest of several answers is returned, the others are in its details") {
  auto s = shape();
  s.best_of = 3;
  s.seed = 10;
  tgi_unary w(s);
  const auto answer = [](std::uint32_t choice, const char* text, float logprob) {
    auto c = tgi_end(finish::length, 1);
    c.choice = choice;
    c.text = text;
    c.details = {{{text, 5, logprob}, {}, 1}};
    return c;
  };
  w.add(answer(2, "c", -3));
  w.add(answer(0, "a", -2));
  CHECK_FALSE(w.is_complete());
  w.add(answer(1, "b", -1));
  REQUIRE(w.is_complete());
  auto j = json::parse(w.reply({}, times()).body);
  CHECK(j["generated_text"] == "b");
  CHECK(j["details"]["seed"] == 11);
  const auto& others = j["details"]["best_of_sequences"];
  REQUIRE(others.size() == 2);
  CHECK(others[0]["generated_text"] == "a");
  CHECK(others[0]["seed"] == 10);
  CHECK(others[0]["tokens"][0]["logprob"] == -2);
  CHECK(others[1]["generated_text"] == "c");
  CHECK(others[1]["finish_reason"] == "length");
  s.has_details = false; // it is still the likeliest
  tgi_unary plain(s);
  plain.add(answer(0, "a", -2));
  plain.add(answer(1, "b", -1));
  plain.add(answer(2, "c", -3));
  CHECK(json::parse(plain.reply({}, times()).body) == json{{"generated_text", "b"}});
}

TEST_CASE("finish reasons are TGI's") {
  const auto reason = [](chunk last) {
    tgi_unary w(shape());
    w.add(std::move(last));
    return json::parse(w.reply({}, times()).body)["details"]["finish_reason"];
  };
  CHECK(reason(tgi_end(finish::length, 1)) == "length");
  CHECK(reason(tgi_end(finish::stop, 1)) == "eos_token");
  auto stopped = tgi_end(finish::stop, 1);
  stopped.stop_text = "###";
  CHECK(reason(stopped) == "stop_sequence");
}

TEST_CASE("a stream has one event for each token, and the last one has the whole text") {
  auto s = shape();
  s.lead = "p";
  tgi_events w(s);
  std::string out;
  w.add(three_tokens(), out);
  CHECK(tgi_events_of(out).size() == 3); // at once
  w.add(eos(), out);
  CHECK(w.has_ended());
  w.add(eos(), out);
  w.fail(fail(errc::internal, "late"), out);
  const auto events = tgi_events_of(out);
  REQUIRE(events.size() == 4);
  CHECK(events[0] ==
        json{{"index", 1},
             {"token", {{"id", 11}, {"text", "ab"}, {"logprob", -0.5}, {"special", false}}},
             {"generated_text", nullptr},
             {"details", nullptr}});
  CHECK(events[2]["token"]["text"] == "\xC3\xA9");
  CHECK(events[3]["index"] == 4);
  CHECK(events[3]["token"]["special"] == true);
  CHECK(events[3]["generated_text"] == "pab\xC3\xA9");
  CHECK(events[3]["details"] == json{{"finish_reason", "eos_token"},
                                     {"generated_tokens", 4},
                                     {"seed", nullptr},
                                     {"input_length", 5}});
}

TEST_CASE("where a stop text may end it a token is held, so that the last one has the end") {
  auto s = shape();
  s.has_stops = true;
  s.has_details = false;
  s.top_n_tokens = 2;
  tgi_events w(s);
  std::string out;
  w.add(three_tokens(), out);
  CHECK(tgi_events_of(out).size() == 2);
  auto stopped = tgi_end(finish::stop, 3);
  stopped.stop_text = "\xC3\xA9";
  w.add(stopped, out);
  const auto events = tgi_events_of(out);
  REQUIRE(events.size() == 3);
  CHECK(events[0]["top_tokens"].size() == 2);
  CHECK(events[2]["token"]["id"] == 13);
  CHECK(events[2]["generated_text"] == "ab\xC3\xA9");
  CHECK(events[2]["details"].is_null());
}

TEST_CASE("an end without a token is sent as one with an empty text") {
  tgi_events w(shape());
  std::string out;
  w.add(three_tokens(), out);
  w.add(tgi_end(finish::length, 3), out);
  const auto events = tgi_events_of(out);
  REQUIRE(events.size() == 4);
  CHECK(events[3]["token"] == json{{"id", 13}, {"text", ""}, {"logprob", 0}, {"special", true}});
  CHECK(events[3]["details"]["finish_reason"] == "length");
}

TEST_CASE("a stream that fails has sent all its tokens, and ends with TGI's error") {
  auto s = shape();
  s.has_stops = true;
  tgi_events w(s);
  std::string out;
  w.add(three_tokens(), out);
  w.fail(fail(errc::pipeline_lost, "gone"), out);
  CHECK(w.has_ended());
  const auto events = tgi_events_of(out);
  REQUIRE(events.size() == 4);
  CHECK(events[2]["token"]["id"] == 13);
  CHECK(events[3] ==
        json{{"error", "Request failed during generation: gone"}, {"error_type", "generation"}});
}

TEST_CASE("invalid UTF-8 and non-finite log-probabilities stay JSON") {
  chunk c = three_tokens();
  c.details[0].top = {{"\xC3", 1, -std::numeric_limits<float>::infinity()}};
  c.details[0].chosen.logprob = -std::numeric_limits<float>::infinity();
  auto s = shape();
  s.top_n_tokens = 1;
  tgi_events w(s);
  std::string out;
  w.add(c, out);
  const auto events = tgi_events_of(out);
  CHECK(events[0]["token"]["logprob"].is_null());
  CHECK(events[0]["top_tokens"][0]["logprob"].is_null());
  CHECK(events[0]["top_tokens"][0]["text"] == "\xEF\xBF\xBD");
}

TEST_CASE("errors have TGI's status and type, or the status of their row and no type") {
  struct row {
    errc code;
    int status;
    const char* type;
  };
  const row rows[] = {{errc::invalid_value, 422, "validation"},
                      {errc::unsupported_parameter, 422, "validation"},
                      {errc::context_length_exceeded, 422, "validation"},
                      {errc::template_failed, 422, "template_error"},
                      {errc::overloaded, 429, "overloaded"},
                      {errc::no_job_ticket, 429, "overloaded"},
                      {errc::deadline_exceeded, 500, "incomplete_generation"},
                      {errc::internal, 424, "generation"},
                      {errc::quarantined, 424, "generation"},
                      {errc::link_down, 424, "generation"},
                      {errc::not_ready, 503, nullptr},
                      {errc::unauthorized, 401, nullptr},
                      {errc::model_not_found, 404, nullptr},
                      {errc::payload_too_large, 413, nullptr}};
  for (const auto& r : rows) {
    CAPTURE(row_of(r.code).name);
    const auto reply = tgi_failure(fail(r.code, "so"));
    CHECK(reply.status == r.status);
    const auto j = json::parse(reply.body);
    CHECK(j["error"].get<std::string>().ends_with("so"));
    CHECK(j.contains("error_type") == (r.type != nullptr));
    if (r.type) {
      CHECK(j["error_type"] == r.type);
    }
    CHECK((tgi_header(reply, "Retry-After") != "none") == row_of(r.code).retryable);
  }
  rejected no;
  no.reason = fail(errc::overloaded, "full");
  no.retry_after = std::chrono::milliseconds(2500);
  const auto reply = tgi_refusal(no, 503);
  CHECK(reply.status == 429);
  CHECK(tgi_header(reply, "Retry-After") == "3");
  CHECK(json::parse(reply.body)["error"] == "Model is overloaded: full");
}

TEST_CASE("TGI's tokenize gives each token's offsets in characters") {
  struct row {
    const char* text;
    std::vector<std::string> pieces;
    json expected; // text, start, stop
  };
  const row rows[] = {
      {"ab c", {"ab", " c"}, json::parse(R"([["ab",0,2],[" c",2,4]])")},
      {"h\xC3\xA9!",
       {"h", "\xC3", "\xA9!"},
       json::parse(R"([["h",0,1],["\u00e9",1,2],["\u00e9!",1,3]])")},
      {"ab", {"<s>", " a", "b"}, json::parse(R"([["",0,0],["a",0,1],["b",1,2]])")}, // SentencePiece
      {"", {"<s>"}, json::parse(R"([["",0,0]])")}};
  for (const auto& r : rows) {
    CAPTURE(r.text);
    tokenized t;
    t.pieces = r.pieces;
    for (std::size_t i = 0; i < r.pieces.size(); ++i) {
      t.ids.push_back(static_cast<token_id>(i + 5));
    }
    const auto j = json::parse(tgi_tokenize_body(t, r.text));
    REQUIRE(j.size() == r.expected.size());
    for (std::size_t i = 0; i < j.size(); ++i) {
      CHECK(j[i]["id"] == i + 5);
      CHECK(json::array({j[i]["text"], j[i]["start"], j[i]["stop"]}) == r.expected[i]);
    }
  }
}

TEST_CASE("/info has the model and the effective limits") {
  model_card card;
  card.name = "smol";
  card.max_model_len = 4096;
  gateway_config config;
  config.build = "1.2";
  const auto j = json::parse(tgi_info_body(card, config));
  CHECK(j["model_id"] == "smol");
  CHECK(j["max_total_tokens"] == 4096);
  CHECK(j["max_input_tokens"] == 4095);
  CHECK(j["max_stop_sequences"] == 16);
  CHECK(j["max_best_of"] == 16);
  CHECK(j["max_concurrent_requests"] == 1024);
  CHECK(j["version"] == "1.2");
}
