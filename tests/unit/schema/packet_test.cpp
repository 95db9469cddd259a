// The packet: the content of one ZeroMQ frame.
#include "schema/packet.hpp"
#include "tests/unit/schema/message_fill.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

using namespace baton;
using baton::test::bytes_of;
using baton::test::text_of;

namespace {

std::string packet_of(const frames& f) {
  std::string packet(packed_bytes(f), 'x'); // shows bytes that pack does not write
  pack(f, reinterpret_cast<std::byte*>(packet.data()));
  return packet;
}

frames parts(const std::string& head, const std::string& body, const std::string& bulk) {
  return {bytes_of(head), bytes_of(body), bytes_of(bulk)};
}

std::size_t misalignment(const payload& p, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(p.data) % alignment;
}

} // namespace

TEST_CASE("a packet returns its parts, aligned, from any address") {
  for (const std::size_t head : {0, 1, 15, 16, 17, 100})
    for (const std::size_t body : {0, 1, 47, 48, 49, 1000})
      for (const std::size_t bulk : {0, 1, 64, 4000}) {
        CAPTURE(head);
        CAPTURE(body);
        CAPTURE(bulk);
        const auto f =
            parts(std::string(head, 'h'), std::string(body, 'b'), std::string(bulk, 'k'));
        const auto slice = "..." + packet_of(f); // as in ZeroMQ's read buffer
        const auto back = unpack(slice.data() + 3, slice.size() - 3);
        REQUIRE(back);
        CHECK(text_of(back->head) == text_of(f.head));
        CHECK(text_of(back->body) == text_of(f.body));
        CHECK(text_of(back->bulk) == text_of(f.bulk));
        CHECK(back->size_bytes() == f.size_bytes());
        CHECK(misalignment(back->head, 16) == 0);
        CHECK(misalignment(back->body, 16) == 0);
        CHECK(misalignment(back->bulk, 64) == 0);
      }
}

TEST_CASE("a packet whose sizes do not match is a bad frame") {
  const auto good = packet_of(parts("head", "body", "bulk"));
  for (std::size_t size = 0; size < good.size(); ++size)
    CHECK_FALSE(unpack(good.data(), size));
  CHECK_FALSE(unpack((good + '\0').data(), good.size() + 1));
  for (std::size_t at = 0; at < 16; ++at)
    for (const int bit : {1, 0x10, 0x80}) {
      auto changed = good;
      changed[at] = static_cast<char>(changed[at] ^ bit);
      const auto back = unpack(changed.data(), changed.size());
      // With a bit less, envelope or body may still end at the same offset: its parts are then
      // short.
      if (back)
        CHECK(back->size_bytes() <= good.size());
      else
        CHECK(back.error().code == errc::bad_frame);
    }
  const std::string all_ones(good.size(), '\xff'); // sums near 2^34 do not wrap
  CHECK_FALSE(unpack(all_ones.data(), all_ones.size()));
}

TEST_CASE("no flipped bit of a sealed packet passes unnoticed") {
  for (const auto& bulk : {std::string(), std::string("bulk of a step")}) {
    auto good = packet_of(parts("head", "body", bulk));
    seal(reinterpret_cast<std::byte*>(good.data()), good.size());
    CHECK(unpack(good.data(), good.size()));
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
      auto changed = good;
      changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
      CAPTURE(bit);
      CHECK_FALSE(unpack(changed.data(), changed.size()));
    }
  }
}

TEST_CASE("the packet kept from the first build is still read and written") {
  const auto file = std::filesystem::path(BATON_SOURCE_DIR) / "tests/data/schema/packet.bin";
  std::ifstream in(file, std::ios::binary);
  const std::string kept{std::istreambuf_iterator<char>(in), {}};
  const auto f = parts("head", "body of 19 bytes ..", "bulk");
  CHECK(packet_of(f) == kept);
  const auto back = unpack(kept.data(), kept.size());
  REQUIRE(back);
  CHECK(text_of(back->body) == text_of(f.body));
}
