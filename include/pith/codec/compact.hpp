// pith/codec/compact.hpp — removal of unused bytes from a variable-rate payload, and the inverse.
#pragma once

#include <pith/codec/chain.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace pith::inline v0 {

namespace detail {

/// A used piece of a payload: the bytes [at, at + used).
struct payload_piece {
  std::size_t at, used;
};

/// The used parts of a stage's output. By default, the used parts are `count` values and all side information.
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
  if constexpr (requires { s.template used_side_bytes<In>(dims, count); }) {
    return s.template used_side_bytes<In>(dims, count);
  } else if constexpr (requires { s.used_side_bytes(dims, count); }) {
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

/// The used parts of the output of a stage whose side information begins at byte `side` of the payload. `read(at, cut,
/// most)` returns the count that is at byte `at` of the payload and at byte `cut` of the compacted payload. A count is
/// at most `most`.
template <class In, class S, class Read>
stage_use used_of(S const& s, shape const& dims, [[maybe_unused]] std::size_t side, [[maybe_unused]] std::size_t cut,
                  [[maybe_unused]] Read const& read) {
  auto const most = s.output_shape(dims).n;
  if constexpr (traits_of<S>.is_variable()) {
    auto const offset = s.template count_offset<In>(dims);
    auto const count = read(side + offset, cut + offset, most);
    return {used_values(s, dims, count), used_side_bytes<In>(s, dims, count)};
  } else {
    return {most, s.template side_bytes<In>(dims)};
  }
}

/// Returns the used pieces of a payload. Pieces of side information come before values, because a count in the side
/// information determines the number of used values.
template <class In, class Read>
class used_pieces {
 public:
  used_pieces(Read const& read, std::size_t values) : read_(read), side_(values) {}

  template <class... S>
  auto of(shape const& dims, S const&... stages) {
    auto pieces = std::array<payload_piece, sizeof...(S) + 1>();
    add<In>(pieces.data(), dims, stages...);
    return pieces;
  }

 private:
  template <class T, class S, class... Rest>
  void add(payload_piece* to, shape const& dims, S const& s, Rest const&... rest) {
    auto const used = used_of<T>(s, dims, side_, cut_, read_);
    *to = {side_, used.side};
    side_ += align_up(s.template side_bytes<T>(dims), section_alignment);
    cut_ += used.side;
    if constexpr (sizeof...(Rest) > 0) {
      add<output_of<S, T>>(to + 1, s.output_shape(dims), rest...);
    } else {
      to[1] = {0, value_bytes<output_of<S, T>>(used.values)};
    }
  }

  Read const& read_;
  std::size_t side_, cut_ = 0;
};

template <class C>
concept feeds_back = requires(C const& c) {
  c.codec();
  c.policy();
};

/// Returns the used pieces of any codec's payload. By default, the whole payload is one piece.
template <class In, class C, class Read>
auto pieces_of(C const& c, shape const& dims, Read const& read) {
  if constexpr (feeds_back<C>) {
    return pieces_of<accum<In>>(c.codec(), dims, read);
  } else if constexpr (traits_of<C>.is_variable() && requires { typename output_of<C, In>; }) {
    auto const values = align_up(value_bytes<output_of<C, In>>(c.output_shape(dims).n), section_alignment);
    return std::apply([&](auto const&... s) { return used_pieces<In, Read>(read, values).of(dims, s...); },
                      stages_of(c));
  } else {
    return std::array{payload_piece{0, payload_bytes<In>(c, dims)}};
  }
}

/// Waits, then reads a count from the executor's memory.
template <class E>
std::uint32_t read_count(E const& exec, span_on<E, std::byte const> bytes, std::size_t at) {
  std::uint32_t count = 0;
  require(at + sizeof(count) <= bytes.size(), "expand: compacted must have at least ", at + sizeof(count),
          " bytes, got ", bytes.size());
  exec.download(&count, bytes.data() + at, sizeof(count));
  return count;
}

template <class In, class E, class C>
auto pieces_in(E const& exec, C const& codec, shape const& dims, span_on<E, std::byte const> payload) {
  auto const size = payload_bytes<In>(codec, dims);
  require(payload.size() >= size, "compact: payload must have at least ", size, " bytes, got ", payload.size());
  return pieces_of<In>(codec, dims,
                       [&](std::size_t at, auto...) { return read_count<E>(exec, payload.first(size), at); });
}

/// A visitor for type-erased codecs and adaptors. `count` returns the count at byte `at` of a payload, clamped to
/// `most`. `piece` receives a used piece of the payload.
class piece_visitor {
 public:
  virtual std::uint32_t count(std::size_t at, std::uint64_t most) = 0;
  virtual void piece(payload_piece const& used) = 0;

 protected:
  ~piece_visitor() = default;
};

template <class In, class C>
void visit_pieces(C const& c, shape const& dims, piece_visitor& visitor) {
  if constexpr (requires { c.template visit_pieces<In>(dims, visitor); }) {
    c.template visit_pieces<In>(dims, visitor);
  } else if constexpr (feeds_back<C>) {
    visit_pieces<accum<In>>(c.codec(), dims, visitor);
  } else {
    auto const read = [&](std::size_t at, std::size_t, std::uint64_t most) { return visitor.count(at, most); };
    for (auto const& used : pieces_of<In>(c, dims, read)) visitor.piece(used);
  }
}

template <class E>
class used_counter final : public piece_visitor {
 public:
  used_counter(E const& exec, span_on<E, std::byte const> payload) : exec_(exec), payload_(payload) {}

  std::uint32_t count(std::size_t at, std::uint64_t) override { return read_count<E>(exec_, payload_, at); }
  void piece(payload_piece const& used) override { bytes_ += used.used; }
  std::size_t bytes() const { return bytes_; }

 private:
  E const& exec_;
  span_on<E, std::byte const> payload_;
  std::size_t bytes_ = 0;
};

}  // namespace detail

/// Returns the number of used bytes of a payload. If the codec has a variable rate, this number may be less than
/// payload_bytes. `compact` keeps exactly the used bytes. But for a type-erased codec, and for the codecs bypass, rated
/// and checked, `compact` and `expand` copy all payload_bytes bytes. `used_bytes`, `compact` and `expand` wait for the
/// payload, so a graph cannot capture these functions.
template <real In, executor E, class C>
std::size_t used_bytes(E const& exec, C const& codec, shape const& dims, span_on<E, std::byte const> payload) {
  auto const size = payload_bytes<In>(codec, dims);
  detail::require(payload.size() >= size, "used_bytes: payload must have at least ", size, " bytes, got ",
                  payload.size());
  auto used = detail::used_counter<E>(exec, payload.first(size));
  detail::visit_pieces<In>(codec, dims, used);
  return used.bytes();
}

/// Copies the used bytes of a payload to `compacted`, whose size must be at least used_bytes. Returns the number of
/// copied bytes.
template <real In, executor E, class C>
std::size_t compact(E const& exec, C const& codec, shape const& dims, span_on<E, std::byte const> payload,
                    span_on<E, std::byte> compacted) {
  std::size_t done = 0;
  for (auto const& piece : detail::pieces_in<In>(exec, codec, dims, payload)) {
    detail::require(piece.used <= compacted.size() - done, "compact: compacted must have at least ", done + piece.used,
                    " bytes, got ", compacted.size(), ": allocate used_bytes");
    exec.copy(compacted.data() + done, payload.data() + piece.at, piece.used);
    done += piece.used;
  }
  return done;
}

/// Restores, byte for byte, the payload that compact received. Throws std::invalid_argument if the counts in
/// `compacted` require more bytes than `compacted` has.
template <real In, executor E, class C>
void expand(E const& exec, C const& codec, shape const& dims, span_on<E, std::byte const> compacted,
            span_on<E, std::byte> payload) {
  auto const size = payload_bytes<In>(codec, dims);
  detail::require(payload.size() >= size, "expand: payload must have at least ", size, " bytes, got ", payload.size());
  auto const pieces = detail::pieces_of<In>(codec, dims, [&](std::size_t, std::size_t cut, std::uint64_t) {
    return detail::read_count<E>(exec, compacted, cut);
  });
  exec.fill(payload.data(), std::byte{}, size);
  std::size_t done = 0;
  for (auto const& piece : pieces) {
    detail::require(piece.used <= compacted.size() - done, "expand: compacted must have at least ", done + piece.used,
                    " bytes, got ", compacted.size());
    exec.copy(payload.data() + piece.at, compacted.data() + done, piece.used);
    done += piece.used;
  }
}

}  // namespace pith::inline v0
