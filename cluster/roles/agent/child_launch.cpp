#include "cluster/roles/agent/child_launch.hpp"

#include "cluster/bus/starvation.hpp"
#include "cluster/roles/process.hpp"
#include "gateway/state/gateway_state.hpp"
#include "runtime/collective/group_memory.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <csignal>

namespace baton::cluster {
namespace {

std::uint32_t index_of(const actors::child_spec& spec) {
  if (spec.role == role::agent)
    return process_ids::index_of_agent(spec.process);
  if (spec.role == role::gateway)
    return spec.process.value - process_ids::first_gateway.value;
  if (spec.role == role::worker)
    return process_ids::index_of_worker(spec.process);
  return spec.role == role::shard ? process_ids::index_of(spec.process) : 0;
}

// The last log line of a process without time and level. Only for a process that will not be
// restarted.
std::string last_log_message(const std::filesystem::path& log) {
  constexpr std::size_t bytes_max = 1024; // a reason, not a log
  auto last = last_line(log);
  constexpr int fields_before = 2;
  for (int i = 0; i < fields_before; ++i)
    if (const auto end = last.find(' '); end != std::string::npos)
      last.erase(0, end + 1);
  return last.substr(0, bytes_max);
}

// Whether a child that was asked to stop failed instead. A worker's exit status does not count: its
// command may be any program.
bool has_failed(role as, const child_end& how) {
  if (how.how == child_end::way::exit)
    return how.number != 0 && as != role::worker;
  return how.how == child_end::way::signal && how.number != SIGTERM;
}

} // namespace

child_launcher::child_launcher(child_watch& watch, const cluster_contexts& all,
                               std::filesystem::path config, incarnation_clock& incarnations)
    : watch_(watch), dir_(all.base.dir), config_(std::move(config)), incarnations_(incarnations) {
  for (const auto& context : all) {
    know(context.plan);
    if (context.coming)
      know(*context.coming);
  }
}

void child_launcher::know(const cluster_plan& plan) {
  std::lock_guard lock(mutex_);
  pipelines_[plan.generation] = plan.pipeline;
  for (const auto& s : plan.shards) {
    if (plan.width == 1 || meets_over_bus(plan, s))
      continue;
    const auto leader = stage_of(plan, s).front().process;
    leaders_[s.process] = leader;
    widths_[leader] = plan.width;
  }
}

void child_launcher::forget(const actors::child_spec& spec) {
  standbys_.erase(spec.process); // closes the line, so a waiting copy exits
  std::lock_guard lock(mutex_);
  kv_files_.erase(spec.process);
  group_files_.erase(spec.process);
  widths_.erase(spec.process);
  leaders_.erase(spec.process);
  adopted_.erase(spec.process);
  now_.erase(spec.process);
  dir_.forget(spec.name);
}

void child_launcher::serve(actors::supervisor_config& config) {
  config.adopt = [this](const actors::child_spec& spec) { return adopt(spec); };
  config.start = [this](const actors::child_spec& spec, incarnation_id incarnation) {
    return start(spec, incarnation);
  };
  config.stop = [this](const actors::child_spec&, std::int32_t pid, bool force) {
    watch_.signal(pid, force ? SIGKILL : SIGTERM);
  };
  config.is_starved = [watch = std::make_shared<starvation_watch>()](std::int32_t pid) {
    return watch->look(pid, starvation_watch::clock::now());
  };
  config.abandon = [this](const actors::child_spec& spec) { return abandon(spec); };
  config.retired = [this](const actors::child_spec& spec) { forget(spec); };
  config.now = [] { return std::chrono::steady_clock::now(); };
  config.next_incarnation = [this](process_id) { return incarnations_.next(); };
}

// Adopts by the persisted pid, start time and incarnation. The supervisor accepts the child once it
// connects with that incarnation. The memory for its KV was lost with the agent that held it.
std::optional<actors::left_child> child_launcher::adopt(const actors::child_spec& spec) {
  for (const auto& record : dir_.alive()) {
    if (record.name != spec.name)
      continue;
    const int pidfd = open_recorded(record);
    if (pidfd < 0)
      return std::nullopt;
    {
      std::lock_guard lock(mutex_);
      adopted_[spec.process] = record.pid;
      now_[spec.process] = {record.pid, record.incarnation};
    }
    watch_.adopt(record.pid, pidfd, ends_of(spec, record.incarnation));
    restart_separated_ranks();
    return actors::left_child{record.pid, record.incarnation};
  }
  return std::nullopt;
}

std::uint32_t child_launcher::pipeline_of(const actors::child_spec& spec) {
  if (spec.role == role::head)
    return process_ids::pipeline_of_head(spec.process);
  std::lock_guard lock(mutex_);
  const auto known = pipelines_.find(process_ids::generation_of(spec.process));
  ENSURE(known != pipelines_.end(), "{} is of an unknown generation", spec.name);
  return known->second;
}

result<std::int32_t> child_launcher::start(const actors::child_spec& spec,
                                           incarnation_id incarnation) {
  launch what;
  // Our own image, even after a rebuild has replaced the file: only equal builds connect.
  what.program = "/proc/self/exe";
  what.argv = {"baton-" + spec.name,
               std::string(gateway::name_of(spec.role)),
               "--config",
               config_.string(),
               "--epoch",
               std::to_string(incarnation.value),
               "--index",
               std::to_string(index_of(spec))};
  if (spec.role == role::head || spec.role == role::shard)
    what.argv.insert(what.argv.end(), {"--pipeline", std::to_string(pipeline_of(spec))});
  if (spec.role == role::shard)
    what.argv.insert(what.argv.end(),
                     {"--generation", std::to_string(process_ids::generation_of(spec.process))});
  what.log = dir_.log(spec.name);
  if (spec.role != role::shard)
    return watch_.start(what, ends_of(spec, incarnation));
  {
    std::lock_guard lock(mutex_);
    now_[spec.process] = {0, incarnation}; // before it can end
  }
  auto started = start_shard(spec, incarnation, std::move(what));
  std::lock_guard lock(mutex_);
  now_[spec.process].pid = started ? *started : 0;
  return started;
}

child_watch::ended child_launcher::ends_of(const actors::child_spec& spec,
                                           incarnation_id incarnation) {
  return [this, spec, log = dir_.log(spec.name), incarnation](std::int32_t, const child_end& how) {
    check_memory(spec.process, incarnation, how);
    const bool has_exited = how.how == child_end::way::exit,
               is_permanent = has_exited && how.number == exit_permanent;
    auto text = how.text();
    if (is_permanent || (has_exited && how.number == exit_device_lost))
      if (const auto why = last_log_message(log); !why.empty())
        text += ": " + why;
    ended({.process = spec.process,
           .incarnation = incarnation,
           .how = std::move(text),
           .is_permanent = is_permanent,
           .has_failed = has_failed(spec.role, how),
           .name = spec.name});
  };
}

// Wakes the copy of the last incarnation if there is one: it already has the weights.
result<std::int32_t> child_launcher::start_shard(const actors::child_spec& spec,
                                                 incarnation_id incarnation, launch what) {
  const int kv_file = kv_file_of(spec);
  const int group_file = group_file_of(spec); // a copy already has it
  if (auto left = standbys_.find(spec.process); left != standbys_.end())
    if (auto pid = left->second.activate({incarnation, getpid(), kv_file}))
      if (auto adopted = watch_.adopt(*pid, ends_of(spec, incarnation)))
        return adopted;
  standbys_.erase(spec.process); // a copy that is gone must not share its line with another
  const auto pass = [&what](const char* option, int file) {
    what.argv.insert(
        what.argv.end(),
        {option, std::to_string(inherited_file + static_cast<int>(what.files.size()))});
    what.files.push_back(file);
  };
  if (kv_file >= 0)
    pass("--kv-file", kv_file);
  if (group_file >= 0)
    pass("--group-file", group_file);
  if (auto channel = standby_channel::create()) {
    pass("--copies", channel->for_child());
    standbys_.emplace(spec.process, *std::move(channel));
  } else {
    spdlog::warn("{}", channel.error().message); // its next incarnation starts from scratch
  }
  return watch_.start(what, ends_of(spec, incarnation));
}

// -1: unavailable; the shard then allocates private KV memory.
int child_launcher::kv_file_of(const actors::child_spec& spec) {
  std::lock_guard lock(mutex_);
  auto it = kv_files_.find(spec.process);
  if (it == kv_files_.end()) {
    auto made = memory_file::create(spec.name + std::string(kv_file_suffix));
    if (!made) {
      spdlog::warn("{}", made.error().message);
      return -1;
    }
    it = kv_files_.emplace(spec.process, *std::move(made)).first;
  }
  return it->second.fd();
}

// -1: the stage is a single shard, or no memory is available, which the shard reports.
int child_launcher::group_file_of(const actors::child_spec& spec) {
  int fd = -1;
  {
    std::lock_guard lock(mutex_);
    adopted_.erase(spec.process); // the adopted one has ended
    const auto leader = leaders_.find(spec.process);
    if (leader == leaders_.end())
      return -1;
    auto it = group_files_.find(leader->second);
    if (it == group_files_.end()) {
      auto made = make_group_file(leader->second);
      if (!made) {
        spdlog::error("{}", made.error().message);
        return -1;
      }
      it = group_files_.emplace(leader->second, *std::move(made)).first;
    }
    fd = it->second.fd();
  }
  restart_separated_ranks();
  return fd;
}

// The memory that adopted shards share was lost with their agent. Once a new one exists for their
// stage, they must restart to share it with the other ranks.
void child_launcher::restart_separated_ranks() {
  std::map<process_id, std::int32_t> apart;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [process, pid] : adopted_)
      if (const auto of = leaders_.find(process);
          of != leaders_.end() && group_files_.contains(of->second))
        apart.emplace(process, pid);
    for (const auto& [process, pid] : apart)
      adopted_.erase(process);
  }
  for (const auto& [process, pid] : apart) {
    spdlog::warn("process {} restarts: another rank of its stage was lost with its agent", pid);
    watch_.signal(pid, SIGKILL);
  }
}

result<memory_file> child_launcher::make_group_file(process_id leader) {
  auto made = memory_file::create("group");
  if (!made)
    return made;
  if (auto laid_out = collective::group_memory::create(made->fd(), widths_.at(leader)); !laid_out)
    return laid_out.error();
  return made;
}

// A shard that was killed by SIGKILL leaves its KV as of its last finished step. One that crashed,
// or whose end was not observed, may have written anywhere: the next one gets new memory.
void child_launcher::check_memory(process_id shard, incarnation_id incarnation,
                                  const child_end& how) {
  std::lock_guard lock(mutex_);
  if (const auto last = now_.find(shard);
      last != now_.end() && last->second.incarnation != incarnation)
    return; // an abandoned incarnation, whose memory is already dropped
  if (how.how != child_end::way::signal || how.number != SIGKILL)
    kv_files_.erase(shard);
}

// A shard that survives SIGKILL hangs in the kernel, which may still write to its memory. Its KV
// and the shared memory of its stage are not reused, so the other ranks restart. Only shards can be
// abandoned: each incarnation of a shard has its own endpoint.
bool child_launcher::abandon(const actors::child_spec& spec) {
  if (spec.role != role::shard)
    return false;
  std::vector<std::int32_t> ranks;
  {
    std::lock_guard lock(mutex_);
    kv_files_.erase(spec.process);
    if (const auto of = leaders_.find(spec.process); of != leaders_.end()) {
      group_files_.erase(of->second);
      for (const auto& [process, leader] : leaders_)
        if (const auto it = now_.find(process);
            leader == of->second && process != spec.process && it != now_.end())
          ranks.push_back(it->second.pid);
    }
  }
  for (const auto pid : ranks)
    watch_.signal(pid, SIGKILL);
  return true;
}

void child_launcher::ended(actors::child_exited what) {
  if (observer_)
    observer_(what);
  std::lock_guard lock(mutex_);
  if (supervisor_)
    caf::anon_send(*supervisor_, std::move(what));
  else
    early_.push_back(std::move(what));
}

void child_launcher::reports_to(actors::supervisor_actor supervisor) {
  std::lock_guard lock(mutex_);
  for (auto& e : early_)
    caf::anon_send(supervisor, std::move(e));
  early_.clear();
  supervisor_ = std::move(supervisor);
}

} // namespace baton::cluster
