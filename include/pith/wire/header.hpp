// pith/wire/header.hpp — the header of a frame: codec, tensor, step and the payload's checksum.
#pragma once

#include <pith/codec/compress.hpp>
#include <pith/core/checksum.hpp>
#include <pith/version.hpp>
#include <pith/wire/detail/version_0.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

namespace pith { inline namespace v0 {  // a common type of all source files (core/error.hpp)

/// Thrown if bytes are not the expected frame or payload.
struct wire_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}}  // namespace pith::v0

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// The fixed part of a header, in little-endian byte order. The codec's name follows, padded with zeros to a multiple
/// of 8 bytes. The header ends with a checksum of its fixed part and the name.
struct header_fields {
  char magic[4];                   //  0  "pith"
  std::uint16_t version;           //  4
  std::uint8_t element;            //  6  an element_kind
  std::uint8_t reserved_byte;      //  7  zero
  std::uint32_t name_bytes;        //  8  length of the codec's name
  std::uint32_t tensor;            // 12  below 2^24
  std::uint64_t n;                 // 16
  std::uint64_t rows;              // 24
  std::uint64_t step;              // 32
  std::uint64_t seed;              // 40
  std::uint16_t rank;              // 48  the rank that encoded the payload
  std::uint16_t reserved[3];       // 50  zero
  std::uint64_t payload_bytes;     // 56
  std::uint64_t payload_checksum;  // 64
};
static_assert(sizeof(header_fields) == 72 && alignof(header_fields) == 8);
static_assert(element_kind::f32 == element_kind{1} && element_kind::f64 == element_kind{2} &&
                  element_kind::f16 == element_kind{3} && element_kind::bf16 == element_kind{4},
              "pith: these numbers are on the wire");

inline constexpr std::size_t longest_name = 1024;  ///< longest codec name in bytes; bounds a reader's work

/// The size of a header whose codec name has `name_bytes` bytes, which is also the payload's offset in the frame.
constexpr std::size_t header_bytes(std::size_t name_bytes) {
  return sizeof(header_fields) + align_up(name_bytes, 8) + sizeof(std::uint64_t);
}

template <class... Parts>
void require_wire(bool holds, Parts const&... parts) {
  if (!holds) throw wire_error(sentence("wire::", parts...));
}

/// Makes untrusted bytes printable for an error message: shortens the text and replaces unprintable characters.
inline std::string printable(std::string_view bytes) {
  auto shown = std::string(bytes.substr(0, 80));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return bytes.size() > shown.size() ? shown.append("...") : shown;
}

}  // namespace detail

namespace wire {

/// The version of the layout of frames and payloads. write_header writes this version. read_header reads this version
/// and earlier ones.
inline constexpr std::uint16_t version = PITH_WIRE_VERSION;

/// The fields of a frame's header.
struct header {
  std::string codec;  ///< the codec's name in the current version
  element_kind element = element_kind::f32;
  shape dims;
  std::uint64_t step = 0;
  tensor_id owner;
  std::uint64_t payload_bytes = 0;
  std::uint64_t payload_checksum = 0;
  std::uint16_t frame_version = version;

  /// The payload's offset in the frame.
  std::size_t bytes() const {
    return detail::header_bytes(frame_version == 0 ? detail::name_in_version_0(codec).size() : codec.size());
  }

  friend bool operator==(header const&, header const&) = default;
};

}  // namespace wire

namespace detail {

inline header_fields fields_of(wire::header const& h) {
  return {{'p', 'i', 't', 'h'},
          wire::version,
          static_cast<std::uint8_t>(h.element),
          0,
          static_cast<std::uint32_t>(h.codec.size()),
          h.owner.tensor,
          h.dims.n,
          h.dims.rows,
          h.step,
          h.owner.seed,
          h.owner.rank,
          {},
          h.payload_bytes,
          h.payload_checksum};
}

/// Throws wire_error if the bytes do not begin with a header of a known version.
inline void check_fields(header_fields const& f, std::size_t available) {
  require_wire(std::memcmp(f.magic, "pith", 4) == 0, "read_header: a frame must begin with \"pith\", got \"",
               printable({f.magic, 4}), "\"");
  require_wire(f.version <= wire::version, "read_header: the frame's version must be at most ", wire::version, ", got ",
               f.version);
  require_wire(f.name_bytes <= longest_name, "read_header: the codec's name must have at most ", longest_name,
               " bytes, got ", f.name_bytes);
  auto const size = header_bytes(f.name_bytes);
  require_wire(available >= size, "read_header: the header must have at least ", size, " bytes, got ", available);
}

inline void require_name(char const* call, std::string_view name) {
  require(name.size() <= longest_name, call, ": the codec's name must have at most ", longest_name, " bytes, got ",
          name.size());
}

/// Throws wire_error if the last 8 bytes of the header are not the checksum of its other bytes. The header may be
/// unaligned.
inline void check_sum(span<std::byte const> bytes) {
  std::uint64_t said = 0;
  auto const size = bytes.size() - sizeof said;
  std::memcpy(&said, bytes.data() + size, sizeof said);
  auto const sum = checksum(bytes.first(size));
  require_wire(said == sum, "read_header: the header is damaged: its checksum must be ", said, ", got ", sum);
}

/// Throws wire_error if a field is out of range. This is possible even if the checksum is correct, since a header may
/// be forged.
inline void check_values(header_fields const& f) {
  auto const is_known = 1 <= f.element && f.element <= 4;
  require_wire(is_known, "read_header: the element kind must be in [1, 4], got ", unsigned{f.element});
  require_wire(f.tensor < 1u << 24, "read_header: tensor must be below 2^24, got ", f.tensor);
  auto const spare = f.reserved_byte | f.reserved[0] | f.reserved[1] | f.reserved[2];
  require_wire(spare == 0, "read_header: reserved bytes must be 0, got ", spare);
}

/// Returns the codec's name in the current version. `name` is the name in a frame of version `frame_version`. Throws
/// wire_error if `name` is not valid in that version.
inline std::string current_name(std::uint16_t frame_version, std::string_view name) {
  if (frame_version != 0) return std::string(name);
  auto current = name_from_version_0(name);
  auto const is_checked = name.find("checked(") != name.npos;  // has a header of version 0 inside the payload
  require_wire(!is_checked && name_in_version_0(current) == name,
               "read_header: the codec's name must be valid in a frame of version 0, got ", printable(name));
  return current;
}

}  // namespace detail

namespace wire {

/// Writes the header into the first `h.bytes()` bytes, which must be 8-byte aligned. Requires h.frame_version ==
/// version.
inline void write_header(header const& h, span<std::byte> to) {
  auto const size = h.bytes();
  detail::require_name("wire::write_header", h.codec);
  detail::require(h.frame_version == version, "wire::write_header: frame_version must be ", version, ", got ",
                  h.frame_version);
  detail::require(to.size() >= size, "wire::write_header: 'to' must have at least ", size, " bytes, got ", to.size());
  auto const fields = detail::fields_of(h);
  std::memset(to.data(), 0, size);
  std::memcpy(to.data(), &fields, sizeof fields);
  std::memcpy(to.data() + sizeof fields, h.codec.data(), h.codec.size());
  auto const sum = checksum(to.first(size - 8));
  std::memcpy(to.data() + size - 8, &sum, sizeof sum);
}

/// Reads the header at the beginning of `bytes`. `bytes` need not contain the payload.
///
///     auto const h = pith::wire::read_header(bytes);
///     auto const codec = pith::parse<float>(h.codec);
///     auto state = pith::make_state<float>(pith::seq, codec, h.dims, h.owner);
///
///   errors      wire_error, whose message contains the expected and the found value. A header may be forged, so check
///               `dims` before you allocate memory for a tensor of that size
inline header read_header(span<std::byte const> bytes) {
  auto f = detail::header_fields();
  detail::require_wire(bytes.size() >= detail::header_bytes(0), "read_header: the header must have at least ",
                       detail::header_bytes(0), " bytes, got ", bytes.size());
  std::memcpy(&f, bytes.data(), sizeof f);
  detail::check_fields(f, bytes.size());
  detail::check_sum(bytes.first(detail::header_bytes(f.name_bytes)));
  detail::check_values(f);
  auto const* const name = reinterpret_cast<char const*>(bytes.data() + sizeof f);
  return {detail::current_name(f.version, {name, f.name_bytes}),
          element_kind{f.element},
          {f.n, f.rows},
          f.step,
          {f.seed, f.tensor, f.rank},
          f.payload_bytes,
          f.payload_checksum,
          f.version};
}

}  // namespace wire
}}  // namespace pith::PITH_ABI
