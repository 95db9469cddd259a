// The exit statuses of all commands and roles, in one table (docs/operations.md shows it to
// people). Service managers, scripts and the supervisors of this cluster act on them.
#pragma once

#include "schema/error.hpp"

#include <string>
#include <string_view>

namespace baton::cluster {

// It failed, or something is wrong, for none of the reasons below: another try may succeed.
inline constexpr int exit_failed = 1;
// The command line is not understood, or several running clusters fit it.
inline constexpr int exit_usage = 2;
// There is no such running cluster.
inline constexpr int exit_not_running = 3;
// `up`: open streams were cut: the grace was over, it was asked again, or a gateway was lost
// meanwhile.
inline constexpr int exit_streams_cut = 4;
// `up`: a process had been given up, or did not end as it was asked to: it crashed or had to be
// killed. An agent ends with it as well, of its shards.
inline constexpr int exit_process_failed = 5;
// A process ends itself with this one where it cannot go on: a restart may help (EX_SOFTWARE).
inline constexpr int exit_software = 70;
// A shard ends with this one where its process has lost its device (a kernel that trapped): the
// next one has it again (EX_OSERR).
inline constexpr int exit_device_lost = 71;
// A restart cannot help before somebody changes something: configuration, model file, device,
// address in use, another cluster that runs there (EX_CONFIG of sysexits.h). A supervisor gives up
// such a process at once, with the last line of its log as the reason; the systemd units have it in
// RestartPreventExitStatus.
inline constexpr int exit_permanent = 78;

// Of a command or a role that cannot begin for this reason: exit_permanent or exit_failed.
int exit_status_of(errc why) noexcept;

// Of a role that cannot listen: where somebody else does, it is not tried again.
inline int exit_status_of_listening(errc why) noexcept {
  return why == errc::address_in_use ? exit_permanent : exit_failed;
}

// Whether this reason of a process that was given up, as child_end::text begins it, says that it
// ended with exit_permanent. The reason crosses the cluster as a text.
bool says_permanent(std::string_view reason) noexcept;

// Prints "error: ..." to stderr; returns exit_status_of.
int refuse_start(const error& why);

} // namespace baton::cluster
