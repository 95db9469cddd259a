#include "gateway/metrics/metric_registry.hpp"

#include "gateway/base/metric_family.hpp"
#include "gateway/metrics/handler_histogram.hpp"

#include <fmt/format.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <sstream>
#include <utility>

namespace baton::gateway {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr std::string_view digits = "0123456789";
constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";

bool is_identifier(std::string_view text, std::string_view more) {
  const auto is_of = [more](char c) {
    return letters.find(c) != letters.npos || more.find(c) != more.npos;
  };
  return !text.empty() && text.size() <= metric_registry::name_bytes_max && is_of(text.front()) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return is_of(c) || digits.find(c) != digits.npos; });
}

bool is_label(const header_field& l) {
  return is_identifier(l.name, "") && !l.name.starts_with("__") &&
         l.value.size() <= metric_registry::value_bytes_max;
}

// Escapes a help text as the format requires; prometheus-cpp escapes only labels. A raw line break
// would let a handler forge the next line.
std::string one_line(std::string_view help) {
  std::string out;
  for (const char c : help) {
    if (c == '\\' || c == '\n')
      out += '\\';
    out += c == '\n' ? 'n' : c;
  }
  return out;
}

MetricFamily handler_family(const std::string& name, std::string_view help, metric_kind kind) {
  MetricFamily made;
  made.name = name;
  made.help = one_line(help);
  made.type = kind == metric_kind::counter ? MetricType::Counter : MetricType::Gauge;
  return made;
}

// The reasons of refusal_of().
constexpr const char* refusals[] = {"name", "labels", "value", "kind", "too many"};

// A rough charge for the map nodes beside their texts.
constexpr std::size_t node_bytes = 64;

std::size_t bytes_of(const std::string& name, const std::string& help) {
  return node_bytes + name.size() + help.size();
}

template <class Labels>
std::size_t bytes_of(const Labels& labels) {
  std::size_t bytes = node_bytes;
  for (const auto& [name, value] : labels)
    bytes += name.size() + value.size();
  return bytes;
}

} // namespace

bool is_reserved_metric(std::string_view name) noexcept {
  constexpr std::string_view own[] = {
      "baton_", "vllm:", "tgi_", "nv_", "ts_", "http_requests_total", "http_request_duration_"};
  return std::any_of(std::begin(own), std::end(own),
                     [name](std::string_view prefix) { return name.starts_with(prefix); });
}

metric_registry::source::source(std::shared_ptr<metric_registry> registry, const std::string& model,
                                const std::string& version)
    : registry_(std::move(registry)), number_(registry_->open(model, version)) {}

metric_registry::source::source(source&& other) noexcept
    : registry_(std::move(other.registry_)), number_(other.number_) {}

metric_registry::source& metric_registry::source::operator=(source&& other) noexcept {
  std::swap(registry_, other.registry_);
  std::swap(number_, other.number_);
  return *this;
}

metric_registry::source::~source() {
  if (registry_)
    registry_->close(number_);
}

std::vector<std::string> metric_registry::source::take(const std::vector<handler_metric>& all) {
  std::vector<std::string> wrong;
  for (const auto& m : all)
    if (auto message = registry_->take(number_, m); !message.empty())
      wrong.push_back(std::move(message));
  return wrong;
}

std::uint64_t metric_registry::open(const std::string& model, const std::string& version) {
  const std::lock_guard lock(mutex_);
  auto& by = sources_[++last_source_] = {
      .model = model, .version = version, .names = {}, .series = 0, .bytes = 0, .refused = {}};
  for (const auto* why : refusals)
    by.refused[why] = 0;
  return last_source_;
}

void metric_registry::close(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto closed = sources_.extract(number);
  const auto& by = closed.mapped();
  for (const auto& [why, count] : by.refused)
    if (count > 0)
      refused_[{by.model, by.version, why}] += count;
  for (auto f = families_.begin(); f != families_.end();) {
    auto& all = f->second.all;
    for (auto s = all.begin(); s != all.end();) {
      const bool was_of_it = s->second.sources.erase(number) > 0;
      const bool is_left = was_of_it && s->second.sources.empty();
      const bool is_over = is_left && f->second.kind == metric_kind::gauge;
      if (is_left && !is_over)
        left_.emplace(s->second.left = ++last_left_, std::pair(f->first, s->first));
      series_ -= is_over ? 1 : 0;
      bytes_ -= is_over ? bytes_of(s->first) : 0;
      s = is_over ? all.erase(s) : std::next(s);
    }
    bytes_ -= all.empty() ? bytes_of(f->first, f->second.help) : 0;
    f = all.empty() ? families_.erase(f) : std::next(f);
  }
}

void metric_registry::forget(std::uint64_t left) {
  const auto entry = left_.extract(left);
  const auto& [name, labels] = entry.mapped();
  const auto of_name = families_.find(name);
  of_name->second.all.erase(labels);
  --series_;
  bytes_ -= bytes_of(labels);
  if (of_name->second.all.empty()) {
    bytes_ -= bytes_of(name, of_name->second.help);
    families_.erase(of_name);
  }
}

// Does nothing if a series of the name still has a source.
void metric_registry::forget_left_of(const std::string& name) {
  std::vector<std::uint64_t> all;
  for (const auto& [labels, s] : families_.at(name).all) {
    if (s.left == 0)
      return;
    all.push_back(s.left);
  }
  for (const auto left : all)
    forget(left);
}

bool metric_registry::has_room(const handler_metric& m, const label_set& labels) const {
  const auto known = families_.find(m.name);
  const bool is_new_name = known == families_.end();
  const bool is_new = is_new_name || !known->second.all.contains(labels);
  const auto more = (is_new ? bytes_of(labels) : 0) + (is_new_name ? bytes_of(m.name, m.help) : 0);
  return (!is_new_name || families_.size() < names_max) && (!is_new || series_ < series_max) &&
         bytes_ + more <= bytes_max;
}

std::string metric_registry::take(std::uint64_t number, const handler_metric& m) {
  const std::lock_guard lock(mutex_);
  auto& by = sources_.at(number);
  const auto* why = refusal_of(by, number, m);
  return why && ++by.refused[why] == 1
             ? fmt::format("the metric {:?} of the model {} is refused: {}",
                           std::string_view(m.name).substr(0, name_bytes_max), by.model, why)
             : std::string();
}

// A worker's SDK already refuses metrics that are wrong in themselves. The rest is checked here:
// conflicts with another model's kind, and the totals.
const char* metric_registry::refusal_of(source_state& by, std::uint64_t number,
                                        const handler_metric& m) {
  if (!is_identifier(m.name, ":") || is_reserved_metric(m.name))
    return "name";
  if (!std::all_of(m.labels.begin(), m.labels.end(), is_label))
    return "labels";
  if (!std::isfinite(m.value) || (m.kind == metric_kind::counter && (m.sets || m.value < 0)))
    return "value";
  label_set labels;
  for (const auto& l : m.labels)
    labels[l.name] = l.value;
  if (const auto other = families_.find(m.name);
      other != families_.end() && other->second.kind != m.kind) {
    forget_left_of(m.name);
    if (families_.contains(m.name))
      return "kind";
  }
  while (!left_.empty() && !has_room(m, labels))
    forget(left_.begin()->first);
  const auto known = families_.find(m.name);
  const bool is_new_name = known == families_.end();
  const bool is_new = is_new_name || !known->second.all.contains(labels);
  const bool is_new_of_source = is_new || !known->second.all.at(labels).sources.contains(number);
  const std::size_t more =
      (is_new ? bytes_of(labels) : 0) + (is_new_name ? bytes_of(m.name, m.help) : 0);
  const bool is_name_of_source = by.names.contains(m.name);
  const std::size_t more_of_source = (is_new_of_source ? bytes_of(labels) : 0) +
                                     (is_name_of_source ? 0 : bytes_of(m.name, m.help));
  if (!has_room(m, labels) || (is_new_of_source && by.series >= source_series_max) ||
      (!is_name_of_source && by.names.size() >= source_names_max) ||
      by.bytes + more_of_source > source_bytes_max)
    return "too many";
  auto& of_name = families_[m.name];
  if (is_new_name) {
    of_name.help = m.help;
    of_name.kind = m.kind;
  }
  auto& one = of_name.all[std::move(labels)];
  series_ += is_new ? 1 : 0;
  bytes_ += more;
  by.bytes += more_of_source;
  if (one.left > 0)
    left_.erase(std::exchange(one.left, 0));
  if (is_new_of_source) {
    one.sources.insert(number);
    by.names.insert(m.name);
    ++by.series;
  }
  one.value = m.sets ? m.value : one.value + m.value;
  return nullptr;
}

std::string metric_registry::text() const {
  return text([](const std::string&) { return true; });
}

metric_registry::contents
metric_registry::copy(const std::function<bool(const std::string&)>& is_wanted) const {
  contents now;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, f] : families_)
    if (const std::string whole(histogram_of_part(name));
        is_wanted(name) || (!whole.empty() && is_wanted(whole)))
      now.families.emplace_back(name, f);
  now.refused = refused_;
  // Two revisions of a version may exist at once.
  for (const auto& [number, t] : sources_)
    for (const auto& [why, count] : t.refused)
      now.refused[{t.model, t.version, why}] += count;
  return now;
}

std::string metric_registry::text(const std::function<bool(const std::string&)>& is_wanted) const {
  const auto now = copy(is_wanted);
  std::vector<MetricFamily> out;
  for (const auto& [name, f] : now.families) {
    auto& made = out.emplace_back(handler_family(name, f.help, f.kind));
    for (const auto& [labels, s] : f.all) {
      std::vector<ClientMetric::Label> own_labels;
      for (const auto& [label, value] : labels)
        own_labels.push_back({label, value});
      add_to(made, s.value, std::move(own_labels));
    }
  }
  fold_histograms(out);
  const std::string name_of_refused = "baton_handler_metrics_refused_total";
  if (!now.refused.empty() && is_wanted(name_of_refused)) {
    auto& made = out.emplace_back(handler_family(
        name_of_refused, "Refused metrics of handlers, by reason.", metric_kind::counter));
    for (const auto& [who, count] : now.refused)
      add_to(made, static_cast<double>(count),
             {{"model_name", who[0]}, {"version", who[1]}, {"reason", who[2]}});
  }
  if (out.empty())
    return {};
  std::ostringstream text;
  prometheus::TextSerializer{}.Serialize(text, out);
  return std::move(text).str();
}

} // namespace baton::gateway
