#include "gateway/metrics/handler_histogram.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>

namespace baton::gateway {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using histogram_labels = std::map<std::string, std::string>;

constexpr std::string_view bucket_part = "_bucket", sum_part = "_sum", count_part = "_count";
constexpr const char* bound_label = "le";

std::optional<double> bound_of(const std::string& text) {
  if (text == "+Inf")
    return std::numeric_limits<double>::infinity();
  double bound = 0;
  const auto* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, bound);
  const bool is_one = read.ec == std::errc() && read.ptr == end && !std::isnan(bound);
  return is_one ? std::optional(bound) : std::nullopt;
}

histogram_labels labels_of(const ClientMetric& m) {
  histogram_labels all;
  for (const auto& l : m.label)
    all.emplace(l.name, l.value);
  return all;
}

// For each set of labels its buckets by bound. Empty if a bucket has no bound.
using buckets_of_labels = std::map<histogram_labels, std::map<double, double>>;
std::optional<buckets_of_labels> buckets_of(const MetricFamily& family) {
  buckets_of_labels all;
  for (const auto& m : family.metric) {
    auto labels = labels_of(m);
    const auto at = labels.find(bound_label);
    const auto bound = at == labels.end() ? std::nullopt : bound_of(at->second);
    if (!bound)
      return std::nullopt;
    labels.erase(at);
    all[std::move(labels)][*bound] = m.counter.value;
  }
  return all;
}

using values_of_labels = std::map<histogram_labels, double>;
values_of_labels values_by_labels(const MetricFamily& family) {
  values_of_labels all;
  for (const auto& m : family.metric)
    all.emplace(labels_of(m), m.counter.value);
  return all;
}

double value_at(const values_of_labels& all, const histogram_labels& labels) {
  const auto it = all.find(labels);
  return it == all.end() ? 0 : it->second;
}

MetricFamily histogram_from(std::string_view name, const MetricFamily& bucket,
                            const buckets_of_labels& all, const values_of_labels& sums,
                            const values_of_labels& counts) {
  MetricFamily made;
  made.name = name;
  made.help = bucket.help;
  made.type = MetricType::Histogram;
  for (const auto& [labels, buckets] : all) {
    auto& m = made.metric.emplace_back();
    for (const auto& [label, value] : labels)
      m.label.push_back({label, value});
    m.histogram.sample_sum = value_at(sums, labels);
    m.histogram.sample_count = static_cast<std::uint64_t>(value_at(counts, labels));
    double below =
        0; // a process with other bounds leaves gaps, which take the count of the bucket below
    for (const auto& [bound, value] : buckets) {
      below = std::max(below, value);
      m.histogram.bucket.push_back({static_cast<std::uint64_t>(below), bound});
    }
  }
  return made;
}

const MetricFamily* counter_named(const std::vector<MetricFamily>& families,
                                  const std::string& name) {
  const auto it = std::find_if(families.begin(), families.end(), [&](const MetricFamily& f) {
    return f.name == name && f.type == MetricType::Counter;
  });
  return it == families.end() ? nullptr : &*it;
}

} // namespace

std::string_view histogram_of_part(std::string_view name) noexcept {
  for (const auto part : {bucket_part, sum_part, count_part})
    if (name.size() > part.size() && name.ends_with(part))
      return name.substr(0, name.size() - part.size());
  return {};
}

void fold_histograms(std::vector<MetricFamily>& families) {
  std::vector<MetricFamily> made;
  std::vector<std::string> folded;
  for (const auto& bucket : families) {
    if (bucket.type != MetricType::Counter || !bucket.name.ends_with(bucket_part))
      continue;
    const std::string name(histogram_of_part(bucket.name));
    const auto* sum = counter_named(families, name + std::string(sum_part));
    const auto* count = counter_named(families, name + std::string(count_part));
    const auto all = name.empty() || !sum || !count ? std::nullopt : buckets_of(bucket);
    if (!all)
      continue;
    made.push_back(
        histogram_from(name, bucket, *all, values_by_labels(*sum), values_by_labels(*count)));
    folded.insert(folded.end(), {bucket.name, sum->name, count->name});
  }
  std::erase_if(families, [&](const MetricFamily& f) {
    return std::find(folded.begin(), folded.end(), f.name) != folded.end();
  });
  families.insert(families.end(), std::make_move_iterator(made.begin()),
                  std::make_move_iterator(made.end()));
}

} // namespace baton::gateway
