// Goal: failures that a restart cannot fix end with the status known to supervisors and systemd's
// units. Method: the table of statuses by error code, and the ways in which `cluster up` ends.
#include "cluster/files/exit_status.hpp"
#include "cluster/process/child.hpp"
#include "cluster/roles/root/root_end.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::cluster;

TEST_CASE("errors that need a change are permanent, all others may succeed later") {
  for (const auto code :
       {errc::bad_config, errc::unknown_key, errc::bad_model_file, errc::unsupported_model,
        errc::does_not_fit, errc::io_failed, errc::address_in_use, errc::conflict,
        errc::start_failed, errc::not_found, errc::unauthorized})
    CHECK(exit_status_of(code) == 78);
  for (const auto code : {errc::link_down, errc::deadline_exceeded, errc::internal, errc::not_ready,
                          errc::crash_loop})
    CHECK(exit_status_of(code) == 1);
  CHECK(exit_status_of_listening(errc::address_in_use) == 78);
  CHECK(exit_status_of_listening(errc::io_failed) == 1);
}

TEST_CASE("a process that ended permanently is recognised by its reported reason") {
  const auto text = child_end{child_end::way::exit, exit_permanent}.text();
  CHECK(is_permanent_reason(text));
  CHECK(is_permanent_reason("gateway: " + text + ": 127.0.0.1:8000 is in use by another process"));
  CHECK(is_permanent_reason("agent-a: shard-0: " + text));
  CHECK_FALSE(is_permanent_reason(child_end{child_end::way::exit, 1}.text()));
  CHECK_FALSE(is_permanent_reason(child_end{child_end::way::exit, 7}.text()));
  CHECK_FALSE(is_permanent_reason("exit status 780"));
  CHECK_FALSE(
      is_permanent_reason("crash_loop: more than 3 restarts in 300 s; last: exit status 70"));
  CHECK_FALSE(is_permanent_reason(""));
}

TEST_CASE("a cluster that does not come up ends with the status of the process that failed") {
  CHECK(end_of(false, "gateway: exit status 78: in use", "").status == 78);
  CHECK(end_of(false, "head: crash_loop: more than 3 restarts", "").status == 1);
  CHECK(end_of(false, "", "").status == 1); // it was asked to stop
}

TEST_CASE("a cluster that came up reports only its streams and processes") {
  CHECK(end_of(true, "", "").status == 0);
  CHECK(end_of(true, "", "streams were cut").status == 4);
  CHECK(end_of(true, "gateway: exit status 78: in use", "streams were cut").status == 5);
  CHECK(end_of(true, "a", "b").why == "a; b");
}
