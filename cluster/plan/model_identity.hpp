// Which model a cluster came up with. A process that begins later reads the file anew: what it then
// finds must be the same bytes, or streams would go on with another model's text.
#pragma once

#include "runtime/model/model_file.hpp"
#include "schema/result.hpp"

namespace baton::cluster {

// What the file says of itself, and size and time of change of every file that belongs to it:
// bytes inside a tensor are in no fingerprint. Errors: io_failed.
result<std::uint64_t> model_identity(const model::model_file& file);

// Errors: bad_model_file (names the file).
result<void> check_identity(const model::model_file& file, std::uint64_t now,
                            std::uint64_t at_the_start);
// Called behind the last read as well: what is written meanwhile is a change, too. Errors:
// bad_model_file (names the file), io_failed.
result<void> check_identity(const model::model_file& file, std::uint64_t at_the_start);

} // namespace baton::cluster
