// Values of the C boundary (baton/worker_abi.h) and the SDK's, each made of the other. What is made
// for C points into what it was made of.
#pragma once

#include "schema/inference.hpp"
#include "sdk/cpp/baton/worker_abi.h"

#include <span>
#include <string>
#include <vector>

namespace baton::sdk {

std::string text_of(const char* text); // NULL: empty
// `version`: of the library that says it. What is not of it is not looked at.
inferred value_of(const baton_piece& piece, std::uint32_t version);
infer value_of(const baton_question& question);

std::vector<baton_tensor> views_of(std::span<const tensor> all);
std::vector<baton_header> views_of(std::span<const header_field> all);
std::vector<const char*> views_of(std::span<const std::string> all);

} // namespace baton::sdk
