// One line for each message in the log, whatever is in its text.
#include "gateway/base/log_format.hpp"

#include <doctest/doctest.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>

#include <sstream>
#include <string>

using namespace baton;

namespace {

std::string logged(const std::string& message) {
  std::ostringstream out;
  spdlog::logger log("test", std::make_shared<spdlog::sinks::ostream_sink_st>(out));
  log.set_formatter(gateway::log_format(/*has_colors=*/false));
  log.warn("{}", message);
  const auto line = out.str();
  const std::string level = " warning ";
  return line.substr(line.find(level) + level.size());
}

} // namespace

TEST_CASE("a message in the log is one line without control characters") {
  CHECK(logged("the file 'a b' is gone") == "the file 'a b' is gone\n");
  CHECK(logged("na\u00efve \u2581") == "na\u00efve \u2581\n");
  CHECK(logged("'x\n2026-01-01T00:00:00.000 info all is well'") ==
        "'x\\n2026-01-01T00:00:00.000 info all is well'\n");
  CHECK(logged(std::string("\x1b[2J\0\x7f\t", 7)) == "\\x1b[2J\\x00\\x7f\\x09\n");
}
