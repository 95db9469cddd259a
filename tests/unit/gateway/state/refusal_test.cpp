// A refusal in the client's response: status, Retry-After and the queue, by the operator's choice.
#include "gateway/state/refusal.hpp"
#include "gateway/websocket/websocket_messages.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace baton;
using namespace baton::gateway;
using nlohmann::json;

namespace {

rejected rejected_with(errc code) {
  rejected no;
  no.reason = fail(code, "full");
  no.retry_after = std::chrono::milliseconds(2100);
  no.queue_position = 7;
  return no;
}

std::string retry_after(const http_reply& r) {
  for (const auto& [name, value] : r.headers) {
    if (name == "Retry-After") {
      return value;
    }
  }
  return {};
}

} // namespace

TEST_CASE("only a refusal for load has the configured status") {
  for (const int status : {503, 429, 529}) {
    CAPTURE(status);
    CHECK(refusal_reply(rejected_with(errc::overloaded), status).status == status);
    CHECK(refusal_reply(rejected_with(errc::no_job_ticket), status).status == status);
  }
  for (const auto& row : errc_table()) {
    CAPTURE(row.name);
    if (!is_for_load(row.code)) {
      CHECK(refusal_reply(rejected_with(row.code), 429).status == row.http_status);
    }
  }
}

TEST_CASE("a refusal for load has a retry time and the queue length") {
  const auto reply = refusal_reply(rejected_with(errc::overloaded), 529);
  CHECK(retry_after(reply) == "3");
  CHECK(json::parse(reply.body)["error"] == json{{"message", "full"},
                                                 {"type", "overloaded_error"},
                                                 {"param", nullptr},
                                                 {"code", "overloaded"},
                                                 {"retry_after", 3},
                                                 {"queue_position", 7}});
  const auto text = render(reply, {});
  CHECK(text.starts_with("HTTP/1.1 529 Overloaded\r\n"));
  CHECK(render(refusal_reply(rejected_with(errc::overloaded), 429), {})
            .starts_with("HTTP/1.1 429 Too Many Requests\r\n"));
  const auto socket = json::parse(socket_refusal_text("a", rejected_with(errc::no_job_ticket)));
  CHECK(socket["id"] == "a");
  CHECK(socket["error"]["retry_after"] == 3);
  CHECK(socket["error"]["queue_position"] == 7);
}

TEST_CASE("other refusals contain known values only") {
  const auto draining = json::parse(refusal_body(rejected_with(errc::draining)))["error"];
  CHECK(draining["retry_after"] == 3);
  CHECK_FALSE(draining.contains("queue_position"));
  const auto wrong = refusal_reply(rejected_with(errc::invalid_value), 503);
  CHECK(retry_after(wrong).empty());
  CHECK(wrong.body == error_reply(rejected_with(errc::invalid_value).reason).body);
}

TEST_CASE("a refusal by the gateway itself has the queue length that the head last reported") {
  snapshot now;
  const auto full = fail(errc::overloaded, "full");
  CHECK(refuse_here(full, now).queue_position == 0);
  now.pipelines[0].load.emplace().waiting = 12;
  const auto no = refuse_here(full, now);
  CHECK(no.queue_position == 12);
  CHECK(no.retry_after == std::chrono::seconds(1));
  CHECK(no.reason == full);
  CHECK(refuse_here(fail(errc::invalid_value, "no"), now).retry_after.count() == 0);
}
