// Names that TGI's clients give a model because its server has one alone and ignores them: "dummy",
// "tgi" (gateway.placeholder_models). Where one model is served they stand for it, at the doors of
// TGI's API; any other unknown name is refused. Pure but for the board.
#pragma once

#include "gateway/api/openai/openai_request.hpp"
#include "gateway/api/tgi/tgi_request.hpp"
#include "gateway/state/gateway_state.hpp"

#include <string_view>

namespace baton::gateway {

bool is_placeholder(const gateway_state& facts, std::string_view model);
// The call names no model then, which is the one there is; answers have its own name.
void settle_model(openai_generate& call, const gateway_state& facts);
void settle_model(tgi_generate& call, const gateway_state& facts);
void settle_model(tokenize_call& call, const gateway_state& facts);

} // namespace baton::gateway
