// The real API servers over fake heads, for the tests in this directory. Flags choose addresses,
// limits and pipelines. Commands on stdin change the cluster; JSON lines on stdout report events.
//
//   stdin: reload | quit (or end of file) | an order (gateway_orders.hpp)
#include "cluster/config/readers/api_key_file.hpp"
#include "gateway/api/openai/request/openai_fields.hpp"
#include "gateway/dispatch/request_router.hpp"
#include "gateway/routes/http_api.hpp"
#include "gateway/server/api_servers.hpp"
#include "gateway/zmq/worker_server.hpp"
#include "tests/support/fake_head.hpp"
#include "tests/system/doors/allocation_limit.hpp"
#include "tests/system/doors/gateway_orders.hpp"

#include <CLI/CLI.hpp>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <condition_variable>
#include <iostream>
#include <mutex>
#include <sstream>
#include <thread>

using namespace baton;

namespace {

struct settings {
  gateway::gateway_config gateway;
  tests::fake_head_config head;
  std::vector<std::string> pipelines; // models; empty: one pipeline "fake"
  std::uint32_t ticket_slots = 1000;
  std::string keys; // the file of API keys
  std::uint32_t queue_max = 0;
  bool uses_job_ticket = false;
  std::string worker_server;
  // NAME PLACES BATCH_SIZE DELAY_MS RESPONSE_MS QUEUED [KEY=NUMBER ...] (read_queue).
  std::vector<std::string> workers;
  std::vector<std::string> declared; // per model: NAME and keys of [[workers]] as JSON
};

int read_flags(int argc, char** argv, settings& s) {
  CLI::App app{"the doors of a gateway over a fake head"};
  auto& g = s.gateway;
  std::uint64_t header_ms = 0, body_ms = 0, write_ms = 0, idle_ms = 0, answer_ms = 0,
                handshake_ms = 0, kept_ms = 0, message_ms = 0, ping_ms = 0;
  app.add_option("--http", g.http);
  app.add_option("--zmq", g.zmq);
  app.add_option("--threads", g.threads);
  app.add_option("--slots", s.head.slots);
  app.add_option("--pipeline", s.pipelines);
  app.add_option("--worker-door", s.worker_server);
  app.add_option("--workers", s.workers);
  app.add_option("--declared", s.declared);
  app.add_option("--admin", g.admin);
  app.add_option("--ollama", g.ollama);
  app.add_option("--torchserve-inference", g.torchserve.inference);
  app.add_option("--torchserve-management", g.torchserve.management);
  app.add_option("--torchserve-metrics", g.torchserve.metrics);
  app.add_option("--kserve-grpc", g.grpc.kserve);
  app.add_option("--torchserve-grpc-inference", g.grpc.torchserve_inference);
  app.add_option("--torchserve-grpc-management", g.grpc.torchserve_management);
  app.add_option("--grpc-calls", g.grpc_bounds.calls_max);
  app.add_option("--grpc-message-timeout-ms", message_ms);
  app.add_option("--queue", s.queue_max);
  app.add_flag("--job-ticket", s.uses_job_ticket);
  app.add_option("--keys", s.keys);
  app.add_option("--tls-certificate", g.tls_certificate);
  app.add_option("--tls-key", g.tls_key);
  app.add_flag("--allow-unauthenticated", g.allow_unauthenticated);
  app.add_option("--handshake-timeout-ms", handshake_ms);
  app.add_option("--alias", g.model_aliases);
  app.add_flag_callback("--no-placeholder-models", [&g] { g.placeholder_models.clear(); });
  app.add_option("--access-log", g.access_log);
  app.add_option("--stream-buffer", g.stream_buffer_max_bytes);
  app.add_option("--requests", g.requests_max);
  app.add_option("--overload-status", g.overload_status);
  app.add_option("--connections", g.http_bounds.connections_max);
  app.add_option("--responses", g.responses.responses_max);
  app.add_option("--background", g.responses.background_max);
  app.add_flag("--shares-http", g.shares_http);
  app.add_option("--send-buffer", g.http_bounds.send_buffer_bytes);
  app.add_option("--header-timeout-ms", header_ms);
  app.add_option("--body-timeout-ms", body_ms);
  app.add_option("--write-timeout-ms", write_ms);
  app.add_option("--idle-timeout-ms", idle_ms);
  app.add_option("--answer-timeout-ms", answer_ms);
  app.add_option("--sse-ping-ms", ping_ms);
  app.add_option("--responses-kept-ms", kept_ms);
  app.add_option("--otlp-endpoint", g.otlp_endpoint);
  app.add_option("--trace-sampling-ratio", g.trace_sampling_ratio);
  CLI11_PARSE(app, argc, argv);
  const auto set = [](std::chrono::milliseconds& to, std::uint64_t ms) {
    if (ms != 0) {
      to = std::chrono::milliseconds(ms);
    }
  };
  set(g.http_bounds.header_timeout, header_ms);
  set(g.http_bounds.handshake_timeout, handshake_ms);
  set(g.http_bounds.body_timeout, body_ms);
  set(g.http_bounds.write_timeout, write_ms);
  set(g.http_bounds.idle_timeout, idle_ms);
  set(g.answer_timeout, answer_ms);
  set(g.responses.kept_for, kept_ms);
  set(g.grpc_bounds.message_timeout, message_ms);
  set(g.http_bounds.sse_ping_interval, ping_ms);
  return -1;
}

// The names of all fields that a request may have. A test compares them with its own list.
gateway::json fields_of(gateway::openai_api api, const gateway::gateway_config& config) {
  const auto nothing = gateway::json::object();
  gateway::field_reader fields(nothing);
  static_cast<void>(
      gateway::read_generation(fields, "{}", api, config.request)); // lacks what is needed
  return gateway::json(fields.asked());
}

gateway::json routes() {
  constexpr const char* methods[] = {"GET", "POST", "DELETE", "SOCKET"};
  constexpr const char* access[] = {"open", "user", "admin", "page"};
  auto rows = gateway::json::array();
  for (const auto& row : gateway::http_api::routes()) {
    rows.push_back({{"path", row.path},
                    {"method", methods[static_cast<int>(row.methods)]},
                    {"access", access[static_cast<int>(row.access)]}});
  }
  return rows;
}

// As the gateway does when its files change; an error is reported and changes nothing.
std::string reload(const settings& s, gateway::gateway_state& facts,
                   gateway::api_servers& servers) {
  std::string wrong;
  if (!s.keys.empty()) {
    if (auto keys = cluster::load_api_keys(s.keys)) {
      facts.authenticator().replace(gateway::key_ring(*std::move(keys)),
                                    gateway::authenticator::instant::clock::now());
    } else {
      wrong = keys.error().message;
    }
  }
  if (auto ok = servers.reload_certificate(); !ok) {
    wrong += ok.error().message;
  }
  return gateway::json({{"event", "reloaded"}, {"wrong", wrong}}).dump();
}

// Ticks for the pipeline clients, like the process's ticker.
class ticker {
public:
  ticker(std::vector<gateway::pipeline_client_actor> pipeline_clients,
         std::vector<gateway::worker_pool_actor> pools)
      : thread_([this, pipeline_clients = std::move(pipeline_clients), pools = std::move(pools)] {
          std::unique_lock lock(mutex_);
          while (!stop_.wait_for(lock, std::chrono::milliseconds(50), [this] { return over_; })) {
            for (const auto& pipeline_client : pipeline_clients) {
              caf::anon_send(pipeline_client, actors::tick{});
            }
            for (const auto& pool : pools) {
              caf::anon_send(pool, actors::tick{});
            }
          }
        }) {}
  ~ticker() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    stop_.notify_all();
    thread_.join();
  }

private:
  std::mutex mutex_;
  std::condition_variable stop_;
  bool over_ = false;
  std::thread thread_;
};

// Worker models whose processes the test itself starts: process i has the id 5000 + i.
struct worker_side {
  std::shared_ptr<gateway::worker_server> server;
  std::vector<gateway::worker_pool_actor> pools;
};

// Settings of Triton's dynamic batcher that a test requests.
void read_queue(std::istringstream& words, schedule::worker_limits& limits) {
  std::string word;
  while (words >> word) {
    const auto mark = word.find('=');
    const auto key = word.substr(0, mark);
    const auto value = static_cast<std::uint32_t>(std::stoul(word.substr(mark + 1)));
    if (key == "priority_levels")
      limits.priority_levels = limits.default_priority_level = value;
    else if (key == "preferred_batch_size")
      limits.preferred_batch_sizes.push_back(value);
    else if (key == "preserve_ordering")
      limits.preserve_ordering = value > 0;
    else if (key == "allow_timeout_override")
      limits.default_queue_policy.allow_timeout_override = value > 0;
    else if (key == "delay_of_level") // those that wait for so many milliseconds go behind others
      limits.priority_queue_policy[value % 10] = {std::chrono::milliseconds(value / 10), true};
  }
}

std::vector<gateway::worker_tensor> tensors_of(const gateway::json& declared_fields) {
  std::vector<gateway::worker_tensor> all;
  for (const auto& one : declared_fields) {
    all.push_back(
        {one.at("name"), one.at("datatype"), one.at("shape"), one.value("optional", false)});
  }
  return all;
}

std::shared_ptr<gateway::worker_facts> facts_of(const std::string& name, const settings& s) {
  auto facts = std::make_shared<gateway::worker_facts>();
  for (const auto& line : s.declared) {
    const auto space = line.find(' ');
    if (line.substr(0, space) == name) {
      const auto declared_fields = gateway::json::parse(line.substr(space));
      facts->platform = declared_fields.value("platform", facts->platform);
      facts->max_batch_size = declared_fields.value("max_batch_size", 0U);
      facts->is_decoupled = declared_fields.value("decoupled", false);
      facts->inputs = tensors_of(declared_fields.value("inputs", gateway::json::array()));
      facts->outputs = tensors_of(declared_fields.value("outputs", gateway::json::array()));
    }
  }
  return facts;
}

result<worker_side> open_workers(caf::actor_system& system, const settings& s,
                                 const std::shared_ptr<gateway::gateway_state>& facts,
                                 const std::function<void(const std::string&)>& print_event) {
  worker_side side;
  if (s.worker_server.empty())
    return side;
  auto server = gateway::worker_server::bind(s.worker_server, facts);
  if (!server)
    return server.error();
  side.server = *std::move(server);
  auto models = std::make_shared<gateway::worker_models>();
  std::vector<gateway::worker_view> views;
  gateway::worker_server::pools_by_process by_process;
  std::uint32_t node = 5000;
  for (const auto& line : s.workers) {
    std::istringstream words(line);
    std::string name;
    std::uint32_t process_count = 0;
    std::int64_t delay_ms = 0, response_ms = 0;
    gateway::worker_pool_config c;
    words >> name >> process_count >> c.limits.batch_size >> delay_ms >> response_ms >>
        c.limits.max_queued;
    read_queue(words, c.limits);
    c.limits.max_batch_delay = std::chrono::milliseconds(delay_ms);
    c.limits.response_timeout = std::chrono::milliseconds(response_ms);
    c.facts = facts;
    c.send = [to = side.server](gateway::worker_incarnation incarnation, message m) {
      to->send(incarnation, std::move(m));
    };
    c.report = [print_event](const status& now) {
      print_event(gateway::json({{"event", "worker"},
                                 {"node", now.process.value},
                                 {"epoch", now.incarnation.value},
                                 {"phase", gateway::name_of(now.phase)},
                                 {"reason", now.reason}})
                      .dump());
    };
    const auto first = node;
    for (std::uint32_t i = 0; i < process_count; ++i, ++node)
      c.processes.push_back({process_id{node}, fmt::format("worker-{}-{}", name, i)});
    const auto model_facts = facts_of(name, s);
    model_facts->batch_size = c.limits.batch_size;
    model_facts->max_batch_delay = c.limits.max_batch_delay;
    model_facts->max_queued = c.limits.max_queued;
    model_facts->response_timeout = c.limits.response_timeout;
    model_facts->preferred_batch_size = c.limits.preferred_batch_sizes;
    model_facts->preserve_ordering = c.limits.preserve_ordering;
    model_facts->priority_levels = c.limits.priority_levels;
    model_facts->default_priority_level = c.limits.default_priority_level;
    model_facts->queue_policy = c.limits.default_queue_policy;
    model_facts->priority_queue_policy = c.limits.priority_queue_policy;
    for (const auto& place : c.processes)
      model_facts->processes.push_back(place.name);
    c.model = name;
    views.push_back({name, "1", c.load, model_facts});
    const auto pool = gateway::spawn_worker_pool(system, std::move(c));
    for (auto n = first; n < node; ++n)
      by_process.emplace(process_id{n}, pool);
    side.pools.push_back(pool);
    models->by_name[name] = {gateway::worker_model{"1", pool}};
  }
  facts->set_workers(std::move(models), std::move(views));
  side.server->start(std::move(by_process));
  return side;
}

std::vector<tests::fake_head> spawn_heads(caf::actor_system& system, const settings& s) {
  std::vector<tests::fake_head> heads;
  for (std::size_t i = 0; i < s.pipelines.size(); ++i) {
    auto config = s.head;
    config.gateway = std::make_shared<actors::gateway_actor>();
    if (s.pipelines.size() > 1) {
      config.next_ticket = ticket_id{pipelines_max + i};
      config.ticket_step = pipelines_max;
    }
    heads.push_back(tests::spawn_fake_head(system, config));
  }
  return heads;
}

} // namespace

int main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_logger_mt("fixture"));
  settings s;
  s.gateway.self = process_id{1};
  s.gateway.incarnation = incarnation_id{1};
  s.gateway.build = "baton-test";
  s.gateway.http = "127.0.0.1:0";
  if (const int rc = read_flags(argc, argv, s); rc >= 0) {
    return rc;
  }
  if (s.pipelines.empty()) {
    s.pipelines = {"fake"};
  }
  s.gateway.pipelines.clear();
  for (std::size_t i = 0; i < s.pipelines.size(); ++i) {
    s.gateway.pipelines.push_back(
        {tests::head_process(i), s.pipelines[i], s.queue_max, s.uses_job_ticket});
  }
  if (!s.keys.empty()) {
    auto keys = cluster::load_api_keys(s.keys);
    if (!keys) {
      std::cerr << keys.error().message << '\n';
      return 1;
    }
    s.gateway.keys = *std::move(keys);
  }
  std::mutex output;
  const auto print_event = [&output](const std::string& line) {
    const std::lock_guard lock(output);
    std::cout << line << std::endl;
  };
  caf::actor_system_config options;
  options.set("scheduler.policy", caf::atom("sharing"));
  options.set("scheduler.max-threads", std::size_t{1});
  caf::actor_system system(options);

  s.head.log = print_event;
  const auto heads = spawn_heads(system, s);
  auto facts = std::make_shared<gateway::gateway_state>(s.gateway);
  std::vector<gateway::head_actors> handles;
  for (const auto& head : heads) {
    handles.push_back({head.scheduler, head.tokenizer});
  }
  const auto all = gateway::spawn_request_router(system, facts, handles);
  for (std::size_t i = 0; i < heads.size(); ++i) {
    *heads[i].gateway = all.pipeline_clients[i];
    caf::anon_send(all.pipeline_clients[i], tests::fake_card(s.pipelines[i]));
  }
  const auto workers = open_workers(system, s, facts, print_event);
  if (!workers) {
    std::cerr << workers.error().message << '\n';
    std::quick_exit(1); // avoids waiting for the actors
  }
  tests::exempt_threads_from_allocation_limit();
  auto servers = gateway::api_servers::start(system, facts, all.router);
  if (!servers) {
    print_event(gateway::json({{"event", "failed"},
                               {"code", row_of(servers.error().code).name},
                               {"message", servers.error().message}})
                    .dump());
    std::cerr << servers.error().message << '\n';
  } else {
    // Waits until the pipeline clients know their models.
    while (standing_of(*facts->look()).phase != phase::ready) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    print_event(
        gateway::json(
            {{"event", "ready"},
             {"url", (*servers)->url()},
             {"admin", (*servers)->admin_url()},
             {"ollama", (*servers)->url(gateway::listener_kind::ollama)},
             {"torchserve",
              {{"inference", (*servers)->url(gateway::listener_kind::torchserve_inference)},
               {"management", (*servers)->url(gateway::listener_kind::torchserve_management)},
               {"metrics", (*servers)->url(gateway::listener_kind::torchserve_metrics)}}},
             {"grpc",
              {{"kserve", (*servers)->grpc_address(gateway::grpc_service::kserve)},
               {"inference", (*servers)->grpc_address(gateway::grpc_service::torchserve_inference)},
               {"management",
                (*servers)->grpc_address(gateway::grpc_service::torchserve_management)}}},
             {"zmq", (*servers)->zmq_endpoint()},
             {"routes", routes()},
             {"fields",
              {{"chat", fields_of(gateway::openai_api::chat, s.gateway)},
               {"completions", fields_of(gateway::openai_api::completions, s.gateway)}}}})
            .dump());
    const ticker time(all.pipeline_clients, workers->pools);
    for (std::string line; line != "quit" && std::getline(std::cin, line);) {
      tests::obey(line, all, s.pipelines);
      if (line == "reload") {
        print_event(reload(s, *facts, **servers));
      }
      print_event(R"({"event":"obeyed"})");
    }
    (*servers)->stop();
  }
  if (workers->server) {
    workers->server->stop();
  }
  for (const auto& pool : workers->pools) {
    caf::anon_send_exit(pool, caf::exit_reason::user_shutdown);
  }
  caf::anon_send_exit(all.router, caf::exit_reason::user_shutdown);
  for (const auto& pipeline_client : all.pipeline_clients) {
    caf::anon_send_exit(pipeline_client, caf::exit_reason::user_shutdown);
  }
  for (const auto& head : heads) {
    caf::anon_send_exit(head.scheduler, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(head.tokenizer, caf::exit_reason::user_shutdown);
  }
  return servers ? 0 : 1;
}
