// Publishes state that several threads change. Publishing under a lock could deadlock: the callee
// may run in this thread and take the lock again. Without a lock, the thread that read first may
// publish last and leave stale state. So each thread reads again after publishing.
#pragma once

#include <utility>

namespace baton::cluster {

// `read` returns a pair of version and state; `publish` takes the state. If several threads do this
// concurrently, the last one to publish publishes the newest state.
template <class Look, class Tell>
void tell_newest(Look look, Tell tell) {
  for (auto now = look();;) {
    tell(std::move(now.second));
    auto then = look();
    if (then.first == now.first)
      return;
    now = std::move(then);
  }
}

} // namespace baton::cluster
