// Reads protobuf's wire format field by field. It seeks past fields that are not entered, so that
// large files are cheap. Bounds hold for any file.
// https://protobuf.dev/programming-guides/encoding
#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <string>

namespace baton::cluster {

class protobuf_reader {
public:
  enum class wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
  struct field {
    std::uint64_t number = 0;
    wire type = wire::varint;
    std::uint64_t value = 0; // of a varint
    std::uint64_t end = 0;   // of bytes: the offset after them
  };

  // `size`: bytes in `in`. `otherwise`: the error for a file of another format.
  protobuf_reader(std::istream& in, std::uint64_t size, std::string otherwise)
      : in_(in), size_(size), why_(std::move(otherwise)) {}

  // The next field before `end`. None at the end, or if the file is refused.
  std::optional<field> next(std::uint64_t end);
  // Moves behind the field from any position inside it.
  void leave(const field& f);
  // Requires: `enters` is true for the field.
  std::string name(const field& f);
  // Whether the field is a message with this number.
  static bool enters(const field& f, std::uint64_t number) {
    return f.number == number && f.type == wire::bytes;
  }
  // Records the error and reads nothing more.
  void refuse(std::string why);
  bool is_broken() const noexcept { return is_broken_; }
  const std::string& why() const noexcept { return why_; }
  std::uint64_t size() const noexcept { return size_; }

private:
  std::uint64_t varint(std::uint64_t end);

  std::istream& in_;
  std::uint64_t size_;
  std::uint64_t at_ = 0;
  std::size_t fields_ = 0;
  std::uint64_t names_bytes_ = 0;
  bool is_broken_ = false;
  std::string why_;
};

} // namespace baton::cluster
