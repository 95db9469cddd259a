// Telling what several threads change. Under a lock nothing may be told: whoever is told may run in
// this thread and ask for the lock again. Without one, who looked first may tell last, and then
// what is old stands for ever. So whoever has told looks again.
#pragma once

#include <utility>

namespace baton::cluster {

// `look` gives the version of what there is and what there is, together; `tell` takes the latter.
// Of several threads that do this at a time, the last that tells tells the newest.
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
