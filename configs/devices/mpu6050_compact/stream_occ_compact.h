// Writes messages of the codec `compact` (docs/device-codecs.md). C++11, no heap, no Arduino: it compiles on a desk too.
#ifndef STREAM_OCC_COMPACT_H
#define STREAM_OCC_COMPACT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace stream_occ {

constexpr size_t HEADER_BYTES = 34, SAMPLE_BYTES = 12, CRC_BYTES = 4;
constexpr uint8_t VERSION = 1, NUMBERED = 1;

// Bytes of a message of n samples: 15 samples are 218 bytes, and fit into the 256 that PubSubClient allows by default.
constexpr size_t message_bytes(size_t n) { return HEADER_BYTES + n * SAMPLE_BYTES + CRC_BYTES; }

// CRC-32 as zlib and Ethernet have it, four bits at a time.
inline uint32_t crc32(const uint8_t* data, size_t n) {
  static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                     0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                     0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
  uint32_t crc = 0xffffffffu;
  for (size_t i = 0; i < n; ++i) {
    crc = (crc >> 4) ^ table[(crc ^ data[i]) & 15];
    crc = (crc >> 4) ^ table[(crc ^ (data[i] >> 4)) & 15];
  }
  return ~crc;
}

// One message in a buffer of the caller: begin, add for each sample, end.
class CompactWriter {
 public:
  CompactWriter(uint8_t* buffer, size_t size) : buffer_(buffer), size_(size) {}

  // boot: another number at each start of the device; seq: 0, 1, 2, ... since then; t0_ns: UTC of the first sample;
  // scales: m/s2 and rad/s of one count.
  void begin(uint32_t boot, uint32_t seq, int64_t t0_ns, float rate_hz, float acc_scale, float gyr_scale) {
    at_ = 0;
    n_ = 0;
    put('S', 1);
    put('O', 1);
    put(VERSION, 1);
    put(NUMBERED, 1);
    put(boot, 4);
    put(seq, 4);
    put(static_cast<uint64_t>(t0_ns), 8);
    put_float(rate_hz);
    put_float(acc_scale);
    put_float(gyr_scale);
    put(0, 2);  // the number of samples, written by end()
  }

  // False where the message is full: end it first.
  bool add(const int16_t acc[3], const int16_t gyr[3]) {
    if (n_ == 0xffff || message_bytes(n_ + 1u) > size_) return false;
    for (int i = 0; i < 3; ++i) put(static_cast<uint16_t>(acc[i]), 2);
    for (int i = 0; i < 3; ++i) put(static_cast<uint16_t>(gyr[i]), 2);
    ++n_;
    return true;
  }

  // Bytes to publish.
  size_t end() {
    buffer_[HEADER_BYTES - 2] = static_cast<uint8_t>(n_);
    buffer_[HEADER_BYTES - 1] = static_cast<uint8_t>(n_ >> 8);
    put(crc32(buffer_, at_), 4);
    return at_;
  }

  size_t samples() const { return n_; }

  void clear() { n_ = 0; }

 private:
  void put(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) buffer_[at_++] = static_cast<uint8_t>(value >> (8 * i));
  }

  void put_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put(bits, 4);
  }

  uint8_t* buffer_;
  size_t size_, at_ = 0;
  uint16_t n_ = 0;
};

}  // namespace stream_occ

#endif
