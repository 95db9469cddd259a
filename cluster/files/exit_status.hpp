// The exit statuses of all commands and roles, in one table (docs/operate/running.md shows it to
// people). Service managers, scripts and the supervisors of this cluster act on them.
#pragma once

#include "schema/error.hpp"

#include <string>
#include <string_view>

namespace baton::cluster {

// A failure for none of the reasons below: another try may succeed.
inline constexpr int exit_failed = 1;
// The command line is not understood, or it matches several running clusters.
inline constexpr int exit_usage = 2;
// There is no such running cluster.
inline constexpr int exit_not_running = 3;
// `up`: open streams were cut. The grace period was over, the stop was requested again, or a
// gateway was lost meanwhile.
inline constexpr int exit_streams_cut = 4;
// `up`: a process was given up, or crashed or had to be killed when it was asked to end. An agent
// uses it for its shards as well.
inline constexpr int exit_process_failed = 5;
// A process exits with this status if it cannot continue; a restart may help (EX_SOFTWARE).
inline constexpr int exit_software = 70;
// A shard exits with this status if its process lost its device (a kernel that trapped); its
// successor can use the device again (EX_OSERR).
inline constexpr int exit_device_lost = 71;
// A restart cannot help until something is changed: configuration, model file, device, address in
// use, another cluster that runs there (EX_CONFIG of sysexits.h). A supervisor gives up such a
// process at once; the reason is the last line of its log. systemd units have it in
// RestartPreventExitStatus.
inline constexpr int exit_permanent = 78;

// The status of a command or role that cannot start for this reason.
int exit_status_of(errc why) noexcept;

// The status of a role that cannot listen: no retry if another process uses the address.
inline int exit_status_of_listening(errc why) noexcept {
  return why == errc::address_in_use ? exit_permanent : exit_failed;
}

// Whether the reason of a process that was given up (a text that child_end::text begins) reports
// exit_permanent. The reason crosses the cluster as text.
bool is_permanent_reason(std::string_view reason) noexcept;

// Prints "error: ..." to stderr; returns exit_status_of.
int refuse_start(const error& why);

} // namespace baton::cluster
