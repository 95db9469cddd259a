// Typed handles of one kind of actor by process: a proxy for each, created on first use.
#pragma once

#include "cluster/bus/proxy.hpp"

#include <map>
#include <memory>
#include <mutex>

namespace baton::cluster {

// `links` and `system` must outlive the returned function. Any thread may call it.
template <class Handle>
std::function<Handle(process_id)> proxies(caf::actor_system& system, message_router& links,
                                          actor_id target) {
  struct registry {
    std::mutex mutex;
    std::map<process_id, Handle> handles;
  };
  auto known = std::make_shared<registry>();
  return [&system, &links, target, known](process_id process) {
    std::lock_guard lock(known->mutex);
    auto it = known->handles.find(process);
    if (it == known->handles.end())
      it =
          known->handles.emplace(process, make_proxy<Handle>(system, links, process, target)).first;
    return it->second;
  };
}

} // namespace baton::cluster
