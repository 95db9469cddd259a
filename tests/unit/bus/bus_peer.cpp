// A process to be killed: links itself to one peer and echoes. Started by bus_child_test.
//   bus_peer NODE EPOCH ENDPOINT PEER_NODE PEER_ENDPOINT
#include "tests/unit/bus/live_process.hpp"

#include <spdlog/spdlog.h>
#include <sys/prctl.h>

#include <csignal>
#include <cstdlib>

int main(int count, char** words) {
  using namespace baton;
  if (count != 6)
    return 2;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL); // never outlives the test
  spdlog::set_level(spdlog::level::off);
  const auto number = [&](int i) { return std::strtoul(words[i], nullptr, 10); };
  testing::live_process self(process_id{static_cast<std::uint32_t>(number(1))},
                             incarnation_id{number(2)}, words[3]);
  if (!self.links->connect(process_id{static_cast<std::uint32_t>(number(4))}, words[5]))
    return 3;
  for (;;)
    self.wait([] { return false; });
}
