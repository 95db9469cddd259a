/* Takes the place of libicudata: a table of contents with no entries, in ICU's format (udata.h, "ToCP"). ICU then reports that data is missing,
   as it does on systems that have none. DATA is the symbol that libicuuc of this version refers to. */
#include <stdint.h>

struct data {
  uint16_t header_size;
  uint8_t magic[2];
  uint16_t info_size, reserved;
  uint8_t is_big_endian, charset, bytes_of_uchar, reserved_byte;
  uint8_t format[4], format_version[4], data_version[4];
  uint8_t padding[8];
  uint32_t entries, reserved_entries;
  uint32_t nothing[4];
};

const struct data DATA __attribute__((aligned(16))) = {
    .header_size = 32,
    .magic = {0xda, 0x27},
    .info_size = 20,
    .bytes_of_uchar = 2,
    .format = {'T', 'o', 'C', 'P'},
    .format_version = {1, 0, 0, 0},
};
