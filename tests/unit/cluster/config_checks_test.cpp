

namespace {

// With one more line in [cluster] or [gateway].
result<cluster_config> with_line(const char* table, const std::string& line) {
  return parse_config(
      fmt::format("[{}]\n{}\n[model]\nname = \"m\"\npath = \"a.gguf\"\n", table, line), "x.toml");
}

} // namespace

TEST_CASE("how much is logged is one of five levels, of all processes") {
  CHECK(with_line("cluster", "")->log_level == "info");
  for (const auto* level : {"debug", "info", "warn", "error", "off"}) {
    CAPTURE(level);
    const auto c = with_line("cluster", fmt::format("log_level = \"{}\"", level));
    REQUIRE(c);
    CHECK(c->log_level == level);
  }
  for (const auto* level : {"", "trace", "INFO", "warning"}) {
    CAPTURE(level);
    const auto c = with_line("cluster", fmt::format("log_level = \"{}\"", level));
    REQUIRE_FALSE(c);
    CHECK(c.error().param == "cluster.log_level");
    CHECK(c.error().message.find("debug, info, warn, error, off") != std::string::npos);
  }
  CHECK(with_line("gateway", "")->gateway.access_log);
  CHECK_FALSE(with_line("gateway", "access_log = false")->gateway.access_log);
}

TEST_CASE("names that stand for the one model are TGI's clients', and may be said") {
  const std::vector<std::string> known{"dummy", "tgi"};
  CHECK(with_line("gateway", "")->gateway.placeholder_models == known);
  CHECK(with_line("gateway", "placeholder_models = []")->gateway.placeholder_models.empty());
  for (const auto* wrong : {"\"any\"", "[\"\"]", "[\"a b\"]", "true"}) {
    CAPTURE(wrong);
    const auto c = with_line("gateway", fmt::format("placeholder_models = {}", wrong));
    REQUIRE_FALSE(c);
    CHECK(c.error().param == "gateway.placeholder_models");
  }
}
