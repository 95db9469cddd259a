// The Pythons of workers, and the properties that each one reports.
#include "cluster/machines/python_check.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::cluster;

TEST_CASE("each Python of the workers' commands is run once, for all its models") {
  const std::vector<std::vector<std::string>> commands{
      {"python3", "-m", "baton_worker.onnx", "a.onnx"},
      {"python3", "-m", "baton_worker.triton", "model.py"},
      {"env", "A=b", "/opt/v/bin/python", "-u", "-m", "baton_worker", "h.py"},
      {"python3", "-m", "baton_worker", "h.py"},
      {"python3", "-m", "baton_worker_of_mine", "h.py"},
      {"python3", "-m"},
      {"-m", "baton_worker"},
      {"./echo_worker"},
  };
  const auto all = pythons_of(commands);
  CHECK(all == std::vector<worker_python>{{{"python3"}, {"onnx", "triton"}},
                                          {{"env", "A=b", "/opt/v/bin/python", "-u"}, {}}});
  CHECK(all[1].text() == "env A=b /opt/v/bin/python -u");
}

TEST_CASE("a Python's properties are shown, and a failed start has a remedy") {
  const auto good = check_python({{"sh", "-c", "exit 0"}, {"onnx"}});
  CHECK(good.is_good);
  CHECK(good.found == "has what workers need (onnx)");
  const auto lacking = check_python({{"sh", "-c", "echo numpy is missing; exit 1"}, {}});
  CHECK_FALSE(lacking.is_good);
  CHECK(lacking.found == "numpy is missing");
  CHECK(lacking.fix.empty());
  CHECK(lacking.is_needed);
  CHECK_FALSE(check_python({{"sh", "-c", "exit 3"}, {"torchserve"}}).is_needed);
  const auto without_sdk = check_python({{"sh", "-c", "echo No module named x >&2; exit 1"}, {}});
  CHECK(without_sdk.fix.find("pip install sdk/python") != std::string::npos);
  const auto none = check_python({{"no-such-python-here"}, {}});
  CHECK_FALSE(none.is_good);
  CHECK(none.found.find("no-such-python-here") != std::string::npos);
  CHECK(none.fix.find("apt install python3-venv") != std::string::npos);
}
