#include "slots/key_slot.h"

#include <array>
#include <cstdint>
#include <cstring>

namespace slots {
namespace {

// CRC16 XMODEM: polynomial x^16 + x^12 + x^5 + 1, start 0, no reflection, no final xor.
constexpr std::uint16_t kPolynomial = 0x1021;

using CrcTable = std::array<std::uint16_t, 256>;

// Slicing: kCrc[n][b] is the CRC of byte b followed by n zero bytes. The CRC is linear, so eight
// bytes are eight independent look-ups instead of a chain of eight dependent ones.
constexpr std::array<CrcTable, 8> make_crc_tables() {
  std::array<CrcTable, 8> tables{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    unsigned crc = byte << 8;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 0x8000) != 0 ? (crc << 1) ^ kPolynomial : crc << 1;
    }
    tables[0][byte] = static_cast<std::uint16_t>(crc);
  }
  for (std::size_t zeros = 1; zeros < tables.size(); ++zeros) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const unsigned shorter = tables[zeros - 1][byte];
      tables[zeros][byte] =
          static_cast<std::uint16_t>((shorter << 8) ^ tables[0][(shorter >> 8) & 0xff]);
    }
  }
  return tables;
}

constexpr std::array<CrcTable, 8> kCrc = make_crc_tables();

unsigned crc16(const unsigned char* at, std::size_t size) {
  unsigned crc = 0;
  for (; size >= 8; at += 8, size -= 8) {
    crc = kCrc[7][at[0] ^ (crc >> 8)] ^ kCrc[6][at[1] ^ (crc & 0xff)] ^ kCrc[5][at[2]] ^
          kCrc[4][at[3]] ^ kCrc[3][at[4]] ^ kCrc[2][at[5]] ^ kCrc[1][at[6]] ^ kCrc[0][at[7]];
  }
  if (size >= 4) {
    crc = kCrc[3][at[0] ^ (crc >> 8)] ^ kCrc[2][at[1] ^ (crc & 0xff)] ^ kCrc[1][at[2]] ^
          kCrc[0][at[3]];
    at += 4;
    size -= 4;
  }
  for (; size != 0; ++at, --size) {
    crc = ((crc << 8) & 0xff00) ^ kCrc[0][(crc >> 8) ^ *at];
  }
  return crc;
}

// Whether there is a '{' at all: most keys have none, and are short enough that eight bytes at a
// time beat a call of memchr.
bool has_brace(std::string_view key) {
  constexpr std::uint64_t kOnes = 0x0101010101010101ULL;
  constexpr std::uint64_t kHighs = 0x8080808080808080ULL;
  const char* at = key.data();
  std::size_t size = key.size();
  for (; size >= 8; at += 8, size -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    word ^= '{' * kOnes;  // A zero byte now is a brace.
    if (((word - kOnes) & ~word & kHighs) != 0) return true;
  }
  for (; size != 0; ++at, --size) {
    if (*at == '{') return true;
  }
  return false;
}

}  // namespace

std::string_view hashed_part(std::string_view key) {
  const std::size_t open = key.find('{');
  if (open == std::string_view::npos) [[likely]]
    return key;
  const std::size_t close = key.find('}', open + 1);
  if (close == std::string_view::npos || close == open + 1) return key;
  return key.substr(open + 1, close - open - 1);
}

SlotId slot_of_key(std::string_view key) {
  const std::string_view part = has_brace(key) ? hashed_part(key) : key;
  const unsigned crc = crc16(reinterpret_cast<const unsigned char*>(part.data()), part.size());
  return static_cast<SlotId>(crc % kSlotCount);
}

}  // namespace slots
