// tests/fuzz/fuzz_open.cpp — any bytes as a frame. The first one says which of its checksums are made right.
#include <memory>
#include <stdexcept>

#include "harness.hpp"

namespace {

enum repair : unsigned { header_sum = 1, payload_sum = 2, payload_size = 4 };

template <class T>
T read(std::vector<std::byte> const& frame, std::size_t at) {
  T value;
  std::memcpy(&value, frame.data() + at, sizeof value);
  return value;
}
template <class T>
void write(std::vector<std::byte>& frame, std::size_t at, T value) {
  std::memcpy(frame.data() + at, &value, sizeof value);
}

void mend(std::vector<std::byte>& frame, unsigned what) {
  if (frame.size() < pith::detail::header_bytes(0)) return;
  auto const name_bytes = read<std::uint32_t>(frame, 8);
  auto const size = pith::detail::header_bytes(name_bytes);
  if (size > frame.size()) return;
  auto const payload = pith::span<std::byte const>(frame).subspan(size);
  if (what & payload_size) write<std::uint64_t>(frame, 56, payload.size());
  if (what & payload_sum) write(frame, 64, pith::checksum(payload));
  if (what & header_sum) write(frame, size - 8, pith::checksum({frame.data(), size - 8}));
}

template <class T>
std::unique_ptr<fuzz::opener> opener_of(fuzz::wire::header const& h) {
  return std::make_unique<fuzz::opener_of<T>>(pith::parse<T>(h.codec), h.dims);
}
std::unique_ptr<fuzz::opener> opener_of(fuzz::wire::header const& h) {
  switch (h.element) {
    case pith::element_kind::f64: return opener_of<double>(h);
    case pith::element_kind::f16: return opener_of<pith::half>(h);
    case pith::element_kind::bf16: return opener_of<pith::bfloat16>(h);
    default: return opener_of<float>(h);
  }
}

/// Opens a frame by its header alone, which has the element type, codec and shape. Large shapes are skipped.
void open_as_said(std::vector<std::byte> const& frame) {
  auto const h = fuzz::wire::read_header(pith::span<std::byte const>(frame));
  if (h.dims.n > 4096 || h.dims.rows > 4096) return;
  opener_of(h)->open(pith::span<std::byte const>(frame));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  static auto expected = fuzz::opener_of<float>(pith::parse<float>("qsgd<8>"), {100});
  if (size == 0) return 0;
  auto frame = std::vector<std::byte>(size - 1);
  if (size > 1) std::memcpy(frame.data(), data + 1, size - 1);
  mend(frame, data[0]);
  expected.open(pith::span<std::byte const>(frame));
  try {
    open_as_said(frame);
  } catch (pith::wire_error const&) {
  } catch (std::invalid_argument const&) {  // a codec that no text says, or one that cannot have this shape
  }
  return 0;
}
