// Settings of the environment.
#include "cluster/hub/hub_settings.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>

using namespace baton::cluster;

namespace {

hub_settings settings_of(const std::map<std::string, std::string>& environment) {
  return hub_settings_of([&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

} // namespace

TEST_CASE("the cache is where huggingface_hub has it") {
  CHECK(settings_of({{"HOME", "/h"}}).cache == "/h/.cache/huggingface/hub");
  CHECK(settings_of({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}}).cache == "/x/huggingface/hub");
  CHECK(settings_of({{"HOME", "/h"}, {"HF_HOME", "/m"}}).cache == "/m/hub");
  CHECK(settings_of({{"HF_HOME", "/m"}, {"HF_HUB_CACHE", "/c"}}).cache == "/c");
  CHECK(settings_of({{"HF_HOME", "/m"}, {"HUGGINGFACE_HUB_CACHE", "/c"}}).cache == "/c");
}

TEST_CASE("home directories and variables in paths are expanded") {
  const std::map<std::string, std::string> all{
      {"HOME", "/h"}, {"DISK", "/mnt/d"}, {"A", "$DISK"}, {"EMPTY", ""}, {"B_1", "b"}};
  const auto cache = [&](const std::string& text) {
    auto with = all;
    with["HF_HUB_CACHE"] = text;
    return settings_of(with).cache.string();
  };
  CHECK(cache("~") == "/h");
  CHECK(cache("~/x/~") == "/h/x/~");
  CHECK(cache("x/~/y") == "x/~/y");
  CHECK(cache("$DISK/hub") == "/mnt/d/hub");
  CHECK(cache("${DISK}s/${B_1}$B_1-x") == "/mnt/ds/bb-x");
  CHECK(cache("$A/x") == "$DISK/x"); // values are not expanded again
  CHECK(cache("/a$EMPTY/b") == "/a/b");
  CHECK(cache("/$NOT_SET/${NOT_SET}/$") == "/$NOT_SET/${NOT_SET}/$");
  CHECK(cache("/${DISK/x") == "/${DISK/x");
  CHECK(cache("/$/x$$B_1") == "/$/x$b");
  CHECK(cache("~no-such-user-here/x") == "~no-such-user-here/x");
  CHECK(cache("~root/x").ends_with("/x"));
  CHECK(cache("~root/x").starts_with("/"));
  auto home = all;
  home["HF_HOME"] = "${DISK}/hf";
  CHECK(settings_of(home).cache == "/mnt/d/hf/hub");
  CHECK(settings_of({{"HOME", "/"}, {"HF_HUB_CACHE", "~/x"}}).cache == "/x");
}

TEST_CASE("stores of other programs") {
  const auto usual = settings_of({{"HOME", "/h"}});
  CHECK(usual.ollama.at(0) == "/h/.ollama/models");
  CHECK(usual.lmstudio.at(0) == "/h/.lmstudio/models");
  CHECK(usual.lmstudio.at(1) == "/h/.cache/lm-studio/models");
  CHECK(settings_of({{"HOME", "/h"}, {"OLLAMA_MODELS", "/o"}}).ollama.at(0) == "/o");
}
