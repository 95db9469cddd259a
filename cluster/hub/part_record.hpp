// How much of each part of an unfinished download is in its file. The record lies beside that file.
// A line is written after the bytes that it counts. A process that is killed loses what it received
// since then, at most record_step bytes of each part. After a power cut a line may be on the disk
// before its bytes are; the digest of the whole finds that.
//
//   baton-download 1 BYTES PART_BYTES ETAG
//   0016777216        a line of 11 bytes for each part: its bytes from the beginning
#pragma once

#include "schema/result.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace baton::cluster {

inline constexpr std::uint64_t part_bytes = 16u << 20;
inline constexpr std::uint64_t record_step = 1u << 20;

struct download_part {
  std::uint64_t first = 0, bytes = 0;
  std::uint64_t done = 0;     // received
  std::uint64_t recorded = 0; // of these, on record

  bool is_done() const noexcept { return done == bytes; }
};

class part_record {
public:
  // Opens both files, or makes them new if the record is of another download or incomplete. Errors:
  // io_failed.
  static result<part_record> open(const std::filesystem::path& data,
                                  const std::filesystem::path& record, std::uint64_t bytes,
                                  const std::string& etag);
  part_record(part_record&& other) noexcept;
  part_record(const part_record&) = delete;
  part_record& operator=(const part_record&) = delete;
  ~part_record();

  const std::vector<download_part>& parts() const noexcept { return parts_; }
  std::uint64_t done() const noexcept;
  // Bytes without a gap from the file's beginning.
  std::uint64_t done_from_start() const noexcept;
  bool was_resumed() const noexcept { return was_resumed_; }
  // Writes what follows part `number`'s received bytes. Errors: io_failed (no space).
  result<void> append(std::size_t number, std::string_view bytes);
  // Puts on record what was received.
  result<void> flush(std::size_t number);
  // Forgets all bytes.
  result<void> clear();

private:
  part_record(int data, int record) noexcept : data_(data), record_(record) {}
  result<void> write_line(std::size_t number);
  bool read(std::uint64_t bytes, const std::string& etag);

  int data_, record_;
  std::string header_;
  std::vector<download_part> parts_;
  bool was_resumed_ = false;
};

// Bytes that such a record counts; 0: none, or of another download. Only looks.
std::uint64_t recorded_bytes(const std::filesystem::path& data, const std::filesystem::path& record,
                             std::uint64_t bytes, const std::string& etag);

} // namespace baton::cluster
