// `cluster doctor`: what this machine offers and what would fail, each with the fix.
#include "cluster/bus/reach.hpp"
#include "cluster/commands/commands.hpp"
#include "cluster/config/pipelines.hpp"
#include "cluster/config/readers/config_repository.hpp"
#include "cluster/files/json_text.hpp"
#include "cluster/files/open_files.hpp"
#include "cluster/files/stable_name.hpp"
#include "cluster/machines/python_check.hpp"
#include "cluster/models/archive_intake.hpp"
#include "cluster/models/repository_scan.hpp"
#include "cluster/models/store_models.hpp"
#include "cluster/plan/device_check.hpp"
#include "cluster/plan/plan.hpp"
#include "cluster/roles/gateway/gateway_files.hpp"
#include "cluster/roles/roles.hpp"
#include "cluster/roles/root/root_claim.hpp"
#include "runtime/cpu/kernels/isa.hpp"
#include "runtime/plugin/library.hpp"

#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <set>

namespace baton::cluster {
namespace {

enum class doctor_verdict { good, advice, bad };

struct finding {
  std::string what;
  doctor_verdict is;
  std::string found;
  std::string fix;
};

finding check_kernel() {
  int fd = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  if (fd < 0)
    return {"process supervision", doctor_verdict::bad, "no pidfd", "Linux 5.3 or newer is needed"};
  close(fd);
  return {"process supervision", doctor_verdict::good, "pidfd", ""};
}

finding check_memory(const machine_facts& facts) {
  constexpr std::uint64_t comfortable = 2ull << 30;
  return {
      "memory",
      facts.memory_available_bytes >= comfortable ? doctor_verdict::good : doctor_verdict::advice,
      human_bytes(facts.memory_available_bytes) + " available",
      facts.memory_available_bytes >= comfortable ? ""
                                                  : "lower model.kv_cache_bytes or free memory"};
}

finding check_huge_pages() {
  std::ifstream in("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string text;
  std::getline(in, text);
  bool off = text.find("[never]") != std::string::npos || text.empty();
  return {"huge pages", off ? doctor_verdict::advice : doctor_verdict::good,
          text.empty() ? "unknown" : text,
          off ? "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled gives 2 to 4 %" : ""};
}

finding check_files() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  bool few = limit.rlim_max < 4096; // processes raise their limit to this
  return {"open files", few ? doctor_verdict::advice : doctor_verdict::good,
          fmt::format("{}", limit.rlim_max),
          few ? fmt::format("ulimit -Hn 65536: each client connection takes one, each machine {}",
                            files_per_peer)
              : ""};
}

// `ranks`: the width of the stage, which may need more than one device supports.
finding check_device(const std::string& text, const device& where, std::uint32_t ranks,
                     std::uint32_t on_device) {
  const auto file = plugin::find_library(where.engine);
  const auto answer =
      file ? plugin::examine(*file, where.at, ranks, on_device) : result<std::string>(file.error());
  return answer ? finding{text, doctor_verdict::good, *answer, ""}
                : finding{text, doctor_verdict::bad, answer.error().message, fix_of(where)};
}

// The device of `--device`.
finding check_named_device(const doctor_options& what) {
  const auto& text = what.device;
  const auto where = parse_device(text);
  if (!where)
    return {text, doctor_verdict::bad, where.error().message, ""};
  return where->is_native() ? finding{text, doctor_verdict::good, "the native engine", ""}
                            : check_device(text, *where, what.ranks, what.ranks_on_device);
}

// Opens and queries the libraries of this machine's devices that need one.
std::vector<finding> check_engines_here(const cluster_config& config) {
  std::vector<finding> findings;
  std::set<std::string> seen;
  for (const auto& node : config.nodes)
    for (const auto& text : node.devices) {
      const auto where = parse_device(text);
      if (!where || where->is_native() || node.is_elsewhere || !seen.insert(text).second)
        continue;
      findings.push_back(
          check_device(text, *where, ranks_max(config), ranks_on_device(config, node, text)));
    }
  return findings;
}

// Checks the ports of the root, of joining machines and of the heads on this machine.
result<void> check_network_is_free(const cluster_config& config) {
  if (!config.is_over_network())
    return {};
  std::vector<stable_name> names{root_name, {"join", join_port_offset}};
  for (std::uint32_t p = 0; p < models_of_pipelines(config).size(); ++p)
    names.push_back(head_name(p));
  for (const auto& name : names) {
    const auto port = static_cast<std::uint16_t>(config.network.port + name.port_offset);
    if (auto ok = check_port_is_free(config.network.host, port); !ok)
      return fail(ok.error().code, "cluster.port ({}): {}", name.name, ok.error().message);
  }
  return {};
}

// The addresses at which the cluster would listen; while it runs, it occupies them itself.
finding check_addresses(const cluster_base& cluster) {
  const auto& config = cluster.config;
  if (const auto alive = cluster.dir.alive(); !alive.empty()) {
    if (recorded_name(cluster.dir).value_or(config.name) != config.name)
      return {"run directory", doctor_verdict::bad,
              check_not_running(cluster.dir, config).error().message, ""};
    return {"run directory", doctor_verdict::good,
            fmt::format("{} is running in {} ({}, pid {})", config.name,
                        cluster.dir.path().string(), alive[0].name, alive[0].pid),
            ""};
  }
  auto ok = check_gateway_is_free(config.gateway);
  if (ok)
    ok = check_network_is_free(config);
  return ok ? finding{"addresses", doctor_verdict::good, "free: " + config.gateway.http, ""}
            : finding{"addresses", doctor_verdict::bad, ok.error().message,
                      "end what listens there, or give this cluster another address"};
}

// Commands of worker models: of nodes.toml, and of a model repository the chosen versions. All
// archives of a model store run alike.
std::vector<std::vector<std::string>> commands_of_workers(const cluster_config& config) {
  std::vector<std::vector<std::string>> all;
  for (const auto& w : config.workers)
    all.push_back(w.command);
  if (config.repository) {
    const auto there = read_model_repository(config.repository->path);
    for (const auto& [name, versions] : there ? scan_repository(*there, {}) : scanned_models{})
      for (const auto& v : versions)
        if (v.refusal.empty())
          all.push_back(v.worker.command);
  }
  if (config.store)
    all.push_back({"python3", "-m", "baton_worker.torchserve"});
  return all;
}

constexpr std::size_t models_shown_max = 64;

// Models of a repository that would be refused, or served differently from their configuration.
void add_repository(const repository_config& repository, std::vector<finding>& findings) {
  const auto there = read_model_repository(repository.path);
  if (!there) {
    findings.push_back({"model repository", doctor_verdict::bad, there.error().message, ""});
    return;
  }
  for (const auto& [name, versions] : scan_repository(*there, {}))
    for (const auto& v : versions) {
      const auto what = "model " + name + (v.version.empty() ? "" : ", version " + v.version);
      if (!v.refusal.empty())
        findings.push_back({what, doctor_verdict::advice, "is not served: " + v.refusal, ""});
      for (const auto& note : v.notes)
        findings.push_back({what, doctor_verdict::advice, note, ""});
    }
}

// Checks the archives of a store that are quick to read; a gzip archive would be read in full.
void add_store(const store_config& store, std::vector<finding>& findings) {
  const auto all = archives_of(store.path);
  if (!all) {
    findings.push_back({"model store", doctor_verdict::bad, all.error().message, ""});
    return;
  }
  for (const auto& name : *all) {
    if (is_archive_name(name) && archive_intake::takes_long(store, name))
      continue;
    const auto archive = is_archive_name(name) ? read_model_archive(store.path / name)
                                               : fail(errc::bad_config, "{}", archive_name_rule);
    const auto made = archive ? model_of_archive(*archive, "", {}, store, 1) : archive.error();
    if (!made)
      findings.push_back({"archive " + name, doctor_verdict::advice,
                          "cannot be registered: " + made.error().message, ""});
  }
}

std::vector<finding> look_at_models(const cluster_config& config) {
  std::vector<finding> findings;
  if (config.repository)
    add_repository(*config.repository, findings);
  if (config.store)
    add_store(*config.store, findings);
  if (findings.size() > models_shown_max) {
    const auto more = findings.size() - models_shown_max;
    findings.resize(models_shown_max);
    findings.push_back({"models", doctor_verdict::advice, fmt::format("{} more remarks", more),
                        "the index of the running cluster has them all"});
  }
  return findings;
}

std::vector<finding> check_pythons(const cluster_config& config) {
  std::vector<finding> findings;
  for (const auto& python : pythons_of(commands_of_workers(config))) {
    const auto check = check_python(python);
    const auto is = check.is_good     ? doctor_verdict::good
                    : check.is_needed ? doctor_verdict::bad
                                      : doctor_verdict::advice;
    findings.push_back({python.text(), is, check.found, check.fix});
  }
  return findings;
}

// Without a nodes.toml, checks the python3 that commands name by default.
finding check_python_here() {
  const auto check = check_python({{"python3"}, {}});
  return {"python3, for workers", check.is_good ? doctor_verdict::good : doctor_verdict::advice,
          check.found, check.fix};
}

std::vector<finding> check_config(const std::string& path) {
  auto all = load_contexts(path, with_this_machine());
  if (!all)
    return {{path, doctor_verdict::bad, all.error().message, ""}};
  const auto& gateway = all->base.config.gateway;
  if (auto ok = check_gateway(gateway); !ok)
    return {{path, doctor_verdict::bad, ok.error().message, ""}};
  std::vector<std::string> found;
  for (const auto& c : *all)
    found.push_back(
        fmt::format("{} stages, {} KV blocks, {}", c.plan.stages, c.plan.blocks, c.model.name));
  if (found.empty())
    found.push_back("worker models alone");
  std::vector<finding> findings{
      {path, doctor_verdict::good, fmt::format("{}", fmt::join(found, "; ")), ""}};
  findings.push_back(check_addresses(all->base));
  for (auto& f : check_engines_here(all->base.config))
    findings.push_back(std::move(f));
  for (auto& f : check_pythons(all->base.config))
    findings.push_back(std::move(f));
  for (auto& f : look_at_models(all->base.config))
    findings.push_back(std::move(f));
  for (auto& r : remarks_on_gateway(gateway))
    findings.push_back({"gateway", doctor_verdict::advice, std::move(r.what), std::move(r.fix)});
  return findings;
}

void print_table(const std::vector<finding>& all) {
  for (const auto& f : all) {
    const char* mark = f.is == doctor_verdict::good     ? "ok  "
                       : f.is == doctor_verdict::advice ? "note"
                                                        : "FAIL";
    std::printf("  %s  %-22s %s\n", mark, f.what.c_str(), f.found.c_str());
    if (!f.fix.empty())
      std::printf("        %-22s -> %s\n", "", f.fix.c_str());
  }
}

// The portable kernels run on every processor.
finding check_instructions() {
  const auto found = cpu::detect_isa();
  const bool is_slow = found == cpu::isa::portable;
  return {"instruction set", is_slow ? doctor_verdict::advice : doctor_verdict::good,
          std::string(cpu::name_of(found)),
          is_slow ? "this processor lacks AVX2, FMA or F16C: answers are several times slower"
                  : ""};
}

std::vector<finding> check_machine() {
  auto facts = facts_of_this_machine();
  return {
      check_instructions(),
      {"cores", facts.cores.size() > 1 ? doctor_verdict::good : doctor_verdict::advice,
       facts.siblings.empty() ? fmt::format("{}", facts.cores.size())
                              : fmt::format("{}, of {} hardware threads",
                                            facts.physical_cores().size(), facts.cores.size()),
       facts.cores.size() > 1 ? "" : "two pipeline stages want two cores"},
      check_memory(facts),
      check_huge_pages(),
      check_files(),
      check_kernel(),
  };
}

} // namespace

int command_doctor(const doctor_options& what) {
  auto all = what.device.empty() ? check_machine() : std::vector{check_named_device(what)};
  if (what.config.empty() && what.device.empty())
    all.push_back(check_python_here());
  if (!what.config.empty())
    for (auto& f : check_config(what.config))
      all.push_back(std::move(f));
  bool bad = false;
  auto list = nlohmann::ordered_json::array();
  for (const auto& f : all) {
    bad = bad || f.is == doctor_verdict::bad;
    list.push_back({{"check", f.what},
                    {"ok", f.is != doctor_verdict::bad},
                    {"found", f.found},
                    {"fix", f.fix}});
  }
  if (what.json)
    std::printf("%s\n", json_text(list).c_str());
  else
    print_table(all);
  return bad ? 1 : 0;
}

} // namespace baton::cluster
