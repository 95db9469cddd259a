#include "gateway/metrics/metric_registry.hpp"
#include "gateway/metrics/torchserve_metrics.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <sstream>
#include <thread>
#include <utility>

using namespace baton;
using namespace baton::gateway;

namespace {

using labels = std::vector<header_field>;

handler_metric counter(std::string name, double value, labels l = {}) {
  return {std::move(name), "What it is.", metric_kind::counter, std::move(l), false, value};
}
handler_metric gauge(std::string name, double value, bool sets, labels l = {}) {
  return {std::move(name), "How much.", metric_kind::gauge, std::move(l), sets, value};
}

bool reports(const std::string& text, std::string_view line) {
  return text.find(line) != text.npos;
}

struct metric_registry_world {
  std::shared_ptr<metric_registry> registry = std::make_shared<metric_registry>();
  metric_registry::source first{registry, "m", "1"};
  // Without the zero counts of refusals, which every source has.
  std::string text() const {
    std::istringstream all(registry->text());
    std::string parsed, heads;
    for (std::string line; std::getline(all, line);) {
      const bool is_refused = line.find("baton_handler_metrics_refused_total") != line.npos;
      if (is_refused && line.starts_with('#')) {
        heads += line + "\n";
      } else if (!is_refused || !line.ends_with("} 0")) {
        parsed += (is_refused ? std::exchange(heads, {}) : "") + line + "\n";
      }
    }
    return parsed;
  }
};

} // namespace

TEST_CASE("counters are summed, gauges are set or changed, each under its labels") {
  metric_registry_world w;
  CHECK(w.text().empty());
  metric_registry::source second(w.registry, "m", "2");
  CHECK(w.first.take({counter("words", 3, {{"b", "\"x\"\n"}, {"a", "1"}}), counter("words", 0)})
            .empty());
  CHECK(second.take({counter("words", 4, {{"a", "1"}, {"b", "\"x\"\n"}})}).empty());
  CHECK(second.take({gauge("depth", 7, true), gauge("depth", -2.5, false)}).empty());
  const auto text = w.text();
  CHECK(reports(text, "# HELP words What it is.\n# TYPE words counter\n"));
  CHECK(reports(text, "words 0\n"));
  CHECK(reports(text, "words{a=\"1\",b=\"\\\"x\\\"\\n\"} 7\n"));
  CHECK(reports(text, "# TYPE depth gauge\ndepth 4.5\n"));
  CHECK(w.registry->text([](const std::string& name) { return name == "depth"; }).find("words") ==
        text.npos);
}

TEST_CASE("refusals of a model's metrics begin at 0, for every reason") {
  const metric_registry_world w;
  for (const auto* reason : {"name", "labels", "value", "kind", "too many"}) {
    CAPTURE(reason);
    CHECK(reports(w.registry->text(),
                  fmt::format("baton_handler_metrics_refused_total{{model_name=\"m\","
                              "version=\"1\",reason=\"{}\"}} 0\n",
                              reason)));
  }
}

TEST_CASE("a help text stays one line, whatever it contains") {
  metric_registry_world w;
  auto forged = counter("words", 1);
  forged.help = "Words.\n# TYPE baton_ready gauge\nbaton_ready 0 \\ \r\"";
  w.first.take({forged});
  CHECK(w.text() == "# HELP words Words.\\n# TYPE baton_ready gauge\\nbaton_ready 0 \\\\ \r\"\n"
                    "# TYPE words counter\nwords 1\n");
}

TEST_CASE("a model's gauges go with its last source, its counters stay and continue") {
  metric_registry_world w;
  w.first.take({counter("mine", 1), counter("ours", 1), gauge("depth", 3, true)});
  {
    metric_registry::source next(w.registry, "m", "1"); // a revision that replaces it
    next.take({counter("ours", 2)});
    w.first = {};
    CHECK_FALSE(reports(w.text(), "depth"));
    CHECK(reports(w.text(), "mine 1\n"));
    CHECK(reports(w.text(), "ours 3\n"));
  }
  CHECK(reports(w.text(), "ours 3\n"));
  metric_registry::source again(w.registry, "m", "1"); // unloaded, and loaded again
  again.take({counter("ours", 4), counter("mine", 0)});
  CHECK(reports(w.text(), "mine 1\n"));
  CHECK(reports(w.text(), "ours 7\n"));
}

TEST_CASE("a counter without a source frees its name") {
  metric_registry_world w;
  w.first.take({counter("size", 1, {{"a", "1"}}), counter("size", 1, {{"a", "2"}})});
  metric_registry::source other(w.registry, "n", "1");
  other.take({counter("size", 1, {{"a", "1"}})});
  w.first = {};
  other.take({gauge("size", 2, true)}); // `other` counts under it
  CHECK(reports(w.text(), "size{a=\"2\"} 1\n"));
  other = {};
  metric_registry::source next(w.registry, "n", "2");
  next.take({gauge("size", 2, true)});
  CHECK(reports(w.text(), "# TYPE size gauge\nsize 2\n"));
  CHECK_FALSE(reports(w.text(), "size{"));
}

TEST_CASE("invalid names, labels and values are counted as refused") {
  metric_registry_world w;
  CHECK(w.first.take({counter("1\nst\x1b", 1)}) ==
        std::vector<std::string>{R"(the metric "1\nst\x1b" of the model m is refused: name)"});
  for (const auto* name : {"", "a b", "a-b", "\xc3\xa4", "baton_ready", "nv_x", "ts_y", "vllm:z",
                           "tgi_t", "http_requests_total", "http_request_duration_seconds"})
    CHECK(w.first.take({counter(name, 1)}).empty()); // it was logged once
  w.first.take({counter("a", 1, {{"__name__", "x"}}), counter("a", 1, {{"b:c", "x"}})});
  w.first.take({counter("a", 1, {{"b", std::string(metric_registry::value_bytes_max + 1, 'x')}})});
  auto down = counter("a", -1);
  auto set = counter("a", 1);
  set.sets = true;
  w.first.take({down, set, gauge("a", std::nan(""), true)});
  w.first.take({counter("both", 1), gauge("both", 1, true)});
  const auto text = w.text();
  for (const auto& [reason, count] :
       {std::pair("name", 12), std::pair("labels", 3), std::pair("value", 3), std::pair("kind", 1)})
    CHECK(reports(text, fmt::format("baton_handler_metrics_refused_total{{model_name=\"m\",version="
                                    "\"1\",reason=\"{}\"}} {}\n",
                                    reason, count)));
  CHECK(reports(text, "both 1\n"));
  CHECK_FALSE(reports(text, "# TYPE a "));
  metric_registry::source next(w.registry, "m", "1"); // one line for both revisions
  next.take({counter("1st", 1)});
  CHECK(reports(w.text(), "version=\"1\",reason=\"name\"} 13\n"));
  w.first = {};
  next = {};
  CHECK(reports(w.text(), "version=\"1\",reason=\"name\"} 13\n"));
  metric_registry::source again(w.registry, "m", "1");
  again.take({counter("1st", 1)});
  CHECK(reports(w.text(), "version=\"1\",reason=\"name\"} 14\n"));
}

TEST_CASE("names and label sets are bounded, per model and in total") {
  metric_registry_world w;
  const auto fill = [](metric_registry::source& by, const std::string& prefix, std::size_t names,
                       std::size_t sets) {
    for (std::size_t n = 0; n < names; ++n)
      for (std::size_t s = 0; s < sets; ++s)
        by.take({counter(fmt::format("{}{}", prefix, n), 1, {{"s", std::to_string(s)}})});
  };
  const auto lines = [&w] {
    std::size_t count = 0;
    const auto text = w.text();
    for (auto at = text.find("{s="); at != text.npos; at = text.find("{s=", at + 1))
      ++count;
    return count;
  };
  fill(w.first, "a", metric_registry::source_names_max + 5, 1);
  CHECK(lines() == metric_registry::source_names_max);
  fill(w.first, "a", 1, metric_registry::source_series_max + 5);
  CHECK(lines() == metric_registry::source_series_max);
  CHECK(reports(w.text(), "reason=\"too many\""));
  std::vector<metric_registry::source> others;
  for (int i = 0; i < 9; ++i) {
    others.emplace_back(w.registry, "other", std::to_string(i));
    fill(others.back(), fmt::format("o{}_", i), 1, metric_registry::source_series_max + 5);
  }
  CHECK(lines() == metric_registry::series_max);
  others.clear();
  CHECK(lines() == metric_registry::series_max); // they stay until others need the room
  metric_registry::source last(w.registry, "last", "1");
  fill(last, "last", 1, metric_registry::source_series_max);
  CHECK(lines() == metric_registry::series_max);
  const auto text = w.text();
  CHECK(
      reports(text, fmt::format("last0{{s=\"{}\"}} 1\n", metric_registry::source_series_max - 1)));
  CHECK(reports(text, "a0{s=\"0\"} 2\n")); // a live source keeps its room
  CHECK_FALSE(reports(text, "o0_0{s=\"0\"} 1\n"));
}

TEST_CASE("names are bounded in total as well") {
  metric_registry_world w;
  std::vector<metric_registry::source> all;
  for (std::size_t i = 0; i * metric_registry::source_names_max <= metric_registry::names_max;
       ++i) {
    auto& by = all.emplace_back(w.registry, "m", std::to_string(i));
    for (std::size_t n = 0; n < metric_registry::source_names_max; ++n)
      by.take({counter(fmt::format("m{}_{}", i, n), 1)});
  }
  const auto text = w.text();
  const auto last = all.size() - 1; // the first beyond the limit
  CHECK(reports(text, fmt::format("m{}_{} 1\n", last - 1, metric_registry::source_names_max - 1)));
  CHECK_FALSE(reports(text, fmt::format("m{}_0 1\n", last)));
  CHECK(reports(text, fmt::format("version=\"{}\",reason=\"too many\"}} {}\n", last,
                                  metric_registry::source_names_max)));
  all.erase(all.begin());
  all.back().take({counter("late", 1)}); // there is room again
  CHECK(reports(w.text(), "late 1\n"));
}

TEST_CASE("bytes are bounded, per model and in total, and are freed after their last source") {
  const auto fill = [](metric_registry::source& by, const std::string& name) {
    labels wide;
    for (int i = 0; i < 30; ++i)
      wide.push_back({fmt::format("l{}", i), std::string(metric_registry::value_bytes_max, 'x')});
    for (std::size_t s = 0; s < metric_registry::source_series_max; ++s) {
      wide.front().value = std::to_string(s);
      by.take({counter(name, 1, wide)});
    }
  };
  metric_registry_world w;
  for (int round = 0; round < 2; ++round) {
    {
      metric_registry::source one(w.registry, "m", "1");
      fill(one, "a");
      const auto text = w.text();
      CHECK(text.size() > metric_registry::source_bytes_max / 2);
      const bool is_first = round == 0; // later rounds also have series whose source has left
      CHECK(text.size() <
            (is_first ? metric_registry::source_bytes_max : metric_registry::bytes_max) * 2);
      CHECK(reports(text, "reason=\"too many\""));
      std::vector<metric_registry::source> others;
      for (std::size_t i = 0; i < 10; ++i)
        fill(others.emplace_back(w.registry, "m", "2"), fmt::format("b{}", i));
      CHECK(w.text().size() > metric_registry::bytes_max / 2);
      CHECK(w.text().size() < metric_registry::bytes_max * 2);
    }
    CHECK(w.text().size() < metric_registry::bytes_max * 2); // left, not yet forgotten
  }
}

// For ThreadSanitizer; nothing is lost or reported partially.
TEST_CASE("pools report while the text is read, and others come and go") {
  metric_registry_world w;
  constexpr int rounds = 500;
  const auto deliver = [&](const char* name) {
    for (int i = 0; i < rounds; ++i) {
      metric_registry::source passing(w.registry, "m", "2");
      passing.take({counter(name, 1, {{"of", "passing"}}), gauge("1st", 1, true)});
      w.first.take({counter("both", 1), gauge("depth", i, true)});
    }
  };
  std::atomic<bool> is_over{false};
  std::thread first(deliver, "one"), second(deliver, "two");
  std::thread reader([&] {
    while (!is_over) {
      const auto text = w.text();
      CHECK((text.empty() || text.ends_with('\n')));
    }
  });
  first.join();
  second.join();
  is_over = true;
  reader.join();
  CHECK(reports(w.text(), fmt::format("both {}\n", 2 * rounds)));
  CHECK(reports(w.text(), fmt::format("one{{of=\"passing\"}} {}\n", rounds)));
}

TEST_CASE("TorchServe's address lists them after its own, whose names are reserved") {
  metric_registry_world w;
  w.first.take({counter("Words", 2, {{"Level", "Model"}}), gauge("QueueTime", 99, true)});
  torchserve_metrics m;
  const auto all = m.text({}, *w.registry);
  CHECK(reports(all, "Words{Level=\"Model\"} 2\n"));
  CHECK(all.find("QueueTime 99") == all.npos);
  CHECK(m.text({"Words"}, *w.registry).starts_with("# HELP Words"));
  CHECK(m.text({"Requests2XX"}, *w.registry).find("Words") == all.npos);
}

TEST_CASE("bucket counters with a sum and a count form a histogram over all processes") {
  metric_registry_world w;
  const auto observe = [](metric_registry::source& by, double fast, double all, double sum) {
    return by.take({counter("seconds_bucket", fast, {{"le", "0.5"}, {"kind", "a"}}),
                    counter("seconds_bucket", all, {{"le", "+Inf"}, {"kind", "a"}}),
                    counter("seconds_sum", sum, {{"kind", "a"}}),
                    counter("seconds_count", all, {{"kind", "a"}})});
  };
  CHECK(observe(w.first, 1, 3, 20.5).empty());
  {
    metric_registry::source second(w.registry, "m", "2");
    CHECK(observe(second, 1, 1, 0.25).empty());
    CHECK(w.text() == "# HELP seconds What it is.\n# TYPE seconds histogram\n"
                      "seconds_count{kind=\"a\"} 4\nseconds_sum{kind=\"a\"} 20.75\n"
                      "seconds_bucket{kind=\"a\",le=\"0.5\"} 2\n"
                      "seconds_bucket{kind=\"a\",le=\"+Inf\"} 4\n");
  }
  // A restarted process reports new values: the earlier counts stay.
  CHECK(observe(w.first, 0, 0, 0).empty());
  CHECK(observe(w.first, 1, 1, 0.5).empty());
  CHECK(reports(w.text(), "seconds_bucket{kind=\"a\",le=\"+Inf\"} 5\n"));
  // By its own name, as by its parts'.
  CHECK(reports(w.registry->text([](const std::string& name) { return name == "seconds"; }),
                "# TYPE seconds histogram\n"));
  CHECK_FALSE(reports(w.registry->text([](const std::string& name) { return name == "other"; }),
                      "seconds"));
}

TEST_CASE("a histogram with bounds unknown to some processes stays monotonic") {
  metric_registry_world w;
  CHECK(w.first
            .take({counter("s_bucket", 2, {{"le", "1"}}), counter("s_bucket", 1, {{"le", "5.0"}}),
                   counter("s_bucket", 3, {{"le", "+Inf"}}), counter("s_sum", 1),
                   counter("s_count", 3)})
            .empty());
  CHECK(reports(w.text(), "s_bucket{le=\"1\"} 2\ns_bucket{le=\"5\"} 2\ns_bucket{le=\"+Inf\"} 3\n"));
}

TEST_CASE("counters that form no histogram stay counters") {
  metric_registry_world w;
  CHECK(
      w.first
          .take({counter("a_bucket", 1), counter("a_sum", 1), counter("a_count", 1),
                 counter("b_bucket", 1, {{"le", "x"}}), counter("b_sum", 1), counter("b_count", 1),
                 counter("c_bucket", 1, {{"le", "1"}}), counter("c_sum", 1),
                 gauge("d_count", 1, true), counter("d_bucket", 1, {{"le", "1"}}),
                 counter("d_sum", 1), counter("_bucket", 1, {{"le", "1"}})})
          .empty());
  const auto text = w.text();
  CHECK_FALSE(reports(text, "histogram"));
  for (const auto* line : {"a_bucket 1\n", "b_bucket{le=\"x\"} 1\n", "c_bucket{le=\"1\"} 1\n",
                           "d_bucket{le=\"1\"} 1\n", "# TYPE a_bucket counter\n"})
    CHECK(reports(text, line));
}
