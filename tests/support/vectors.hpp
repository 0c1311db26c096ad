// tests/support/vectors.hpp — inputs with literal seeds, and the arithmetic of oracles, in double.
#pragma once

#include <pith/core/element.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <random>
#include <vector>

namespace support {

inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// The least relative rounding error of an element type: half a unit in the last place of 1.
template <class T>
constexpr double roundoff() {
  if constexpr (std::is_same_v<T, double>) return 0x1p-53;
  if constexpr (std::is_same_v<T, float>) return 0x1p-24;
  if constexpr (std::is_same_v<T, pith::half>) return 0x1p-11;
  return 0x1p-8;
}

template <class T>
std::vector<T> narrow(std::vector<double> const& x) {
  auto y = std::vector<T>();
  y.reserve(x.size());
  for (auto const v : x) y.push_back(pith::element_cast<T>(v));
  return y;
}
template <class T = float>
std::vector<T> of(std::initializer_list<double> x) {
  return narrow<T>(std::vector<double>(x));
}

template <class T>
std::vector<double> widen(std::vector<T> const& x) {
  auto y = std::vector<double>(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = pith::element_cast<double>(x[i]);
  return y;
}

/// Uniform in (0, 1), the same with every standard library.
inline double uniform(std::mt19937_64& random) { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; }

inline double normal(std::mt19937_64& random) {
  auto const radius = std::sqrt(-2 * std::log(uniform(random)));
  return radius * std::cos(6.283185307179586 * uniform(random));
}

inline std::vector<double> normal_vector(std::size_t n, std::uint64_t seed) {
  auto random = std::mt19937_64(seed);
  auto x = std::vector<double>(n);
  for (auto& v : x) v = normal(random);
  return x;
}
inline std::vector<double> laplace_vector(std::size_t n, std::uint64_t seed) {
  auto random = std::mt19937_64(seed);
  auto x = std::vector<double>(n);
  for (auto& v : x) v = (random() % 2 == 0 ? 1 : -1) * std::log(uniform(random));
  return x;
}

inline std::size_t nonzeros(std::vector<double> const& x) {
  return x.size() - static_cast<std::size_t>(std::count(x.begin(), x.end(), 0.0));
}

inline double dot(std::vector<double> const& a, std::vector<double> const& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
inline double square(std::vector<double> const& a) { return dot(a, a); }

inline std::vector<double> minus(std::vector<double> const& a, std::vector<double> const& b) {
  auto c = a;
  for (std::size_t i = 0; i < a.size(); ++i) c[i] -= b[i];
  return c;
}

/// M Q, of a matrix of `columns` columns and a thin matrix, row-major.
inline std::vector<double> product(std::vector<double> const& m, std::vector<double> const& q, std::size_t columns,
                                   std::size_t rank) {
  auto p = std::vector<double>(m.size() / columns * rank);
  for (std::size_t i = 0; i < p.size(); ++i) {
    for (std::size_t j = 0; j < columns; ++j) p[i] += m[i / rank * columns + j] * q[j * rank + i % rank];
  }
  return p;
}

/// Equal as bytes: NaN equals itself, zeros of either sign differ.
template <class T>
bool same_bytes(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace support
