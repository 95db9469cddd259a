// The doctest main, linked into every C++ test executable. A case that hangs fails by its name
// instead of blocking the whole run.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "tests/support/deadline_scale.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::chrono::seconds case_seconds_max{900};
#else
constexpr std::chrono::seconds case_seconds_max{180}; // the longest takes 20 s
#endif
constexpr unsigned report_seconds_max = 5;

// doctest names the aborted case; if doctest itself blocks, the signal's default action follows.
void abort_case(int) {
  static constexpr char text[] = "the test case takes too long: aborted\n";
  static_cast<void>(!::write(STDERR_FILENO, text, sizeof(text) - 1));
  std::signal(SIGALRM, SIG_DFL);
  ::alarm(report_seconds_max);
  std::abort();
}

struct case_deadline final : doctest::IReporter {
  explicit case_deadline(const doctest::ContextOptions&) {}

  void test_case_start(const doctest::TestCaseData&) override {
    std::signal(SIGALRM, abort_case);
    ::alarm(static_cast<unsigned>(baton::testing::scaled(case_seconds_max).count() / 1000));
  }
  void test_case_end(const doctest::CurrentTestCaseStats&) override { ::alarm(0); }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

REGISTER_LISTENER("case_deadline", 1, case_deadline);

} // namespace
