// pith/codec/compact.hpp — removal of unused bytes from a variable-rate payload, and the inverse.
#pragma once

#include <pith/codec/chain.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// A used piece of a payload: the bytes [at, at + used).
struct payload_piece {
  std::size_t at, used;
};

/// The number of values (`used_values`) and of bytes of side information (`used_side_bytes`) that are used in an output
/// with this count. By default, `count` values and all side information are used.
template <class S>
std::uint64_t used_values(S const& s, shape const& dims, std::uint64_t count) {
  if constexpr (requires { s.used_values(dims, count); }) {
    return s.used_values(dims, count);
  } else {
    return std::min(count, s.output_shape(dims).n);
  }
}
template <class In, class S>
std::size_t used_side_bytes(S const& s, shape const& dims, std::uint64_t count) {
  if constexpr (requires { s.used_side_bytes(dims, count); }) {
    return s.used_side_bytes(dims, count);
  } else {
    return s.template side_bytes<In>(dims);
  }
}

/// The number of used values in a stage's output, and the number of used bytes of its side information.
struct stage_use {
  std::uint64_t values;
  std::size_t side;
};

/// A visitor of the used pieces of a payload. `piece` receives the pieces: the side information of each stage, then the
/// values of the last stage. `count` returns the count at byte `offset` of the side information that begins at byte
/// `side` of the payload. After a call of `count`, the next call of `piece` receives the same side information. `most`
/// is the largest valid count. Stages clamp larger counts to `most`.
class piece_visitor {
 public:
  virtual std::uint32_t count(std::size_t side, std::size_t offset, std::uint64_t most) = 0;
  virtual void piece(payload_piece const& used) = 0;

 protected:
  ~piece_visitor() = default;
};

/// The used parts of the output of a stage whose side information begins at byte `side` of the payload.
template <class In, class S>
stage_use used_of(S const& s, shape const& dims, [[maybe_unused]] std::size_t side,
                  [[maybe_unused]] piece_visitor& visitor) {
  auto const most = s.output_shape(dims).n;
  if constexpr (traits_of<S>.is_variable()) {
    auto const count = visitor.count(side, s.template count_offset<In>(dims), most);
    return {used_values(s, dims, count), used_side_bytes<In>(s, dims, count)};
  } else {
    return {most, s.template side_bytes<In>(dims)};
  }
}

/// Visits the pieces of a chain. The side information of its first stage begins at byte `side` of the payload.
template <class In, class S, class... Rest>
void visit_stages(piece_visitor& visitor, shape const& dims, std::size_t side, S const& s, Rest const&... rest) {
  auto const used = used_of<In>(s, dims, side, visitor);
  visitor.piece(payload_piece{side, used.side});
  if constexpr (sizeof...(Rest) > 0) {
    auto const next = side + align_up(s.template side_bytes<In>(dims), section_alignment);
    visit_stages<output_of<S, In>>(visitor, s.output_shape(dims), next, rest...);
  } else {
    visitor.piece(payload_piece{0, value_bytes<output_of<S, In>>(used.values)});
  }
}

/// Visits the used pieces of any codec's payload. By default, the whole payload is one piece.
template <class In, class C>
void visit_pieces(C const& c, shape const& dims, piece_visitor& visitor) {
  if constexpr (requires { c.template visit_pieces<In>(dims, visitor); }) {
    c.template visit_pieces<In>(dims, visitor);
  } else if constexpr (traits_of<C>.is_variable() && requires { typename output_of<C, In>; }) {
    auto const side = align_up(value_bytes<output_of<C, In>>(c.output_shape(dims).n), section_alignment);
    std::apply([&](auto const&... s) { visit_stages<In>(visitor, dims, side, s...); }, stages_of(c));
  } else {
    visitor.piece(payload_piece{0, payload_bytes<In>(c, dims)});
  }
}

/// A visitor that lists the used pieces of a payload. The visitor reads the counts from `bytes`, which are the payload
/// or, if `is_compacted` is true, the compacted payload.
template <class E>
class piece_list final : public piece_visitor {
 public:
  piece_list(E const& exec, span_on<E, std::byte const> bytes, bool is_compacted)
      : exec_(exec), bytes_(bytes), is_compacted_(is_compacted) {}

  std::uint32_t count(std::size_t side, std::size_t offset, std::uint64_t) override {
    auto const at = (is_compacted_ ? used_ : side) + offset;
    std::uint32_t count = 0;
    require(at + sizeof(count) <= bytes_.size(), "expand: compacted must have at least ", at + sizeof(count),
            " bytes, got ", bytes_.size());
    exec_.download(&count, bytes_.data() + at, sizeof(count));
    return count;
  }
  void piece(payload_piece const& used) override {
    pieces_.push_back(used);
    used_ += used.used;
  }

  std::vector<payload_piece> const& pieces() const { return pieces_; }
  std::size_t used() const { return used_; }

 private:
  E const& exec_;
  span_on<E, std::byte const> bytes_;
  bool is_compacted_;
  std::vector<payload_piece> pieces_;
  std::size_t used_ = 0;
};

template <class In, class E, class C>
piece_list<E> pieces_in(E const& exec, C const& codec, shape const& dims, span_on<E, std::byte const> payload,
                        char const* call) {
  auto const size = payload_bytes<In>(codec, dims);
  require(payload.size() >= size, call, ": payload must have at least ", size, " bytes, got ", payload.size());
  auto list = piece_list<E>(exec, payload.first(size), false);
  visit_pieces<In>(codec, dims, list);
  return list;
}

}  // namespace detail

/// Returns the number of used bytes of a payload. If the codec has a variable rate, this number may be less than
/// payload_bytes. `used_bytes`, `compact` and `expand` wait for the payload, so a CUDA graph cannot capture them.
template <real In, executor E, class C>
std::size_t used_bytes(E const& exec, C const& codec, shape const& dims, span_on<E, std::byte const> payload) {
  return detail::pieces_in<In>(exec, codec, dims, payload, "used_bytes").used();
}

/// Copies the used bytes of a payload to `compacted`, whose size must be at least used_bytes. Returns the number of
/// copied bytes.
template <real In, executor E, class C>
std::size_t compact(E const& exec, C const& codec, shape const& dims, span_on<E, std::byte const> payload,
                    span_on<E, std::byte> compacted) {
  auto const list = detail::pieces_in<In>(exec, codec, dims, payload, "compact");
  detail::require(list.used() <= compacted.size(), "compact: compacted must have at least ", list.used(),
                  " bytes, got ", compacted.size(), ": allocate used_bytes");
  std::size_t done = 0;
  for (auto const& piece : list.pieces()) {
    exec.copy(compacted.data() + done, payload.data() + piece.at, piece.used);
    done += piece.used;
  }
  return done;
}

/// The inverse of `compact`: restores the payload byte for byte. Throws std::invalid_argument, before any change, if
/// the counts in `compacted` require more bytes than `compacted` has.
template <real In, executor E, class C>
void expand(E const& exec, C const& codec, shape const& dims, span_on<E, std::byte const> compacted,
            span_on<E, std::byte> payload) {
  auto const size = payload_bytes<In>(codec, dims);
  detail::require(payload.size() >= size, "expand: payload must have at least ", size, " bytes, got ", payload.size());
  auto list = detail::piece_list<E>(exec, compacted, true);
  detail::visit_pieces<In>(codec, dims, list);
  detail::require(list.used() <= compacted.size(), "expand: compacted must have at least ", list.used(), " bytes, got ",
                  compacted.size());
  exec.fill(payload.data(), std::byte{}, size);
  std::size_t done = 0;
  for (auto const& piece : list.pieces()) {
    exec.copy(payload.data() + piece.at, compacted.data() + done, piece.used);
    done += piece.used;
  }
}

}}  // namespace pith::PITH_ABI
