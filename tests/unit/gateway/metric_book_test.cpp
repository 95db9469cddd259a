#include "gateway/metric_book.hpp"
#include "gateway/torchserve_metrics.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

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

bool has(const std::string& text, std::string_view line) {
  return text.find(line) != text.npos;
}

struct world {
  std::shared_ptr<metric_book> book = std::make_shared<metric_book>();
  metric_book::source first{book, "m", "1"};
  std::string text() const { return book->text(); }
};

} // namespace

TEST_CASE("counters are summed up, gauges are set or moved, each under its labels") {
  world w;
  CHECK(w.text().empty());
  metric_book::source second(w.book, "m", "2");
  CHECK(w.first.take({counter("words", 3, {{"b", "\"x\"\n"}, {"a", "1"}}), counter("words", 0)})
            .empty());
  CHECK(second.take({counter("words", 4, {{"a", "1"}, {"b", "\"x\"\n"}})}).empty());
  CHECK(second.take({gauge("depth", 7, true), gauge("depth", -2.5, false)}).empty());
  const auto text = w.text();
  CHECK(has(text, "# HELP words What it is.\n# TYPE words counter\n"));
  CHECK(has(text, "words 0\n"));
  CHECK(has(text, "words{a=\"1\",b=\"\\\"x\\\"\\n\"} 7\n"));
  CHECK(has(text, "# TYPE depth gauge\ndepth 4.5\n"));
  CHECK(w.book->text([](const std::string& name) { return name == "depth"; }).find("words") ==
        text.npos);
}

TEST_CASE("what a model counted goes with the last of those who counted it") {
  world w;
  w.first.take({counter("mine", 1), counter("ours", 1)});
  {
    metric_book::source next(w.book, "m", "1"); // a revision that takes the place
    next.take({counter("ours", 2)});
    w.first = {};
    CHECK(w.text().find("mine") == std::string::npos);
    CHECK(has(w.text(), "ours 3\n"));
  }
  CHECK(w.text().empty());
}

TEST_CASE("names, labels and values that cannot be told are counted as refused") {
  world w;
  CHECK(w.first.take({counter("1st", 1)}) ==
        std::vector<std::string>{"the metric '1st' of the model m is not told: name"});
  for (const auto* name : {"", "a b", "a-b", "\xc3\xa4", "baton_ready", "nv_x", "ts_y", "vllm:z"})
    CHECK(w.first.take({counter(name, 1)}).empty()); // it was said once
  w.first.take({counter("a", 1, {{"__name__", "x"}}), counter("a", 1, {{"b:c", "x"}})});
  w.first.take({counter("a", 1, {{"b", std::string(metric_book::value_bytes_max + 1, 'x')}})});
  auto down = counter("a", -1);
  auto set = counter("a", 1);
  set.sets = true;
  w.first.take({down, set, gauge("a", std::nan(""), true)});
  w.first.take({counter("both", 1), gauge("both", 1, true)});
  const auto text = w.text();
  for (const auto& [reason, count] :
       {std::pair("name", 9), std::pair("labels", 3), std::pair("value", 3), std::pair("kind", 1)})
    CHECK(has(text, fmt::format("baton_handler_metrics_refused_total{{model_name=\"m\",version="
                                "\"1\",reason=\"{}\"}} {}\n",
                                reason, count)));
  CHECK(has(text, "both 1\n"));
  CHECK_FALSE(has(text, "# TYPE a "));
  metric_book::source next(w.book, "m", "1"); // one line for both revisions
  next.take({counter("1st", 1)});
  CHECK(has(w.text(), "version=\"1\",reason=\"name\"} 10\n"));
  w.first = {};
  CHECK(has(w.text(), "version=\"1\",reason=\"name\"} 1\n"));
  next = {};
  CHECK(w.text().empty());
}

TEST_CASE("names and sets of labels are bounded, of a model and together") {
  world w;
  const auto fill = [](metric_book::source& by, const std::string& prefix, std::size_t names,
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
  fill(w.first, "a", metric_book::source_names_max + 5, 1);
  CHECK(lines() == metric_book::source_names_max);
  fill(w.first, "a", 1, metric_book::source_series_max + 5);
  CHECK(lines() == metric_book::source_series_max);
  CHECK(has(w.text(), "reason=\"too many\""));
  std::vector<metric_book::source> others;
  for (int i = 0; i < 9; ++i) {
    others.emplace_back(w.book, "other", std::to_string(i));
    fill(others.back(), fmt::format("o{}_", i), 1, metric_book::source_series_max + 5);
  }
  CHECK(lines() == metric_book::series_max);
  others.clear();
  CHECK(lines() == metric_book::source_series_max);
}

TEST_CASE("TorchServe's address tells them behind its own, which nobody takes") {
  world w;
  w.first.take({counter("Words", 2, {{"Level", "Model"}}), gauge("QueueTime", 99, true)});
  torchserve_metrics m;
  const auto all = m.text({}, *w.book);
  CHECK(has(all, "Words{Level=\"Model\"} 2\n"));
  CHECK(all.find("QueueTime 99") == all.npos);
  CHECK(m.text({"Words"}, *w.book).starts_with("# HELP Words"));
  CHECK(m.text({"Requests2XX"}, *w.book).find("Words") == all.npos);
}
