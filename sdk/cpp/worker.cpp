#include "sdk/cpp/baton/worker.hpp"

#include "schema/limits.hpp"
#include "sdk/cpp/worker_link.hpp"

#include <pthread.h>

#include <array>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace baton {
namespace {

// EX_CONFIG: the supervisor stops restarting it, and gives the log's last line as the reason.
constexpr int exit_permanent = 78;

int give_up(const std::string& why) {
  std::fprintf(stderr, "baton_worker error %s\n", why.c_str());
  return exit_permanent;
}

result<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr)
    return fail(errc::bad_config,
                "{} is not set: `cluster up` starts workers, with nodes.toml's [[workers]]", name);
  return std::string(value);
}

template <class Number>
result<Number> number(const char* name) {
  auto text = variable(name);
  if (!text)
    return text.error();
  Number value = 0;
  const auto* end = text->data() + text->size();
  if (std::from_chars(text->data(), end, value).ptr != end)
    return fail(errc::bad_config, "{} is '{}'", name, *text);
  return value;
}

struct environment {
  worker_place place;
  sdk::link_settings link;
};

result<environment> read_environment() {
  environment e;
  using named = std::pair<const char*, std::string*>;
  for (const auto& [name, to] : std::array{named{"BATON_WORKER_MODEL", &e.place.model},
                                           named{"BATON_WORKER_VERSION", &e.place.version},
                                           named{"BATON_WORKER_NAME", &e.place.name},
                                           named{"BATON_WORKER_DOOR", &e.link.endpoint}}) {
    auto value = variable(name);
    if (!value)
      return value.error();
    *to = *std::move(value);
  }
  const auto process = number<std::uint32_t>("BATON_WORKER_NODE");
  const auto incarnation = number<std::uint64_t>("BATON_WORKER_EPOCH");
  const auto batch_size = number<std::uint32_t>("BATON_WORKER_BATCH_SIZE");
  if (!process || !incarnation || !batch_size)
    return !process ? process.error() : !incarnation ? incarnation.error() : batch_size.error();
  e.place.batch_size = *batch_size;
  if (variable("BATON_WORKER_GPU_ID")) {
    const auto gpu = number<std::uint32_t>("BATON_WORKER_GPU_ID");
    if (!gpu)
      return gpu.error();
    e.place.gpu_id = *gpu;
  }
  e.place.door = variable("BATON_DOOR") ? *variable("BATON_DOOR") : std::string();
  e.link.process = {*process};
  e.link.incarnation = {*incarnation};
  e.link.name = e.place.name;
  return e;
}

void end_open(std::span<work> batch, const std::string& why) {
  for (auto& one : batch)
    if (!one.has_ended())
      one.fail(fail(errc::handler_failed, "{}", why));
}

void run_batch(worker_handler& handler, sdk::worker_link& link, sdk::linked_batch batch) {
  std::vector<work> works;
  works.reserve(batch.items.size());
  for (auto& item : batch.items) {
    const auto request = item.request;
    const auto connection_number = batch.connection_number;
    works.emplace_back(std::move(item), work::wiring{[&link, connection_number](inferred p) {
                                                       link.put(connection_number, std::move(p));
                                                     },
                                                     [&link, connection_number, request] {
                                                       return link.is_cancelled(connection_number,
                                                                                request);
                                                     }});
  }
  try {
    handler.handle(works);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "the handler threw: %s\n", e.what());
    return end_open(works, e.what());
  }
  end_open(works, "the handler has left the request unanswered");
}

// Waits for SIGTERM on a separate thread.
std::jthread leave_on_sigterm(sdk::worker_link& link) {
  return std::jthread([&link](const std::stop_token& stop) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    const timespec patience{0, 100'000'000};
    while (!stop.stop_requested())
      if (sigtimedwait(&set, nullptr, &patience) == SIGTERM)
        return link.leave();
  });
}

} // namespace

result<client> worker_place::connect(client_options options) const {
  if (door.empty())
    return fail(errc::bad_config, "gateway.zmq is empty: there is no ZeroMQ server to ask");
  if (const char* key = std::getenv("BATON_API_KEY"); key != nullptr && options.api_key.empty())
    options.api_key = key;
  options.name = name;
  return client::connect(door, options);
}

void work::send(inferred p, bool is_last) {
  if (has_ended_)
    return;
  if (auto ok = check_limits(p); !ok) {
    p = {};
    p.failure =
        baton::fail(errc::handler_failed, "an answer that cannot be sent: {}", ok.error().message);
  }
  p.request = asked_.request;
  p.index = next_index_++;
  p.is_last = has_ended_ = is_last || p.failure.has_value();
  wires_.send(std::move(p));
}

void work::fail(error why) {
  inferred p;
  p.failure = std::move(why);
  send(std::move(p), /*is_last=*/true);
}

int serve_worker(worker_handler& handler) {
  auto around = read_environment();
  if (!around)
    return give_up(around.error().message);
  std::signal(SIGINT, SIG_IGN); // from the terminal: the root drains, and logs it
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &term, nullptr); // threads inherit it
  if (auto ok = handler.initialize(around->place); !ok)
    return give_up(ok.error().message);
  sdk::worker_link link(around->link);
  const auto leaver = leave_on_sigterm(link);
  for (;;) {
    auto batch = link.next_batch();
    if (!batch) {
      std::fprintf(stderr, "the link is lost: %s\n", batch.error().message.c_str());
      return EXIT_FAILURE;
    }
    if (!*batch)
      break;
    run_batch(handler, link, **std::move(batch));
  }
  handler.finalize();
  return EXIT_SUCCESS;
}

} // namespace baton
