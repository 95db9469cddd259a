// Converts values between the C boundary (baton/worker_abi.h) and the SDK. A C value points into
// the SDK value that it was made from.
#pragma once

#include "schema/inference.hpp"
#include "sdk/cpp/baton/worker_abi.h"

#include <span>
#include <string>
#include <vector>

namespace baton::sdk {

std::string text_of(const char* text); // NULL: empty
// `version`: of the calling library. Fields that this version lacks are not read.
inferred value_of(const baton_piece& piece, std::uint32_t version);
infer value_of(const baton_question& question);

std::vector<baton_tensor> views_of(std::span<const tensor> all);
std::vector<baton_header> views_of(std::span<const header_field> all);
std::vector<const char*> views_of(std::span<const std::string> all);

} // namespace baton::sdk
