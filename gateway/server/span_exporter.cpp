// Heavy: Asio and Beast.
#include "gateway/server/span_exporter.hpp"

#include "gateway/tracing/export_retry.hpp"
#include "gateway/tracing/otlp_endpoint.hpp"
#include "gateway/tracing/tracer.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <netdb.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <future>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace baton::gateway {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using error_code = boost::system::error_code;
using instant = tracer::instant;
using clock = instant::clock;
using std::chrono::milliseconds;

constexpr std::size_t batch_max = 256;     // requests in one POST: about 500 KiB of JSON
constexpr milliseconds batch_delay{1'000}; // time in which requests are collected
constexpr milliseconds export_timeout{
    5'000}; // of one POST; OpenTelemetry's default of 10 s allows for TLS
constexpr milliseconds drain_patience{2'000}; // bounds the stop of a gateway whose collector hangs
constexpr milliseconds look_interval{50};     // interval of the checks whether the time is up
constexpr std::size_t rpc_answer_bytes_max = 64 * 1024;
constexpr std::uint32_t answer_header_bytes_max = 16 * 1024;

using endpoints = std::vector<tcp::endpoint>;

endpoints look_up(const otlp_endpoint& where) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(where.host.c_str(), nullptr, &hints, &found) != 0) {
    return {};
  }
  endpoints all;
  for (const auto* a = found; a != nullptr; a = a->ai_next) {
    tcp::endpoint at;
    if (a->ai_addrlen <= at.capacity()) {
      std::memcpy(at.data(), a->ai_addr, a->ai_addrlen);
      at.resize(a->ai_addrlen);
      at.port(where.port);
      all.push_back(at);
    }
  }
  freeaddrinfo(found);
  return all;
}

// The outcome of an export: `failure` unless the collector accepted it.
struct outcome {
  std::optional<export_retry::failure> failure;
  std::string why;            // for the log
  std::uint64_t rejected = 0; // spans that the collector rejected
};

outcome not_sent(std::string why) {
  return {export_retry::failure{}, std::move(why), 0};
}
outcome not_answered(std::string why) {
  return {export_retry::failure{.was_sent = true, .status = 0, .retry_after = {}}, std::move(why),
          0};
}

template <class Answer>
outcome answered(const Answer& a) {
  if (http::to_status_class(a.result()) == http::status_class::successful)
    return {std::nullopt, {}, rejected_spans(a.body())};
  export_retry::failure f{
      .was_sent = true, .status = static_cast<int>(a.result_int()), .retry_after = {}};
  const auto wait = a[http::field::retry_after]; // seconds; a date is ignored
  std::uint32_t seconds = 0;
  if (const auto [end, ec] = std::from_chars(wait.data(), wait.data() + wait.size(), seconds);
      ec == std::errc() && end == wait.data() + wait.size())
    f.retry_after = std::chrono::seconds(seconds);
  return {f, fmt::format("status {}", a.result_int()), 0};
}

std::vector<span_attribute> resource_of(const gateway_config& config) {
  return {{"service.name", std::string("baton")},
          {"service.version", config.build},
          {"service.instance.id",
           fmt::format("gateway-{}-{}", config.self.value, config.incarnation.value)}};
}

} // namespace

struct span_exporter::wall {
  std::shared_ptr<gateway_state> facts;
  otlp_endpoint to;
  asio::io_context io;
  std::future<endpoints> lookup; // valid: a lookup is under way
  std::atomic<instant> stop_by{instant::max()};
  export_retry retry;
  std::thread thread;

  wall(std::shared_ptr<gateway_state> b, otlp_endpoint where)
      : facts(std::move(b)), to(std::move(where)), io(1) {}

  tracer& traces() { return *facts->tracer(); }
  bool is_late() const { return clock::now() >= stop_by.load(); }
  void loop();
  export_retry::verdict send(const std::vector<request_trace>& batch);
  outcome post(const std::string& body);
  endpoints addresses(instant until);
  void run(beast::tcp_stream& stream);
};

// Name resolution may take arbitrarily long. A detached thread does it, and this export waits no
// longer than its own deadline.
endpoints span_exporter::wall::addresses(instant until) {
  error_code ec;
  const auto literal = asio::ip::make_address(to.host == "localhost" ? "127.0.0.1" : to.host, ec);
  if (!ec) {
    return {tcp::endpoint(literal, to.port)};
  }
  if (!lookup.valid()) {
    std::promise<endpoints> found_promise;
    auto coming = found_promise.get_future();
    try {
      std::thread([found_promise = std::move(found_promise), where = to]() mutable {
        found_promise.set_value(look_up(where));
      }).detach();
    } catch (const std::system_error&) { // no thread available: treat the name as unknown
      return {};
    }
    lookup = std::move(coming);
  }
  while (clock::now() < until && !is_late()) {
    if (lookup.wait_for(look_interval) == std::future_status::ready) {
      return lookup.get();
    }
  }
  return {};
}

// Runs the operation started on the stream to its end; the stream has its own deadline.
void span_exporter::wall::run(beast::tcp_stream& stream) {
  io.restart();
  while (!io.stopped()) {
    io.run_for(look_interval);
    if (is_late()) {
      stream.cancel();
    }
  }
}

outcome span_exporter::wall::post(const std::string& body) {
  const auto until = clock::now() + export_timeout;
  const auto at = addresses(until);
  if (at.empty()) {
    return not_sent(fmt::format("the host '{}' is not found", to.host));
  }
  beast::tcp_stream stream(io);
  stream.expires_at(until);
  error_code ec;
  stream.async_connect(at, [&ec](error_code e, const tcp::endpoint&) { ec = e; });
  run(stream);
  if (ec) {
    return not_sent(fmt::format("connect: {}", ec.message()));
  }
  http::request<http::string_body> request(http::verb::post, to.path, 11);
  request.set(http::field::host, to.host_header());
  request.set(http::field::user_agent, "baton/" + facts->config().build);
  request.set(http::field::content_type, "application/json");
  request.keep_alive(false);
  request.body() = body;
  request.prepare_payload();
  http::async_write(stream, request, [&ec](error_code e, std::size_t) { ec = e; });
  run(stream);
  if (ec) {
    return not_answered(fmt::format("send: {}", ec.message()));
  }
  http::response_parser<http::string_body> answer;
  answer.header_limit(answer_header_bytes_max);
  answer.body_limit(rpc_answer_bytes_max);
  beast::flat_buffer buffer(answer_header_bytes_max + rpc_answer_bytes_max);
  http::async_read(stream, buffer, answer, [&ec](error_code e, std::size_t) { ec = e; });
  run(stream);
  if (ec) {
    return not_answered(fmt::format("answer: {}", ec.message()));
  }
  return answered(answer.get());
}

// A series of failures is logged twice: at the first failure and when exports succeed again.
export_retry::verdict span_exporter::wall::send(const std::vector<request_trace>& batch) {
  std::vector<span> spans;
  for (const auto& t : batch) {
    for (auto& s : t.spans()) {
      spans.push_back(std::move(s));
    }
  }
  const auto& config = facts->config();
  const auto end = post(otlp_body(resource_of(config), config.build, spans));
  if (end.failure) {
    const auto verdict = retry.failed(*end.failure, clock::now());
    if (retry.failures() == 1) {
      spdlog::warn("{} rejects spans: {}; they are {}", config.otlp_endpoint, end.why,
                   verdict.is_kept ? "kept for a retry" : "dropped");
    }
    if (!verdict.is_kept) {
      facts->metrics().spans(0, spans.size());
    }
    return verdict;
  }
  if (retry.failures() > 0) {
    spdlog::info("{} accepts spans again", config.otlp_endpoint);
  }
  retry.taken();
  const auto lost = std::min<std::uint64_t>(end.rejected, spans.size());
  facts->metrics().spans(spans.size() - lost, lost);
  return {};
}

// A rejected batch is kept until its retry; finished requests queue behind it, within the tracer's
// bound.
void span_exporter::wall::loop() {
  std::vector<request_trace> batch;
  auto until = clock::now() + batch_delay;
  while (!is_late()) {
    if (batch.empty()) {
      const bool is_paused = retry.failures() > 0;
      batch = traces().take(batch_max, std::min(until, stop_by.load()), /*is_eager=*/!is_paused);
    } else if (clock::now() < until && !traces().is_draining()) {
      std::this_thread::sleep_for(look_interval);
      continue;
    }
    facts->metrics().spans(0, traces().take_dropped());
    if (batch.empty()) {
      if (traces().is_drained()) {
        break;
      }
      until = clock::now() + batch_delay;
      continue;
    }
    const bool has_more = batch.size() == batch_max;
    const auto verdict = send(batch);
    if (!verdict.is_kept) {
      batch.clear();
    }
    const bool has_failed = retry.failures() > 0;
    until = clock::now() + (has_failed ? verdict.pause : has_more ? milliseconds(0) : batch_delay);
    if (has_failed && traces().is_draining()) { // one or two last tries, with a pause between them
      std::this_thread::sleep_for(look_interval);
    }
  }
  for (const auto& t : batch) {
    facts->metrics().spans(0, t.spans().size());
  }
  traces().close();
  facts->metrics().spans(0, traces().take_dropped());
}

span_exporter::span_exporter(std::unique_ptr<wall> w) : wall_(std::move(w)) {}

span_exporter::~span_exporter() {
  stop();
}

result<std::unique_ptr<span_exporter>> span_exporter::start(std::shared_ptr<gateway_state> facts) {
  ENSURE(facts->tracer() != nullptr, "tracing is off");
  auto where = parse_otlp_endpoint(facts->config().otlp_endpoint);
  if (!where) {
    return where.error();
  }
  facts->metrics().spans(0, 0); // creates the counters
  auto w = std::make_unique<wall>(std::move(facts), *std::move(where));
  w->thread = std::thread([to = w.get()] { to->loop(); });
  return std::make_unique<span_exporter>(std::move(w));
}

void span_exporter::stop() {
  if (!wall_->thread.joinable()) {
    return;
  }
  wall_->stop_by = clock::now() + drain_patience;
  wall_->traces().drain();
  wall_->thread.join();
}

} // namespace baton::gateway
