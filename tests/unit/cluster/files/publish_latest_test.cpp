// Threads that publish at the same time, here one within the other: the worst possible order.
#include "cluster/files/publish_latest.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

using namespace baton::cluster;

TEST_CASE("the thread that read first and publishes last publishes the latest value") {
  std::pair<int, std::string> now{1, "starting"};
  std::vector<std::string> published;
  std::function<void()> meanwhile;
  const auto publish = [&] {
    publish_latest([&] { return now; },
                   [&](std::string text) {
                     if (auto other = std::exchange(meanwhile, nullptr))
                       other();
                     published.push_back(std::move(text));
                   });
  };
  meanwhile = [&] {
    now = {2, "ready"};
    publish();
  };
  publish();
  CHECK(published == std::vector<std::string>{"ready", "starting", "ready"});
  publish(); // nothing has changed: once
  CHECK(published.size() == 4);
}
