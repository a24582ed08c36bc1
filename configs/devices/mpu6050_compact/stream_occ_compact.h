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

// Messages 0, 1, 2, ... of BYTES at most, kept until the service says on <prefix>/<device>/received_up_to that it has them
// (docs/topics.md), and sent again till then; when KEPT are kept the oldest goes. Times are those of millis().
template <size_t KEPT, size_t BYTES>
class ResendRing {
 public:
  // Keeps a copy of message number added().
  void push(const uint8_t* message, size_t length) {
    if (added_ - first_ == KEPT) {
      ++first_;
      ++dropped_;
    }
    memcpy(slots_[added_ % KEPT], message, length);
    lengths_[added_ % KEPT] = static_cast<uint16_t>(length);
    ++added_;
  }

  // The service has number seq and all before it. The same again: it waits for the next one.
  void hear(uint32_t seq, uint32_t now_ms) {
    if (seq + 1 == needed_ && now_ms - since_ms_ >= ASKED_MS) again(now_ms);
    if (seq >= added_ || seq + 1 <= needed_) return;
    needed_ = seq + 1;
    if (first_ < needed_) first_ = needed_;
    since_ms_ = now_ms;
    silence_ms_ = SILENCE_MS;
  }

  // What was sent on an earlier connection may be lost.
  void reconnected(uint32_t now_ms) {
    again(now_ms);
    silence_ms_ = SILENCE_MS;
  }

  // The message to be sent now, which counts as sent; null: none is. It stays until the next push.
  const uint8_t* due(uint32_t now_ms, size_t* length) {
    if (next_ <= first_) {
      since_ms_ = now_ms;
    } else if (now_ms - since_ms_ >= silence_ms_) {
      again(now_ms);
      silence_ms_ = 2 * silence_ms_ < MAX_SILENCE_MS ? 2 * silence_ms_ : MAX_SILENCE_MS;
    }
    if (next_ < first_) next_ = first_;
    if (next_ == added_ || next_ == first_ + WINDOW) return nullptr;
    *length = lengths_[next_ % KEPT];
    return slots_[next_++ % KEPT];
  }

  uint32_t added() const { return added_; }
  uint32_t kept() const { return added_ - first_; }
  uint32_t dropped() const { return dropped_; }

 private:
  static constexpr uint32_t WINDOW = 200, SILENCE_MS = 3000, MAX_SILENCE_MS = 12000, ASKED_MS = 1000;

  void again(uint32_t now_ms) {
    next_ = 0;
    since_ms_ = now_ms;
  }

  uint8_t slots_[KEPT][BYTES];
  uint16_t lengths_[KEPT];
  uint32_t first_ = 0, added_ = 0, next_ = 0, needed_ = 0, dropped_ = 0;
  uint32_t since_ms_ = 0, silence_ms_ = SILENCE_MS;
};

// The whole number behind "key": in a flat JSON object; false where there is none.
inline bool read_number(const char* key, const uint8_t* json, size_t n, uint32_t* value) {
  const size_t length = strlen(key);
  for (size_t i = 0; i + length + 3 < n; ++i) {
    if (json[i] != '"' || memcmp(json + i + 1, key, length) != 0 || json[i + 1 + length] != '"') continue;
    size_t at = i + length + 2;
    while (at < n && (json[at] == ' ' || json[at] == ':')) ++at;
    if (at == n || json[at] < '0' || json[at] > '9') return false;
    for (*value = 0; at < n && json[at] >= '0' && json[at] <= '9'; ++at) *value = 10 * *value + (json[at] - '0');
    return true;
  }
  return false;
}

// A message of received_up_to, such as {"boot":7,"seq":41}.
inline bool read_received_up_to(const uint8_t* json, size_t n, uint32_t* boot, uint32_t* seq) {
  return read_number("boot", json, n, boot) && read_number("seq", json, n, seq);
}

}  // namespace stream_occ

#endif
