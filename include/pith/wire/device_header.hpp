// pith/wire/device_header.hpp — a 16-byte payload header, written and checked in the executor's memory.
#pragma once

#include <pith/core/executor.hpp>

#include <cstddef>
#include <cstdint>

namespace pith { inline namespace PITH_ABI {

/// The faults of a checked payload, one bit per kind of fault. An error_flag is the bitwise or of the faults of all
/// payloads.
namespace fault {

inline constexpr std::uint32_t format = 1;    ///< the payload has another version, or no header
inline constexpr std::uint32_t identity = 2;  ///< the payload is of another codec, tensor, shape, seed or rank
inline constexpr std::uint32_t step = 4;      ///< the payload is of another step
inline constexpr std::uint32_t checksum = 8;  ///< the payload was damaged in transit

}  // namespace fault

namespace detail {

/// The header before a payload, in little-endian byte order.
struct device_header {
  std::uint16_t format;    //  0  'p', version
  std::uint16_t step;      //  2  the low 16 bits of the step
  std::uint32_t identity;  //  4  digest of the fields that must be equal at sender and receiver
  std::uint64_t checksum;  //  8  checksum of the payload
};
static_assert(sizeof(device_header) == 16);

inline constexpr std::uint16_t device_format = 'p';  ///< the low byte is 'p', the high byte is the version 0

PITH_HD constexpr device_header make_device_header(std::uint32_t identity, std::uint64_t step, std::uint64_t checksum) {
  return {device_format, static_cast<std::uint16_t>(step), identity, checksum};
}

PITH_HD constexpr std::uint32_t faults_of(device_header const& expected, device_header const& found) {
  return (expected.format == found.format ? 0 : fault::format) |
         (expected.identity == found.identity ? 0 : fault::identity) | (expected.step == found.step ? 0 : fault::step) |
         (expected.checksum == found.checksum ? 0 : fault::checksum);
}

/// Writes the header of a payload. `*checksum` is the payload's checksum.
struct write_device_header {
  std::uint32_t identity;
  std::uint64_t const* step;
  std::uint64_t const* checksum;
  std::byte* to;
  PITH_HD void operator()(std::uint64_t) const {
    auto const header = make_device_header(identity, *step, *checksum);
    __builtin_memcpy(to, &header, sizeof header);
  }
};

/// Sets the fault bits of a payload in `*verdict` and `*flag`. Only one executor writes to these words, so atomics are
/// not needed.
struct check_device_header {
  std::uint32_t identity;
  std::uint64_t const* step;
  std::uint64_t const* checksum;
  std::byte const* from;
  std::uint32_t* verdict;
  std::uint32_t* flag;
  PITH_HD void operator()(std::uint64_t) const {
    device_header found;
    __builtin_memcpy(&found, from, sizeof found);
    auto const wrong = faults_of(make_device_header(identity, *step, *checksum), found);
    *verdict |= wrong;
    *flag |= wrong;
  }
};

}  // namespace detail
}}  // namespace pith::PITH_ABI
