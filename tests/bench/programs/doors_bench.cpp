// The gateway's own speed behind a head that is faster than any model. Measures server-sent events,
// or responses of a gRPC stream, per second of CPU time, and a text's latency through the gateway.
// The head is a thread that sends a step at a time to the pipeline client. The client process only
// reads its sockets. Run by tests/bench/sections/doors.py and by people.
#include "gateway/dispatch/request_router.hpp"
#include "gateway/server/api_servers.hpp"
#include "schema/ensure.hpp"
#include "tests/bench/programs/doors_grpc_client.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>

using namespace baton;

namespace {

using clock_type = std::chrono::steady_clock;

constexpr std::size_t streams_most = 512;
constexpr std::size_t rows_of_step = 32; // one micro-batch of several
constexpr std::size_t events_ahead = 48; // per stream, not yet read by the client
constexpr auto seconds_max = std::chrono::seconds(120);
constexpr process_id head_process{2};

struct load_options {
  std::size_t streams = 64;
  std::uint32_t tokens = 4000;       // per stream
  std::chrono::microseconds pace{0}; // between micro-batches; 0: as fast as the client reads
  bool is_grpc = false;              // KServe's ModelStreamInfer instead of server-sent events
};

// Shared by the two processes.
struct shared_counts {
  std::atomic<std::uint64_t> read{0};  // events read by the client
  std::atomic<std::uint64_t> ended{0}; // ended streams
};

std::int64_t now_ns() {
  return std::chrono::nanoseconds(clock_type::now().time_since_epoch()).count();
}

double cpu_seconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// -- The client --

// One stream: counts its events, and reads the send time behind each '@'.
class http_reader {
public:
  explicit http_reader(std::uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ENSURE(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0, "connect");
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  int fd() const noexcept { return fd_; }

  void ask(std::uint32_t tokens) const {
    const auto body =
        fmt::format(R"({{"model":"bench","prompt":"x","stream":true,"max_tokens":{}}})", tokens);
    const auto request =
        fmt::format("POST /v1/completions HTTP/1.1\r\nHost: bench\r\n"
                    "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                    body.size(), body);
    ENSURE(send(fd_, request.data(), request.size(), 0) == static_cast<ssize_t>(request.size()),
           "send");
  }

  // Reads what is available. False: the stream is over.
  bool read(shared_counts& counts, std::vector<double>* micros) {
    static char bytes[256 * 1024];
    const auto n = recv(fd_, bytes, sizeof bytes, 0);
    ENSURE(n > 0, "a stream broke off after {} events", events_);
    const auto arrived = now_ns();
    std::uint64_t events = 0;
    for (const char* c = bytes; c != bytes + n; ++c) {
      events += *c == '\n' && last_ == '\n' ? 1 : 0; // JSON here has no newline
      last_ = *c;
      if (micros) {
        take_stamp(*c, arrived, *micros);
      }
    }
    events_ += events;
    counts.read += events;
    constexpr std::string_view end = "0\r\n\r\n"; // all is written at once
    return !std::string_view(bytes, static_cast<std::size_t>(n)).ends_with(end);
  }
  std::uint64_t events() const noexcept { return events_; }

private:
  void take_stamp(char c, std::int64_t arrived, std::vector<double>& micros) {
    if (c == '@') {
      is_stamp_ = true;
      stamp_ = 0;
    } else if (is_stamp_ && c >= '0' && c <= '9') {
      stamp_ = stamp_ * 10 + (c - '0');
    } else if (is_stamp_) {
      is_stamp_ = false;
      micros.push_back(static_cast<double>(arrived - stamp_) / 1000.0);
    }
  }

  int fd_;
  char last_ = 0;
  std::uint64_t events_ = 0;
  bool is_stamp_ = false;
  std::int64_t stamp_ = 0;
};

// Writes the times to `out`, as doubles.
void be_client(std::uint16_t port, const load_options& w, shared_counts& counts, int out) {
  std::vector<http_reader> all;
  const int poll = epoll_create1(0);
  for (std::size_t i = 0; i < w.streams; ++i) {
    all.emplace_back(port);
    epoll_event e{};
    e.events = EPOLLIN;
    e.data.u64 = i;
    ENSURE(epoll_ctl(poll, EPOLL_CTL_ADD, all.back().fd(), &e) == 0, "epoll_ctl");
    all.back().ask(w.tokens);
  }
  std::vector<double> micros;
  auto* times = w.pace.count() > 0 ? &micros : nullptr;
  for (std::size_t left = w.streams; left > 0;) {
    epoll_event ready[64];
    const int n = epoll_wait(poll, ready, 64, static_cast<int>(seconds_max.count() * 1000));
    ENSURE(n > 0, "nothing came for {} s", seconds_max.count());
    for (int i = 0; i < n; ++i) {
      auto& one = all[ready[i].data.u64];
      if (!one.read(counts, times)) {
        // One event per token, and "data: [DONE]"; the finish is with the last token or after it.
        ENSURE(one.events() > w.tokens, "{} events of {} tokens", one.events(), w.tokens);
        epoll_ctl(poll, EPOLL_CTL_DEL, one.fd(), nullptr);
        --left;
        ++counts.ended;
      }
    }
  }
  const auto bytes = micros.size() * sizeof(double);
  for (std::size_t done = 0; done < bytes;) {
    const auto n = write(out, reinterpret_cast<const char*>(micros.data()) + done, bytes - done);
    ENSURE(n > 0, "write");
    done += static_cast<std::size_t>(n);
  }
}

// -- The head --

// A request that the tokenizer has passed on.
struct admitted {
  std::uint64_t request = 0;
  ticket_id ticket;
};

class roll {
public:
  void add(admitted one) {
    const std::lock_guard lock(mutex_);
    all_.push_back(one);
    more_.notify_all();
  }
  std::vector<admitted> wait(std::size_t count) {
    std::unique_lock lock(mutex_);
    ENSURE(more_.wait_for(lock, seconds_max, [&] { return all_.size() >= count; }),
           "{} of {} streams have come", all_.size(), count);
    return all_;
  }

private:
  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<admitted> all_;
};

using client_holder = std::shared_ptr<gateway::pipeline_client_actor>;

actors::scheduler_actor::behavior_type scheduler(actors::scheduler_actor::pointer self,
                                                 client_holder pipeline_client) {
  auto last = std::make_shared<std::uint64_t>(0);
  return {
      [self, pipeline_client, last](const reserve& m) {
        self->send(*pipeline_client, granted{m.request, ticket_id{++*last}, epoch_id{1}});
      },
      [](const admit&) {},
      [](const cancel&) {},
      [](const resume&) {},
      [](const sampled&) {},
      [](const stage_ready&) {},
      [](const epoch_opened&) {},
      [](const generations&) {},
      [](const load_refused&) {},
      [](const actors::peer_up&) {},
      [](const actors::peer_down&) {},
      [](const drain&) {},
      [](const actors::tick&) {},
  };
}

actors::tokenizer_actor::behavior_type tokenizer(std::shared_ptr<roll> to) {
  return {
      [to](const submit& m) {
        to->add({m.request, m.ticket});
      },
      [](const tokenize&) {},
      [](const detokenize&) {},
  };
}

chunk chunk_of(const admitted& who, std::uint32_t index, std::uint32_t tokens, bool is_stamped) {
  chunk c;
  c.request = who.request;
  c.ticket = who.ticket;
  c.index = c.output_tokens = index;
  c.count = 1;
  c.prompt_tokens = 1;
  c.ids = {static_cast<token_id>(index)};
  c.text = is_stamped ? fmt::format("@{} ", now_ns()) : std::string(bench::piece_text);
  c.finish = index == tokens ? finish::length : finish::none;
  return c;
}

// Returns its CPU time in seconds.
double flood(const gateway::pipeline_client_actor& pipeline_client,
             const std::vector<admitted>& all, const load_options& w, const shared_counts& counts) {
  std::uint64_t sent = 0;
  const bool is_paced = w.pace.count() > 0;
  auto next = clock_type::now();
  for (std::uint32_t index = 1; index <= w.tokens; ++index) {
    for (std::size_t first = 0; first < all.size(); first += rows_of_step) {
      chunks step;
      const auto last = std::min(first + rows_of_step, all.size());
      for (auto i = first; i < last; ++i) {
        step.all.push_back(chunk_of(all[i], index, w.tokens, is_paced));
      }
      sent += step.all.size();
      caf::anon_send(pipeline_client, std::move(step));
      if (is_paced) {
        next += w.pace;
        std::this_thread::sleep_until(next);
      }
      while (sent > counts.read + events_ahead * all.size()) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    }
  }
  return cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
}

std::uint16_t port_of(const std::string& url) {
  std::uint16_t port = 0;
  const auto at = url.rfind(':') + 1;
  std::from_chars(url.data() + at, url.data() + url.size(), port);
  return port;
}

std::vector<double> read_times(int from) {
  std::vector<double> all;
  double one = 0;
  std::string bytes;
  char part[65536];
  for (ssize_t n = 0; (n = ::read(from, part, sizeof part)) > 0;) {
    bytes.append(part, static_cast<std::size_t>(n));
  }
  for (std::size_t at = 0; at + sizeof one <= bytes.size(); at += sizeof one) {
    std::copy_n(bytes.data() + at, sizeof one, reinterpret_cast<char*>(&one));
    all.push_back(one);
  }
  return all;
}

struct measured {
  double gateway_seconds = 0; // CPU time
  double wall_seconds = 0;
  std::uint64_t events = 0;
};

result<measured> be_gateway(const load_options& w, shared_counts& counts, int port_out) {
  caf::actor_system_config options;
  options.set("scheduler.policy", caf::atom("sharing"));
  options.set("scheduler.max-threads", std::size_t{1});
  caf::actor_system system(options);
  gateway::gateway_config config;
  config.self = process_id{1};
  config.incarnation = incarnation_id{1};
  config.http = "127.0.0.1:0";
  if (w.is_grpc) {
    config.grpc.kserve = "127.0.0.1:0";
  }
  config.pipelines = {{head_process, "bench", 0, false}};
  config.stream_buffer_max_bytes = 1u << 20; // only the machine is slow here
  auto facts = std::make_shared<gateway::gateway_state>(config);
  const auto client = std::make_shared<gateway::pipeline_client_actor>();
  const auto who = std::make_shared<roll>();
  const auto head = system.spawn(scheduler, client);
  const auto words = system.spawn(tokenizer, who);
  const auto all = gateway::spawn_request_router(system, facts, {{head, words}});
  *client = all.pipeline_clients[0];
  model_card card;
  card.name = "bench";
  card.max_model_len = 1u << 20;
  card.vocabulary_size = 256;
  card.sequences_max = streams_most;
  card.phase = phase::ready;
  caf::anon_send(all.pipeline_clients[0], card);
  auto servers = gateway::api_servers::start(system, facts, all.router);
  if (!servers) {
    return servers.error();
  }
  while (standing_of(*facts->look()).phase != phase::ready) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const auto port = port_of(w.is_grpc ? (*servers)->grpc_address(gateway::grpc_service::kserve)
                                      : (*servers)->url());
  ENSURE(write(port_out, &port, sizeof port) == sizeof port, "write");
  const auto streams = who->wait(w.streams);
  const auto begun = clock_type::now();
  const double before = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
  double heads_own = 0;
  std::thread producer([&] { heads_own = flood(all.pipeline_clients[0], streams, w, counts); });
  producer.join();
  while (counts.ended < w.streams) {
    ENSURE(clock_type::now() - begun < seconds_max, "{} streams have ended", counts.ended.load());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  measured out;
  out.gateway_seconds = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - before - heads_own;
  out.wall_seconds = std::chrono::duration<double>(clock_type::now() - begun).count();
  out.events = counts.read;
  (*servers)->stop();
  caf::anon_send_exit(all.router, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(all.pipeline_clients[0], caf::exit_reason::user_shutdown);
  caf::anon_send_exit(head, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(words, caf::exit_reason::user_shutdown);
  return out;
}

int run(const load_options& w) {
  void* memory = mmap(nullptr, sizeof(shared_counts), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ENSURE(memory != MAP_FAILED, "mmap");
  auto& counts = *new (memory) shared_counts;
  int port_pipe[2], time_pipe[2];
  ENSURE(pipe(port_pipe) == 0 && pipe(time_pipe) == 0, "pipe");
  const auto child = fork(); // before there are other threads
  ENSURE(child >= 0, "fork");
  if (child == 0) {
    close(port_pipe[1]);
    close(time_pipe[0]);
    std::uint16_t port = 0;
    if (::read(port_pipe[0], &port, sizeof port) != sizeof port) {
      _exit(0); // the gateway has failed, and reports it itself
    }
    if (w.is_grpc) {
      bench::read_grpc_streams({port, w.streams, w.tokens, seconds_max}, counts.read, counts.ended);
    } else {
      be_client(port, w, counts, time_pipe[1]);
    }
    _exit(0);
  }
  close(time_pipe[1]);
  std::vector<double> micros;
  std::thread times([&] { micros = read_times(time_pipe[0]); });
  const auto made = be_gateway(w, counts, port_pipe[1]);
  close(port_pipe[1]);
  times.join();
  int status = 0;
  waitpid(child, &status, 0);
  if (!made || status != 0) {
    fmt::print(stderr, "doors_bench: {}\n", made ? "the client failed" : made.error().message);
    return 1;
  }
  fmt::print("{{\"streams\":{},\"events\":{},\"gateway_seconds\":{:.4f},\"seconds\":{:.4f}",
             w.streams, made->events, made->gateway_seconds, made->wall_seconds);
  if (!micros.empty()) {
    std::sort(micros.begin(), micros.end());
    const auto at = [&](double share) {
      return micros[static_cast<std::size_t>(share * static_cast<double>(micros.size() - 1))];
    };
    fmt::print(",\"p50_us\":{:.1f},\"p99_us\":{:.1f},\"max_us\":{:.1f}", at(0.5), at(0.99),
               micros.back());
  }
  fmt::print("}}\n");
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  load_options w;
  if (argc == 5 && std::strcmp(argv[4], "grpc") == 0) {
    w.is_grpc = true;
    // The gRPC library of this build.
    const auto program = std::filesystem::read_symlink("/proc/self/exe");
    const auto build = program.parent_path().parent_path().parent_path();
    setenv("BATON_DOORS", (build / "cluster" / "doors").c_str(), /*replace=*/0);
    --argc;
  }
  if (argc == 4) {
    w.streams = std::strtoul(argv[1], nullptr, 10);
    w.tokens = static_cast<std::uint32_t>(std::strtoul(argv[2], nullptr, 10));
    w.pace = std::chrono::microseconds(std::strtoul(argv[3], nullptr, 10));
  }
  const bool has_sizes = w.streams > 0 && w.streams <= streams_most && w.tokens > 0;
  if (argc != 4 || !has_sizes || (w.is_grpc && w.pace.count() > 0)) {
    fmt::print(stderr,
               "doors_bench STREAMS TOKENS PACE_US [grpc]    PACE_US between micro-batches of {} "
               "streams; 0: as fast as they are read, without times; gRPC has no other\n",
               rows_of_step);
    return 2;
  }
  return run(w);
}
