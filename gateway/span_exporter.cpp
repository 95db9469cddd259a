// Heavy: Asio and Beast.
#include "gateway/span_exporter.hpp"

#include "gateway/otlp_endpoint.hpp"
#include "gateway/tracer.hpp"

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
constexpr milliseconds batch_delay{1'000}; // in which they gather
constexpr milliseconds export_timeout{
    5'000};                              // of one POST; OpenTelemetry's 10 s is for others' TLS
constexpr milliseconds pause_min{1'000}; // after a failure, doubled with each
constexpr milliseconds pause_max{30'000};
constexpr milliseconds drain_patience{2'000}; // a gateway that stops is not to wait for a collector
constexpr milliseconds look_interval{50};     // at whether the time is up meanwhile
constexpr std::size_t answer_bytes_max = 64 * 1024;
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

// Requires: failures > 0.
milliseconds pause_after(std::uint32_t failures) {
  constexpr std::uint32_t doublings_max = 5; // beyond pause_max
  return std::min(pause_max, pause_min * (1u << std::min(failures - 1, doublings_max)));
}

std::vector<span_attribute> resource_of(const gateway_config& config) {
  return {
      {"service.name", std::string("baton")},
      {"service.version", config.build},
      {"service.instance.id", fmt::format("gateway-{}-{}", config.self.value, config.epoch.value)}};
}

} // namespace

struct span_exporter::wall {
  std::shared_ptr<board> facts;
  otlp_endpoint to;
  asio::io_context io;
  std::future<endpoints> lookup; // valid: one is under way
  std::atomic<instant> stop_by{instant::max()};
  std::uint32_t failures = 0; // in a row
  std::thread thread;

  wall(std::shared_ptr<board> b, otlp_endpoint where)
      : facts(std::move(b)), to(std::move(where)), io(1) {}

  tracer& traces() { return *facts->tracer(); }
  bool is_late() const { return clock::now() >= stop_by.load(); }
  void loop();
  void send(const std::vector<request_trace>& batch);
  result<std::uint64_t> post(const std::string& body);
  endpoints addresses(instant until);
  void run(beast::tcp_stream& stream);
};

// A name may take as long as its resolver likes: it is asked on a thread that nobody waits for
// longer than this export may take.
endpoints span_exporter::wall::addresses(instant until) {
  error_code ec;
  const auto literal = asio::ip::make_address(to.host == "localhost" ? "127.0.0.1" : to.host, ec);
  if (!ec) {
    return {tcp::endpoint(literal, to.port)};
  }
  if (!lookup.valid()) {
    std::promise<endpoints> told;
    auto coming = told.get_future();
    try {
      std::thread([told = std::move(told), where = to]() mutable {
        told.set_value(look_up(where));
      }).detach();
    } catch (const std::system_error&) { // no thread is to be had: as if the name were unknown
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

// What was begun on the stream, which has a deadline of its own, to its end.
void span_exporter::wall::run(beast::tcp_stream& stream) {
  io.restart();
  while (!io.stopped()) {
    io.run_for(look_interval);
    if (is_late()) {
      stream.cancel();
    }
  }
}

// How many spans of it were not taken. Errors: io_failed, in words for the log.
result<std::uint64_t> span_exporter::wall::post(const std::string& body) {
  const auto until = clock::now() + export_timeout;
  const auto at = addresses(until);
  if (at.empty()) {
    return fail(errc::io_failed, "the name '{}' is not found", to.host);
  }
  beast::tcp_stream stream(io);
  stream.expires_at(until);
  error_code ec;
  stream.async_connect(at, [&ec](error_code e, const tcp::endpoint&) { ec = e; });
  run(stream);
  if (ec) {
    return fail(errc::io_failed, "connect: {}", ec.message());
  }
  http::request<http::string_body> ask(http::verb::post, to.path, 11);
  ask.set(http::field::host, to.host_header());
  ask.set(http::field::user_agent, "baton/" + facts->config().build);
  ask.set(http::field::content_type, "application/json");
  ask.keep_alive(false);
  ask.body() = body;
  ask.prepare_payload();
  http::async_write(stream, ask, [&ec](error_code e, std::size_t) { ec = e; });
  run(stream);
  if (ec) {
    return fail(errc::io_failed, "send: {}", ec.message());
  }
  http::response_parser<http::string_body> answer;
  answer.header_limit(answer_header_bytes_max);
  answer.body_limit(answer_bytes_max);
  beast::flat_buffer buffer(answer_header_bytes_max + answer_bytes_max);
  http::async_read(stream, buffer, answer, [&ec](error_code e, std::size_t) { ec = e; });
  run(stream);
  if (ec) {
    return fail(errc::io_failed, "answer: {}", ec.message());
  }
  if (answer.get().result() != http::status::ok) {
    return fail(errc::io_failed, "status {}", answer.get().result_int());
  }
  return rejected_spans(answer.get().body());
}

// One failure, or a hundred in a row: the log hears of the first, and of the end.
void span_exporter::wall::send(const std::vector<request_trace>& batch) {
  std::vector<span> spans;
  for (const auto& t : batch) {
    for (auto& s : t.spans()) {
      spans.push_back(std::move(s));
    }
  }
  const auto& config = facts->config();
  const auto refused = post(otlp_body(resource_of(config), config.build, spans));
  if (!refused) {
    if (++failures == 1) {
      spdlog::warn("spans are dropped: {} takes none: {}", config.otlp_endpoint,
                   refused.error().message);
    }
    facts->metrics().spans(0, spans.size());
    return;
  }
  if (std::exchange(failures, 0) > 0) {
    spdlog::info("{} takes spans again", config.otlp_endpoint);
  }
  const auto lost = std::min<std::uint64_t>(*refused, spans.size());
  facts->metrics().spans(spans.size() - lost, lost);
}

void span_exporter::wall::loop() {
  auto until = clock::now() + batch_delay;
  while (!is_late()) {
    const bool is_paused = failures > 0;
    const auto batch =
        traces().take(batch_max, std::min(until, stop_by.load()), /*is_eager=*/!is_paused);
    facts->metrics().spans(0, traces().take_dropped());
    if (batch.empty() && traces().is_drained()) {
      break;
    }
    if (!batch.empty()) {
      send(batch);
    }
    const bool has_more = batch.size() == batch_max;
    until = clock::now() + (failures > 0 ? pause_after(failures)
                            : has_more   ? milliseconds(0)
                                         : batch_delay);
  }
  traces().close();
  facts->metrics().spans(0, traces().take_dropped());
}

span_exporter::span_exporter(std::unique_ptr<wall> w) : wall_(std::move(w)) {}

span_exporter::~span_exporter() {
  stop();
}

result<std::unique_ptr<span_exporter>> span_exporter::start(std::shared_ptr<board> facts) {
  ENSURE(facts->tracer() != nullptr, "nothing is traced");
  auto where = parse_otlp_endpoint(facts->config().otlp_endpoint);
  if (!where) {
    return where.error();
  }
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
