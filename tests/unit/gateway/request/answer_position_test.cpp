// The position of a stream with one answer, from its beginning and after a resumption.
#include "gateway/request/answer_position.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::gateway;

namespace {

chunk piece_at(std::uint32_t index, std::string text, finish end = finish::none) {
  chunk c;
  c.index = index;
  c.text = std::move(text);
  c.finish = end;
  return c;
}

reply_identity grantee() {
  reply_identity who;
  who.ticket = ticket_id{17};
  who.resume_key = 5;
  return who;
}

} // namespace

TEST_CASE("a new answer's position counts tokens, bytes and its end") {
  answer_position at(grantee(), std::nullopt);
  CHECK_FALSE(at.had_any());
  CHECK_FALSE(at.is_behind());
  CHECK(at.advance(piece_at(1, "abc")) == 0);
  CHECK(at.now() == stream_position{ticket_id{17}, 5, {{1, false}}, {3}});
  CHECK(at.advance(piece_at(2, "d", finish::stop)) == 0);
  CHECK(at.now() == stream_position{ticket_id{17}, 5, {{2, true}}, {4}});
}

TEST_CASE("a resumed answer's position moves once the client's part has been read") {
  answer_position at(grantee(), stream_position{ticket_id{3}, 4, {{2, false}}, {5}});
  CHECK(at.had_any());
  CHECK_FALSE(at.had_end());
  CHECK(at.advance(piece_at(1, "abc")) == 3);
  CHECK(at.is_behind());
  CHECK(at.advance(piece_at(2, "defg")) == 2);
  CHECK_FALSE(at.is_behind());
  CHECK(at.now() == stream_position{ticket_id{17}, 5, {{2, false}}, {7}});
  granted next;
  next.ticket = ticket_id{18};
  next.resume_key = 6;
  at.moved_to(next);
  CHECK(at.now().ticket == ticket_id{18});
  CHECK(at.now().resume_key == 6);
  answer_position ended(grantee(), stream_position{ticket_id{3}, 4, {{2, true}}, {5}});
  CHECK(ended.had_end());
}
