// Publishes state that several threads change. Publishing under a lock could deadlock: the callee
// may run in this thread and take the lock again. Without a lock, the thread that read first may
// publish last and leave stale state. So each thread reads again after publishing.
#pragma once

#include <utility>

namespace baton::cluster {

// `read` returns a pair of version and state; `publish` takes the state. If several threads do this
// concurrently, the last one to publish publishes the newest state.
template <class Read, class Publish>
void publish_latest(Read read, Publish publish) {
  for (auto now = read();;) {
    publish(std::move(now.second));
    auto then = read();
    if (then.first == now.first)
      return;
    now = std::move(then);
  }
}

} // namespace baton::cluster
