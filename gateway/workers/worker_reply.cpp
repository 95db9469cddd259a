#include "gateway/workers/worker_reply.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace baton::gateway {
namespace {

bool is_same_name(std::string_view a, std::string_view b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

// RFC 9110, sections 5.1 and 5.5.
bool is_field_name(std::string_view name) noexcept {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

bool is_field_value(std::string_view value) noexcept {
  return std::none_of(value.begin(), value.end(),
                      [](unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7f; });
}

// A handler must not set the headers that frame the reply.
bool is_framing_header(std::string_view name) noexcept {
  constexpr std::array ours{"connection", "content-length", "transfer-encoding", "date",
                            "trailer",    "upgrade",        "keep-alive"};
  return std::any_of(ours.begin(), ours.end(), [&](auto one) { return is_same_name(name, one); });
}

} // namespace

result<void> check_raw(const inferred& piece) {
  if (!piece.outputs.empty())
    return fail(errc::handler_failed, "the model returns tensors, which this route cannot send");
  if (!is_field_value(piece.content_type))
    return fail(errc::handler_failed, "the handler's content type is not a valid header value");
  for (const auto& h : piece.headers)
    if (!is_field_name(h.name) || !is_field_value(h.value) || is_framing_header(h.name))
      return fail(errc::handler_failed, "the handler's header is not valid in the reply");
  constexpr std::uint16_t least = 200;
  constexpr std::uint16_t most = 599;
  if (piece.http_status != 0 && (piece.http_status < least || piece.http_status > most))
    return fail(errc::handler_failed, "the handler's status {} is not a status", piece.http_status);
  return {};
}

http_reply raw_reply(const inferred& piece) {
  http_reply reply;
  reply.status = piece.http_status == 0 ? 200 : piece.http_status;
  reply.content_type = piece.content_type.empty() ? "application/octet-stream" : piece.content_type;
  reply.body = piece.body;
  for (const auto& h : piece.headers)
    reply.headers.emplace_back(h.name, h.value);
  return reply;
}

result<std::string> raw_writer::take(inferred piece) {
  if (auto ok = check_raw(piece); !ok) {
    return ok.error();
  }
  auto body = std::move(piece.body);
  piece.body.clear();
  if (!std::exchange(has_head_, true)) {
    head_ = raw_reply(piece);
  }
  return body;
}

} // namespace baton::gateway
