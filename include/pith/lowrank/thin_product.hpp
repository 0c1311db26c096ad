// pith/lowrank/thin_product.hpp — products of a matrix with thin ones, an entry at a time.
#pragma once

#include <pith/core/call.hpp>
#include <pith/core/element.hpp>

#include <cstdint>

namespace pith::inline v0::detail {

/// A bell-shaped draw of mean 0 and variance 1: eight uniform ones added, exact integers, so equal on every machine.
template <class A>
struct bell {
  draws random;
  A* to;

  PITH_HD static A at(draws const& random, std::uint64_t i) {
    auto const block = random(i);
    std::int32_t sum = 0;
    for (unsigned lane = 0; lane < 8; ++lane) sum += block.lane(lane);
    return static_cast<A>(2 * sum - 8 * 65535) * static_cast<A>(0x1.3988e1409212ep-17);  // 1 / (2 65536 sqrt(8 / 12))
  }
  PITH_HD void operator()(std::uint64_t i) const { to[i] = at(random, i); }
};

/// P = M Q: M rows x columns, Q columns x rank.
template <class In>
struct times_thin {
  In const* m;
  accum<In> const* q;
  accum<In>* p;
  std::uint64_t columns, rank;

  PITH_HD void operator()(std::uint64_t i) const {
    auto const* const row = m + i / rank * columns;
    accum<In> sum = 0;
    for (std::uint64_t j = 0; j < columns; ++j) sum += element_cast<accum<In>>(row[j]) * q[j * rank + i % rank];
    p[i] = sum;
  }
};

/// Q = M^T P: P rows x rank.
template <class In>
struct transposed_times_thin {
  In const* m;
  accum<In> const* p;
  accum<In>* q;
  std::uint64_t rows, columns, rank;

  PITH_HD void operator()(std::uint64_t i) const {
    accum<In> sum = 0;
    for (std::uint64_t j = 0; j < rows; ++j)
      sum += element_cast<accum<In>>(m[j * columns + i / rank]) * p[j * rank + i % rank];
    q[i] = sum;
  }
};

/// M = P Q^T.
template <class In>
struct thin_times_thin {
  accum<In> const* p;
  accum<In> const* q;
  In* m;
  std::uint64_t columns, rank;

  PITH_HD void operator()(std::uint64_t i) const {
    accum<In> sum = 0;
    for (std::uint64_t c = 0; c < rank; ++c) sum += p[i / columns * rank + c] * q[i % columns * rank + c];
    m[i] = element_cast<In>(sum);
  }
};

/// Draws column c of Q anew if it is zero or not finite.
template <class A>
struct renew_column {
  draws random;
  A* q;
  std::uint64_t columns, rank;

  PITH_HD void operator()(std::uint64_t c) const {
    A largest = 0;
    for (std::uint64_t j = 0; j < columns; ++j) {
      auto const size = q[j * rank + c] < 0 ? -q[j * rank + c] : q[j * rank + c];
      if (size > largest || !is_finite(size)) largest = size;
    }
    if (largest > 0 && is_finite(largest)) return;
    for (std::uint64_t j = 0; j < columns; ++j) q[j * rank + c] = bell<A>::at(random, j * rank + c);
  }
};

}  // namespace pith::inline v0::detail
