// Parses the command line; each command and role has its own file.
#include "cluster/commands/command_line.hpp"

#include "cluster/commands/commands.hpp"
#include "cluster/config/imported/model_launch.hpp"
#include "cluster/files/log_level.hpp"
#include "cluster/files/root_log.hpp"
#include "cluster/roles/process.hpp"
#include "gateway/base/log_format.hpp"
#include "schema/limits.hpp"
#include "schema/nearest.hpp"

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>

#include <cstdio>
#include <functional>

namespace baton::cluster {
namespace {

struct choices {
  up_options up;
  std::string which;
  std::string node;
  bool json = false;
  bool watch = false;
  bool known = false;
  join_options join;
  keygen_options keygen;
  rotate_options rotate;
  scale_options scale;
  import_options import;
  long patience = 60;
  chat_options chat;
  run_options run;
  logs_options logs;
  std::vector<std::string> help_of;
  doctor_options doctor;
  role_arguments role;
  int status = 0;
};

// Applies to the processes that the command starts.
void add_log_level(CLI::App& command) {
  command
      .add_option_function<std::string>(
          "--log-level", impose_log_level,
          "of all processes; default: BATON_LOG_LEVEL, else cluster.log_level")
      ->check(CLI::IsMember(log_levels()));
}

void add_up(CLI::App& app, choices& c) {
  auto* up =
      app.add_subcommand("up", "Start a cluster in the foreground and serve; ^C drains and stops.\n"
                               "  cluster up examples/quickstart.toml\n"
                               "  cluster up model.gguf");
  up->add_option(
        "CONFIG", c.up.config,
        "nodes.toml: the model, the gateway and the nodes; or a model alone: a GGUF file, "
        "a directory of safetensors, or the reference of a downloaded one; or a directory of "
        "models")
      ->required();
  up->add_flag("--json", c.up.json, "progress as one JSON object a line");
  add_log_level(*up);
  up->callback([&c] {
    silence_log(); // the terminal shows the progress; processes log to files
    c.status = command_up(c.up);
  });
}

void add_machines(CLI::App& app, choices& c) {
  auto* join = app.add_subcommand("join", "Make this machine a node of a cluster on another one; "
                                          "`cluster up` there shows the command to run.");
  join->add_option("ADDRESS", c.join.server, "tcp://HOST:PORT#KEY")->required();
  join->add_option("--node", c.join.node, "which [[nodes]] table this machine is")->required();
  join->add_option("--token", c.join.token,
                   "valid once; - reads it from stdin; not needed if nodes.toml has our key");
  join->add_option("--key", c.join.key_file, "this machine's key; default: ~/.config/baton/key");
  join->add_option("--run-dir", c.join.run_dir, "sockets, pid files, logs");
  add_log_level(*join);
  join->callback([&c] {
    use_log_level("info"); // processes of the node use the cluster's level
    c.status = command_join(c.join);
  });
  auto* keygen = app.add_subcommand(
      "keygen", "Make this machine's key, if it has none, and show the public half;\n"
                "  cluster keygen --api NAME keys.toml   or a client's, shown once.");
  keygen->add_option(
      "FILE", c.keygen.file,
      "default: ~/.config/baton/key; with --api: the file to add the key to, if any");
  keygen->add_option("--api", c.keygen.api, "an API key of this name, for gateway.api_keys");
  keygen->add_flag("--admin", c.keygen.admin, "the key may read /metrics, /cluster and /load");
  keygen->callback([&c] { c.status = command_keygen(c.keygen); });
  auto* rotate = app.add_subcommand(
      "rotate-key",
      "Give this machine a new key while the cluster serves, and revoke the old one.");
  rotate->add_option("CLUSTER", c.rotate.which,
                     "its nodes.toml, name or run directory; default: the running one");
  rotate->add_flag(
      "--force", c.rotate.force,
      "even if an absent machine has not confirmed it: that machine has to join again");
  rotate->callback([&c] {
    silence_log();
    c.status = command_rotate_key(c.rotate);
  });
}

void add_questions(CLI::App& app, choices& c) {
  auto* status = app.add_subcommand(
      "status", "Show the status of every process of a running cluster (exit status 0: ready).");
  status->add_option("CLUSTER", c.which, "its nodes.toml or its name; default: the running one");
  status->add_flag("--json", c.json, "for scripts");
  status->add_flag("--watch", c.watch, "again every second");
  status->callback([&c] {
    silence_log();
    c.status = command_status(c.which, c.json, c.watch);
  });
  auto* down = app.add_subcommand("down", "Drain and stop a running cluster.");
  down->add_option("CLUSTER", c.which, "its nodes.toml or its name; default: the running one");
  down->add_option("--patience", c.patience, "seconds until processes that still run are killed")
      ->check(CLI::Range(0, 86400));
  down->callback([&c] { c.status = command_down(c.which, std::chrono::seconds(c.patience)); });
  auto* plan = app.add_subcommand(
      "plan", "Show where each layer would run, and what does not fit, without starting anything.");
  plan->add_option("CONFIG", c.which, "nodes.toml")->required();
  plan->add_flag("--json", c.json, "for scripts");
  plan->callback([&c] { c.status = command_plan(c.which, c.json); });
  auto* doctor =
      app.add_subcommand("doctor", "Check this machine (and a nodes.toml) for problems.");
  auto* doctor_config = doctor->add_option("CONFIG", c.doctor.config, "nodes.toml");
  auto* device = doctor->add_option("--device", c.doctor.device, "only this one: \"cuda:0\"");
  device->excludes(doctor_config);
  doctor->add_option("--ranks", c.doctor.ranks, "ranks of a stage on such devices")
      ->needs(device)
      ->check(CLI::Range(1, 64));
  doctor
      ->add_option("--ranks-on-device", c.doctor.ranks_on_device,
                   "number of these ranks on this device")
      ->needs(device)
      ->check(CLI::Range(1, 64));
  doctor->add_flag("--json", c.doctor.json, "for scripts");
  doctor->callback([&c] { c.status = command_doctor(c.doctor); });
}

void add_nodes(CLI::App& app, choices& c) {
  const auto add = [&](const char* name, const char* help, const auto& run) {
    auto* command = app.add_subcommand(name, help);
    command->add_option("NODE", c.node, "the name of its [[nodes]] table")->required();
    command->add_option("CLUSTER", c.which, "its nodes.toml or its name; default: the running one");
    command->callback([&c, run] {
      silence_log();
      c.status = run(c.node, c.which);
    });
  };
  const auto change = [](bool is_drain) {
    return [is_drain](const std::string& node, const std::string& which) {
      return command_change_nodes(node, which, is_drain);
    };
  };
  add("drain", "Move a node's layers to the other nodes while streams continue; its shards end.",
      change(true));
  add("add-node",
      "Give layers to a node that waits, was drained, or is new in nodes.toml, while streams "
      "continue.",
      change(false));
  add("remove-node",
      "Remove a node from the cluster while streams continue: its layers move, its `cluster join` "
      "ends, and its key is revoked.",
      command_remove_node);
  auto* scale = app.add_subcommand("scale", "Change how many replicas of a model serve, or how "
                                            "wide its stages are, while streams continue.");
  scale->add_option("MODEL", c.scale.model, "as clients ask for it")->required();
  scale->add_option("CLUSTER", c.scale.which,
                    "its nodes.toml or its name; default: the running one");
  auto* what = scale->add_option_group("to what")->require_option(1, 2);
  what->add_option("--replicas", c.scale.replicas, "at most those of nodes.toml")
      ->check(CLI::Range(1u, pipelines_max));
  what->add_option("--tensor-parallel-size", c.scale.tensor_parallel_size,
                   "shards that share each stage; the devices stay the same")
      ->check(CLI::Range(1u, static_cast<std::uint32_t>(limits::stages_max)));
  scale->callback([&c] {
    silence_log();
    c.status = command_scale(c.scale);
  });
}

void add_model(CLI::App& app, choices& c) {
  auto* model = app.add_subcommand("model", "Look at model files.");
  model->require_subcommand(1);
  auto* inspect = model->add_subcommand(
      "inspect",
      "Show what is in a model, whether it runs here and how fast (exit status 0: runs).");
  inspect->add_option("PATH", c.which, "a GGUF file, or a directory of safetensors")->required();
  inspect->add_flag("--json", c.json, "for scripts");
  inspect->callback([&c] { c.status = command_model_inspect(c.which, c.json); });
}

void add_import(CLI::App& app, choices& c) {
  auto* sub = app.add_subcommand(
      "import", "Make a nodes.toml of what another server was started with.\n"
                "  cluster import model-config.yaml --model model.gguf > nodes.toml\n"
                "  cluster import model-config.yaml --handler handler.py > nodes.toml\n"
                "  cluster import config.properties > nodes.toml\n"
                "  cluster import models/repository > nodes.toml\n"
                "  cluster import vllm serve models/qwen --max-model-len 32k > nodes.toml\n"
                "  cluster import text-generation-launcher --model-id models/qwen > nodes.toml");
  sub->add_option("FROM", c.import.from,
                  "TorchServe's model-config.yaml or config.properties, Triton's model repository "
                  "or config.pbtxt, a compose file, or the whole command of vLLM, TGI, llama.cpp, "
                  "SGLang, TorchServe or Triton, also behind docker run")
      ->required();
  sub->add_option(
      "--model", c.import.model,
      "the LLM: a GGUF file, or a directory of safetensors; default: the command's, or none "
      "where other models are served");
  sub->add_option("--name", c.import.name, "as clients ask for it; default: the file's");
  sub->add_option("--properties", c.import.properties,
                  "TorchServe's config.properties, which sets where it listens");
  sub->add_option(
      "--handler", c.import.handler,
      "a TorchServe handler: the model of this model-config.yaml uses it, and is no LLM");
  sub->prefix_command(); // everything after a server's command belongs to it
  sub->callback([&c, sub] {
    const auto rest = sub->remaining();
    c.import.args = {c.import.from};
    c.import.args.insert(c.import.args.end(), rest.begin(), rest.end());
    c.status = command_import(c.import);
  });
}

void add_answer_options(CLI::App& command, chat_options& chat) {
  command.add_option("--system", chat.system, "system message");
  command
      .add_option("--temperature", chat.temperature,
                  "0 is greedy; default: the model's ([model.sampling] of nodes.toml), else 1")
      ->check(CLI::Range(0.0, 2.0));
  command.add_option("--max-tokens", chat.max_tokens, "per answer")->check(CLI::Range(1, 1 << 20));
}

void add_run(CLI::App& app, choices& c) {
  auto* run = app.add_subcommand(
      "run", "Serve one model on this machine, and talk to it; it stops at the end.\n"
             "  cluster run model.gguf\n"
             "  cluster run model.gguf \"Why is the sky blue?\"\n"
             "  cluster run model.gguf --serve\n"
             "  cluster run smollm2\n"
             "  cluster run hf:bartowski/SmolLM2-135M-Instruct-GGUF:Q4_K_M");
  run->add_option(
         "MODEL", c.run.model,
         "a GGUF file, a directory of safetensors, or a name or reference as of `cluster pull`")
      ->required();
  run->add_option("PROMPT", c.run.chat.message, "one question; default: a conversation");
  auto* serve = run->add_flag("--serve", c.run.serve, "serve until ^C, without a conversation");
  run->add_flag("--print-config", c.run.print_config,
                "print the nodes.toml of this run, and start nothing")
      ->excludes(serve);
  run->add_flag("--pull", c.run.pull,
                "download a model that is not there; without it a terminal is asked");
  run->add_option("--name", c.run.name, "as clients ask for it; default: the file's")
      ->check([](const std::string& name) {
        return name == name_of_model(name) ? "" : "1 to 64 of [A-Za-z0-9._-]";
      });
  run->add_option("--device", c.run.device, "\"cpu\", \"cpu:0-3\" or \"cuda:0\"");
  run->add_option("--port", c.run.port,
                  "HTTP port on 127.0.0.1; default: 8000, or the next free one; SDKs get that port "
                  "plus 2, or the next free one")
      ->check(CLI::Range(1, 65535));
  run->add_option("--max-model-len", c.run.max_model_len, "tokens of prompt and answer together")
      ->check(CLI::Range(2u, 1u << 24));
  add_answer_options(*run, c.run.chat);
  add_log_level(*run);
  run->callback([&c] {
    silence_log();
    c.status = command_run(c.run);
  });
}

void add_models(CLI::App& app, choices& c) {
  constexpr auto* forms = "a name of `cluster models --known`, hf:ORG/REPO[:QUANT][@REVISION], "
                          "ORG/REPO, or the URL of a GGUF file";
  auto* pull = app.add_subcommand(
      "pull", "Download a model into the cache of Hugging Face, and print its path.\n"
              "  cluster pull smollm2:360m\n"
              "  cluster pull hf:bartowski/SmolLM2-135M-Instruct-GGUF\n"
              "  cluster pull hf:bartowski/SmolLM2-135M-Instruct-GGUF:Q8_0");
  pull->add_option("MODEL", c.which, forms)->required();
  pull->callback([&c] { c.status = command_pull(c.which); });
  const auto add_list = [&](const char* name, const char* text) {
    auto* own = app.add_subcommand(name, text);
    own->add_flag("--json", c.json, "for scripts");
    own->add_flag("--known", c.known, "those with short names instead, downloaded or not");
    own->callback([&c] { c.status = (c.known ? command_known_models : command_models)(c.json); });
  };
  add_list("models", "List this machine's models: downloads, those of Ollama and LM Studio.");
  add_list("list", "The same as `cluster models`, under Ollama's name.");
  auto* rm = app.add_subcommand("rm", "Remove a downloaded model that no running cluster serves.");
  rm->add_option("MODEL", c.which, forms)->required();
  rm->callback([&c] {
    silence_log();
    c.status = command_rm(c.which);
  });
}

void add_views(CLI::App& app, choices& c) {
  auto* ps = app.add_subcommand("ps", "List the running clusters of this machine.");
  ps->add_flag("--json", c.json, "for scripts");
  ps->callback([&c] {
    silence_log();
    c.status = command_ps(c.json);
  });
  auto* logs = app.add_subcommand("logs", "Show the ends of a cluster's log files.\n"
                                          "  cluster logs -f gateway");
  logs->add_option("PROCESS", c.logs.process, "as `cluster status` names it; default: all");
  logs->add_option("--cluster", c.logs.which,
                   "its nodes.toml or its name; default: the running one");
  logs->add_flag("-f,--follow", c.logs.follow, "also show new lines, until ^C");
  logs->add_option("-n,--lines", c.logs.lines, "of each process")->check(CLI::Range(0, 1 << 20));
  logs->callback([&c] { c.status = command_logs(c.logs); });
}

// The commands that the help lists.
std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* s) { return !s->get_group().empty(); });
}

// `cluster help COMMAND` is `cluster COMMAND --help`.
int show_help(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* of = &app;
  for (const auto& word : words) {
    std::vector<std::string> names;
    const auto* before = of;
    for (const auto* command : commands_of(*before)) {
      names.push_back(command->get_name());
      if (command->get_name() == word)
        of = command;
    }
    if (of == before) {
      const auto near = nearest_name(word, names);
      std::fprintf(stderr, "error: there is no command '%s'%s\n", word.c_str(),
                   near ? fmt::format("; did you mean '{}'?", *near).c_str() : "");
      return exit_usage;
    }
  }
  // help() would delegate to the parsed command, which is `help`.
  const auto title =
      fmt::format("{}{}{}", app.get_name(), words.empty() ? "" : " ", fmt::join(words, " "));
  std::fputs(of->get_formatter()->make_help(of, title, CLI::AppFormatMode::Normal).c_str(), stdout);
  return 0;
}

void add_help(CLI::App& app, choices& c) {
  auto* help = app.add_subcommand("help", "Show the help of a command.");
  help->add_option("COMMAND", c.help_of, "default: all commands");
  help->callback([&c, &app] { c.status = show_help(app, c.help_of); });
}

void add_chat(CLI::App& app, choices& c) {
  auto* chat = app.add_subcommand(
      "chat", "Talk to a running cluster.\n  cluster chat \"Why is the sky blue?\"");
  chat->add_option("MESSAGE", c.chat.message, "one question; default: a conversation");
  chat->add_option("--cluster", c.chat.which,
                   "its nodes.toml or its name; default: the running one");
  chat->add_option("--endpoint", c.chat.endpoint,
                   "a gateway's ZeroMQ endpoint instead, tcp://127.0.0.1:8002");
  chat->add_option("--api-key", c.chat.api_key,
                   "if the gateway needs one; better in the environment, as BATON_API_KEY");
  chat->add_option("--model", c.chat.model, "default: the first it serves");
  add_answer_options(*chat, c.chat);
  chat->callback([&c] { c.status = command_chat(c.chat); });
}

using run_role = std::function<int(const role_arguments&)>;

const cluster_config& config_of(const cluster_base& cluster) {
  return cluster.config;
}
const cluster_config& config_of(const cluster_contexts& all) {
  return all.base.config;
}

// Runs `run` with its context.
template <class Context, class Run>
int with_context(result<Context> context, const Run& run) {
  if (context) {
    use_log_level(config_of(*context).log_level);
    return run(*context);
  }
  spdlog::error("{}", context.error().message);
  return exit_permanent;
}

// A role of one pipeline.
template <class Run>
run_role of_pipeline(Run run) {
  return [run](const role_arguments& arguments) {
    return with_context(load_context_of_child(arguments.config, arguments.pipeline),
                        [&](const cluster_context& context) { return run(context, arguments); });
  };
}

// Roles that supervisors start; hidden from the help, because users do not run them.
void add_role(CLI::App& app, choices& c, const char* name, const run_role& run) {
  auto* role = app.add_subcommand(name, "")->group("");
  role->add_option("--config", c.role.config)->required();
  role->add_option("--epoch", c.role.incarnation.value)->required();
  role->add_option("--index", c.role.index)->required();
  role->add_option("--pipeline", c.role.pipeline);
  role->add_option("--generation", c.role.generation);
  role->add_option("--kv-file", c.role.kv_file);
  role->add_option("--group-file", c.role.group_file);
  role->add_option("--copies", c.role.copies);
  role->callback([&c, run] { c.status = run(c.role); });
}

std::string did_you_mean(const CLI::App& app, const std::vector<std::string>& extras) {
  std::vector<std::string> valid;
  const auto* at = &app;
  if (!app.get_subcommands().empty())
    at = app.get_subcommands().front();
  for (const auto* option : at->get_options())
    valid.push_back(option->get_name());
  for (const auto* sub : commands_of(*at))
    valid.push_back(sub->get_name());
  for (const auto& extra : extras)
    if (auto near = nearest_name(extra, valid))
      return fmt::format("; did you mean '{}'?", *near);
  return {};
}

// Sets the name in ps, top and /proc/PID/comm (at most 15 bytes). By default a process that was
// executed as /proc/self/exe would be "exe".
void take_name(std::string_view program) {
  const std::string name(program.substr(program.rfind('/') + 1));
  prctl(PR_SET_NAME, name.c_str());
}

} // namespace

int run_command_line(int argc, char** argv, const engine_wrapper& wrap) {
  block_signals();
  if (argc > 0)
    take_name(argv[0]);
  spdlog::set_formatter(gateway::log_format(/*has_colors=*/true));
  CLI::App app("Baton: a distributed LLM server whose streams do not break.\n\n"
               "  cluster run model.gguf     serve one model, and talk to it\n"
               "  cluster up nodes.toml      serve\n"
               "  cluster chat               talk to it\n"
               "  cluster status             show its status\n"
               "  cluster down               stop it\n",
               "cluster");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string(build_version()));
  choices c;
  add_run(app, c);
  add_models(app, c);
  add_up(app, c);
  add_machines(app, c);
  add_questions(app, c);
  add_nodes(app, c);
  add_model(app, c);
  add_import(app, c);
  add_chat(app, c);
  add_views(app, c);
  add_help(app, c);
  add_role(app, c, "gateway", [](const role_arguments& arguments) {
    return with_context(load_base_of_child(arguments.config), [&](const cluster_base& cluster) {
      return run_gateway(cluster, arguments);
    });
  });
  add_role(app, c, "head", of_pipeline(run_head));
  add_role(app, c, "agent", [](const role_arguments& arguments) {
    return with_context(load_contexts_of_child(arguments.config),
                        [&](const cluster_contexts& all) { return run_agent(all, arguments); });
  });
  add_role(app, c, "shard",
           of_pipeline([&wrap](const cluster_context& context, const role_arguments& arguments) {
             return run_shard(context, arguments, wrap);
           }));
  add_role(app, c, "worker", run_worker);
  if (auto ok = check_log_level(); !ok) {
    std::fprintf(stderr, "error: %s\n", ok.error().message.c_str());
    return exit_usage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForVersion& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "error: %s%s\n", e.what(), did_you_mean(app, app.remaining(true)).c_str());
    return exit_usage;
  }
  return c.status;
}

} // namespace baton::cluster
