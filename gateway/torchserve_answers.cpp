// Heavy: Asio. KServe's instances, which one answer has together.
#include "gateway/http_answers.hpp"
#include "gateway/torchserve_error.hpp"
#include "gateway/torchserve_response.hpp"

#include <utility>
#include <vector>

namespace baton::gateway {
namespace {

using clock = http_connection::clock;

struct instance {
  open_request open;
  torchserve_whole answer;
  clock::time_point granted;
};

http_reply refuse(rejected no, const std::string& model) {
  return torchserve_failure(torchserve_busy(std::move(no.reason), model), no.retry_after);
}

// What has come of one so far. The error that it has ended with, if there is one.
std::optional<http_reply> take(instance& one) {
  while (!one.answer.is_complete()) {
    auto event = one.open.next();
    if (!event) {
      break;
    }
    if (auto* no = std::get_if<rejected>(&*event)) {
      one.open.ended();
      return refuse(std::move(*no), one.open.model());
    }
    if (const auto* f = std::get_if<failed>(&*event)) {
      one.open.ended();
      return torchserve_failure(f->reason);
    }
    if (auto* c = std::get_if<chunk>(&*event)) {
      if (const auto failure = failure_of(*c)) {
        return torchserve_failure(*failure);
      }
      one.answer.add(std::move(*c));
    } else if (std::holds_alternative<granted>(*event)) {
      one.granted = clock::now();
    }
  }
  if (one.answer.is_complete()) {
    one.open.ended();
  }
  return std::nullopt;
}

// Nothing while some are still to come.
std::optional<http_reply> take_all(std::vector<instance>& all) {
  std::vector<std::string> texts;
  for (auto& one : all) {
    if (auto failure = take(one)) {
      return failure; // the others are dropped, which cancels their tickets
    }
    if (one.answer.is_complete()) {
      texts.push_back(one.answer.text());
    }
  }
  if (texts.size() < all.size()) {
    return std::nullopt;
  }
  http_reply reply;
  reply.body = predictions_body(texts);
  return reply;
}

} // namespace

asio::awaitable<after> answer(http_connection& client, torchserve_batch call) {
  auto& core = client.core();
  auto& counts = core.facts->torchserve();
  std::vector<instance> all;
  const auto model = call.requests.front().model;
  for (auto& request : call.requests) {
    counts.asked(model, /*has_version=*/false);
    auto open = core.http.open(client.who, std::move(request), /*add_generation_prompt=*/true,
                               /*is_stream=*/false, client.wake());
    if (!open) {
      co_return co_await client.reply(refuse(open.refusal(), model));
    }
    all.push_back({*std::move(open), torchserve_whole({}), clock::now()});
  }
  client.watch_client();
  auto reply = take_all(all);
  while (!reply && !client.is_over()) {
    co_await client.bell_of().wait(client.limits().sse_ping_interval);
    reply = take_all(all);
  }
  client.unwatch_client();
  if (client.is_client_gone()) {
    client.count_request(row_of(errc::cancelled).http_status); // nginx's 499
    core.http.counts().client_gone("http");
  }
  if (!reply || client.is_over()) {
    co_return after::close;
  }
  if (reply->status == 200) {
    const auto took = clock::now() - client.started_at;
    for (const auto& one : all) {
      counts.predicted(model, /*has_version=*/false, one.granted - client.started_at, took);
    }
  }
  co_return co_await client.reply(*reply);
}

} // namespace baton::gateway
