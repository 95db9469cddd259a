// Identifies the model that a cluster started with. A later process reads the file again and must
// find the same bytes, or streams would continue with another model's text.
#pragma once

#include "runtime/model/model_file.hpp"
#include "schema/result.hpp"

namespace baton::cluster {

// The file's own fingerprint, plus size and modification time of every file of the model, since
// fingerprints do not cover tensor bytes. Errors: io_failed.
result<std::uint64_t> model_identity(const model::model_file& file);

// Errors: bad_model_file (names the file).
result<void> check_identity(const model::model_file& file, std::uint64_t now,
                            std::uint64_t at_the_start);
// Called after the last read as well, to detect writes in between. Errors: bad_model_file (names
// the file), io_failed.
result<void> check_identity(const model::model_file& file, std::uint64_t at_the_start);

} // namespace baton::cluster
