// Shared by the parts of scale_bench: the amount of work, and the result rows.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace baton::bench {

struct scale_options {
  bool json = false;
  bool quick = false; // a tenth of the size: a smoke test, not a measurement
  int rounds = 3;
};

enum class bar_is : std::uint8_t { at_most, at_least };

// One row of the table: the median of the rounds with their extremes. `bar`: 0 for none.
void report(const scale_options& o, const std::string& row, std::vector<double> rounds,
            std::string_view unit, double bar = 0, bar_is side = bar_is::at_most);

double median(std::vector<double> values);
// Values in any order; `share` in [0, 1].
double quantile(std::vector<double> values, double share);

// Bytes allocated by the program and not freed.
std::size_t bytes_in_use();

class stopwatch {
public:
  double micros() const {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin_)
        .count();
  }

private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// The sections.
void measure_scheduler(const scale_options& o);
void measure_supervisor(const scale_options& o);
void measure_world(const scale_options& o);

} // namespace baton::bench
