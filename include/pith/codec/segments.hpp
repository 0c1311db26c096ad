// pith/codec/segments.hpp — the table of a batch's tensors, and each tensor's blocks of work.
#pragma once

#include <pith/codec/codec.hpp>
#include <pith/core/buffer.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

/// A tensor of a batch, which is a list of tensors that one call encodes or decodes. `first` is the offset of the
/// tensor's gradient, in elements.
struct tensor_place {
  shape dims;
  std::uint64_t first = 0;
  std::size_t payload = 0;   ///< offset of the tensor's payload in bytes, a multiple of 8
  std::uint32_t tensor = 0;  ///< the tensor's number, below 2^24
};

/// A tensor of a batch, in the form that block bodies read.
struct segment {
  std::uint64_t n, first, payload;
  std::uint64_t side;  ///< offset of the side information's first byte
  std::uint64_t end;   ///< offset of the payload's end
  std::uint32_t tensor;
  std::uint32_t padding;  ///< the number of zero bytes before the side information

  friend bool operator==(segment const&, segment const&) = default;
};

namespace detail {

/// The segments of a batch, and the division of one kernel's blocks among the segments. before[s] is the number of
/// blocks of all segments before s. Both arrays are in the executor's memory.
struct segment_blocks {
  segment const* segments;
  std::uint64_t const* before;
  std::uint32_t count;

  /// Returns the segment to which a block belongs: the last segment that begins at or before the block. A segment
  /// without blocks begins at the same block as the next segment.
  PITH_HD std::uint32_t find(std::uint64_t block) const {
    std::uint32_t low = 0, high = count;
    while (high - low > 1) {
      auto const middle = low + (high - low) / 2;
      (before[middle] <= block ? low : high) = middle;
    }
    return low;
  }
};

/// Declares items_per_block and resident_blocks if Body declares them.
template <class Body>
struct block_size_of {};
template <class Body>
  requires(requires { Body::items_per_block; })
struct block_size_of<Body> {
  static constexpr auto items_per_block = Body::items_per_block;
};
template <class Body>
struct residents_of {};
template <class Body>
  requires(requires { Body::resident_blocks; })
struct residents_of<Body> {
  static constexpr auto resident_blocks = Body::resident_blocks;
};

/// A block body for the blocks of all segments, in sequence. Block before[s] + b is block b of the body
/// make(segments[s], s).
template <class Maker>
struct batched : block_size_of<typename Maker::body>, residents_of<typename Maker::body> {
  using memory = typename Maker::body::memory;

  Maker make;
  segment_blocks over;

  batched(Maker const& maker, segment_blocks const& blocks) : make(maker), over(blocks) {}

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const s = over.find(block);
    auto const body = make(over.segments[s], s);
    body(team, fast, block - over.before[s]);
  }
};

/// A codec with a batch engine, which processes all segments of a batch in a fixed number of kernels. The kernels have
/// the numbers 0 to programs - 1. blocks(kernel, n, span) returns the number of blocks that one kernel needs for a
/// tensor with n elements; `span` is the executor's items_per_block.
template <class C>
concept batches = requires(C const& c) {
  { c.batch().programs } -> std::convertible_to<unsigned>;
  { c.batch().blocks(0u, std::uint64_t{}, std::uint32_t{}) } -> std::same_as<std::uint64_t>;
};

/// Returns `programs` of a codec's batch engine; 0 if the codec has no batch engine.
template <class C>
unsigned programs_of([[maybe_unused]] C const& codec) {
  if constexpr (batches<C>) {
    return codec.batch().programs;
  } else {
    return 0;
  }
}

/// For each kernel, returns the number of blocks before each tensor, and then the total. `span` is the executor's
/// items_per_block.
template <class C>
std::vector<std::uint64_t> blocks_before(C const& codec, std::vector<tensor_place> const& tensors, std::uint32_t span) {
  auto before = std::vector<std::uint64_t>();
  if constexpr (batches<C>) {
    auto const engine = codec.batch();
    for (unsigned program = 0; program < engine.programs; ++program) {
      before.push_back(0);
      for (auto const& t : tensors) before.push_back(before.back() + engine.blocks(program, t.dims.n, span));
    }
  }
  return before;
}

/// Returns the segment of a tensor. If the codec has no batch engine, `side` and `padding` are not used.
template <class In, class C>
segment make_segment(C const& codec, tensor_place const& at) {
  require(at.payload % section_alignment == 0, "make_segments: the offset of a payload must be a multiple of ",
          section_alignment, ", got ", at.payload);
  require(at.tensor < 1u << 24, "make_segments: tensor must be below 2^24, got ", at.tensor);
  auto const size = payload_bytes<In>(codec, at.dims);
  require(at.dims.n <= ~at.first && size <= ~at.payload, "make_segments: tensor ", at.tensor,
          " must end before 2^64, got ", at.dims.n, " elements from ", at.first, " and ", size, " payload bytes from ",
          at.payload);
  auto made = segment{at.dims.n, at.first, at.payload, at.payload, at.payload + size, at.tensor, 0};
  if constexpr (batches<C>) {
    auto const values = value_bytes<output_of<C, In>>(codec.output_shape(at.dims).n);
    auto const side = std::min(size, align_up(values, section_alignment));
    made.side += side;
    made.padding = static_cast<std::uint32_t>(side - values);
  }
  return made;
}

}  // namespace detail

/// The table of a batch's tensors for one codec and element type. The table is on the host and in E's memory.
/// `make_segments` builds the table.
template <executor E>
class segment_table {
 public:
  segment_table(E const& exec, std::vector<tensor_place> tensors, std::vector<segment> segments,
                std::vector<std::uint64_t> blocks_before)
      : tensors_(std::move(tensors)),
        on_host_(std::move(segments)),
        before_(std::move(blocks_before)),
        segments_on_(exec, on_host_.size()),
        before_on_(exec, before_.size()) {
    for (auto const& s : on_host_) {
      elements_ = std::max(elements_, s.first + s.n);
      bytes_ = std::max<std::size_t>(bytes_, s.end);
      has_padding_ = has_padding_ || s.padding > 0;
    }
    exec.upload(segments_on_.data(), on_host_.data(), segments_on_.size_bytes());
    exec.upload(before_on_.data(), before_.data(), before_on_.size_bytes());
    exec.wait();
  }

  std::vector<tensor_place> const& tensors() const { return tensors_; }

  /// The end of the last gradient, in elements.
  std::uint64_t elements() const { return elements_; }
  /// The end of the last payload, in bytes.
  std::size_t payload_bytes() const { return bytes_; }

  bool has_padding() const { return has_padding_; }
  segment const* segments() const { return segments_on_.data(); }
  std::vector<segment> const& segments_on_host() const { return on_host_; }

  std::size_t programs() const { return before_.size() / (tensors_.size() + 1); }

  /// `blocks` returns the number of blocks of one kernel for all tensors, or for one tensor. `over` returns the
  /// division of the blocks among the segments.
  std::uint64_t blocks(unsigned program) const { return before_[program * (tensors_.size() + 1) + tensors_.size()]; }
  std::uint64_t blocks(unsigned program, std::size_t tensor) const {
    auto const* const before = before_.data() + program * (tensors_.size() + 1) + tensor;
    return before[1] - before[0];
  }
  detail::segment_blocks over(unsigned program) const {
    auto const count = tensors_.size();
    return {segments(), before_on_.data() + program * (count + 1), static_cast<std::uint32_t>(count)};
  }

 private:
  std::vector<tensor_place> tensors_;
  std::vector<segment> on_host_;
  std::vector<std::uint64_t> before_;
  buffer<segment, E> segments_on_;
  buffer<std::uint64_t, E> before_on_;
  std::uint64_t elements_ = 0;
  std::size_t bytes_ = 0;
  bool has_padding_ = false;
};

namespace detail {

/// Whether the table has as many blocks of each tensor as the codec's kernels process.
template <class C, class E>
bool has_blocks_of([[maybe_unused]] C const& codec, [[maybe_unused]] segment_table<E> const& table) {
  if constexpr (batches<C>) {
    auto const engine = codec.batch();
    for (unsigned program = 0; program < engine.programs; ++program) {
      for (std::size_t i = 0; i < table.tensors().size(); ++i) {
        auto const blocks = engine.blocks(program, table.tensors()[i].dims.n, E::items_per_block);
        if (table.blocks(program, i) != blocks) return false;
      }
    }
  }
  return true;
}

/// Whether the codec's payloads of elements In have the sizes, sections and blocks of the table. Then the kernels of
/// this codec read and write only the bytes of the table's tensors.
template <class In, class C, class E>
bool has_segments_of(C const& codec, segment_table<E> const& table) {
  auto const& tensors = table.tensors();
  if (table.programs() != programs_of(codec)) return false;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (make_segment<In>(codec, tensors[i]) != table.segments_on_host()[i]) return false;
  }
  return has_blocks_of(codec, table);
}

}  // namespace detail

/// Places tensors one after another, and gives them the numbers 0, 1, 2, ... Payloads begin at multiples of 8 bytes.
template <class In, class C>
std::vector<tensor_place> contiguous_places(C const& codec, std::vector<shape> const& tensors) {
  auto places = std::vector<tensor_place>();
  auto next = tensor_place();
  for (auto const& dims : tensors) {
    next.dims = dims;
    places.push_back(next);
    next.first += dims.n;
    next.payload += detail::align_up(payload_bytes<In>(codec, dims), detail::section_alignment);
    ++next.tensor;
  }
  return places;
}

/// Builds the table of tensors at the given places. The function allocates and waits, so call it once.
template <class In, executor E, class C>
segment_table<E> make_segments(E const& exec, C const& codec, std::vector<tensor_place> tensors) {
  auto segments = std::vector<segment>();
  for (auto const& t : tensors) segments.push_back(detail::make_segment<In>(codec, t));
  auto before = detail::blocks_before(codec, tensors, E::items_per_block);
  return {exec, std::move(tensors), std::move(segments), std::move(before)};
}

/// Places tensors with `contiguous_places` and builds their table.
template <class In, executor E, class C>
segment_table<E> make_segments(E const& exec, C const& codec, std::vector<shape> const& tensors) {
  return make_segments<In>(exec, codec, contiguous_places<In>(codec, tensors));
}

}}  // namespace pith::PITH_ABI
