// tests/frozen/rows.hpp — digests of all bytes that a codec makes: rows of tests/data/frozen.
#pragma once

#include <pith/collective/sharding.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/all_reduce_mean.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iomanip>
#include <iostream>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "support/vectors.hpp"

namespace frozen {

/// A hash of bytes, eight at a time. Each field is followed by its length.
class digest {
 public:
  void add(void const* data, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, static_cast<std::byte const*>(data) + at, std::min<std::size_t>(8, bytes - at));
      mix(word);
    }
    mix(bytes);
  }
  template <class T>
  void add(std::vector<T> const& values) {
    add(values.data(), values.size() * sizeof(T));
  }
  std::uint64_t value() const { return hash_; }

 private:
  void mix(std::uint64_t word) {
    hash_ = (std::rotl(hash_, 29) ^ word) * 0x9e3779b97f4a7c15u;
    hash_ ^= hash_ >> 32;
  }

  std::uint64_t hash_ = 1;
};

/// Adds the fields of a state to a digest.
class field_digest final : public pith::field_visitor {
 public:
  explicit field_digest(digest& to) : to_(to) {}
  void visit(void* data, std::size_t bytes) override { to_.add(data, bytes); }

 private:
  digest& to_;
};

/// Returns a rank's gradient in a step: integers with 24 bits times powers of two, equal on every machine.
template <class In>
std::vector<In> gradient(std::uint64_t n, unsigned step, unsigned rank) {
  auto random = std::mt19937_64(1000 * step + rank + n);
  auto x = std::vector<In>(n);
  for (auto& v : x) {
    auto const word = random();
    v = pith::element_cast<In>(std::ldexp(static_cast<double>(word >> 40) - 0x1p23, -24 - static_cast<int>(word % 12)));
  }
  return x;
}

inline constexpr unsigned steps = 3;
inline constexpr std::array<unsigned, 3> numbers_of_ranks = {1, 3, 4};

/// Three kinds of digests: of payloads and decoded tensors; of the state after each step; of the means and states of an
/// exchange, for each number of ranks. A digest is `refused` if the codec does not accept the number of ranks.
struct row {
  static constexpr std::uint64_t refused = 0;

  std::uint64_t payloads = refused, states = refused;
  std::array<std::uint64_t, numbers_of_ranks.size()> means{};

  bool operator==(row const&) const = default;
};

template <class In, pith::executor E, class C>
void add_steps(E const& exec, C const& codec, pith::shape dims, digest& payloads, digest& states) {
  auto state = pith::make_state<In>(exec, codec, dims, {0x5eed, 3, 1});
  auto payload = std::vector<std::byte>(pith::payload_bytes<In>(codec, dims));
  auto scratch = std::vector<std::byte>(pith::workspace_bytes<In>(exec, codec, dims));
  auto fields = field_digest(states);
  for (unsigned step = 0; step < steps; ++step) {
    auto ws = pith::workspace_on<E>(pith::span<std::byte>(scratch));
    auto const x = gradient<In>(dims.n, step, 1);
    auto decoded = std::vector<In>(dims.n);
    pith::compress(exec, codec, pith::span<In const>(x), pith::span<std::byte>(payload), state, ws);
    pith::decompress(exec, codec, pith::span<std::byte const>(payload), pith::span<In>(decoded), state, ws);
    payloads.add(payload);
    payloads.add(decoded);
    state.fields(fields);
  }
}

/// Sets the elements that a rank did not receive to zero.
template <class In, class Comm>
void clear_other_shards(pith::sharding const& rule, pith::shape const& dims, Comm const& comm, std::vector<In>& x) {
  auto const first = rule.first(dims, comm.size(), comm.rank()), end = rule.first(dims, comm.size(), comm.rank() + 1);
  for (std::uint64_t i = 0; i < x.size(); ++i)
    if (i < first || i >= end) x[i] = In();
}

/// Exchanges on one rank and returns a digest of its means and states.
template <class In, pith::executor E, class C, class Comm>
std::uint64_t exchanged(E const& exec, C const& codec, pith::shape dims, Comm& comm) {
  auto made = digest();
  auto fields = field_digest(made);
  auto comms = pith::make_sub_communicators<In>(comm, codec, dims);
  auto state = pith::make_state<In>(exec, codec, dims, {0x5eed, 3, static_cast<std::uint16_t>(comm.rank())});
  auto scratch = std::vector<std::byte>(pith::workspace_bytes<In>(exec, codec, dims, comm.size()));
  for (unsigned step = 0; step < steps; ++step) {
    auto ws = pith::workspace_on<E>(pith::span<std::byte>(scratch));
    auto x = gradient<In>(dims.n, step, comm.rank());
    pith::all_reduce_mean<In>(exec, comms, codec, pith::span<In>(x), state, ws);
    if (auto const* const rule = codec.shards(dims)) clear_other_shards(*rule, dims, comm, x);
    made.add(x);
    state.fields(fields);
  }
  return made.value();
}

/// Exchanges on ranks that are threads and returns the digest of each rank.
template <class In, pith::executor E, class C>
std::vector<std::uint64_t> by_threads(E const& exec, C const& codec, pith::shape dims, unsigned ranks) {
  auto each = std::vector<std::uint64_t>(ranks);
  pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
    each[comm.rank()] = exchanged<In>(exec, codec, dims, comm);
  });
  return each;
}

/// Returns the shapes of a row. Every tier uses the small shapes; only optimised programs use the large shapes.
inline std::vector<pith::shape> shapes(std::string_view sizes) {
  if (sizes == "small") return {{0}, {1}, {7}, {513}, {10'007}, {35, 5}, {40 * 250, 40}};
  if (sizes == "large") return {{200'003}, {250 * 1000, 250}};
  throw std::invalid_argument("the sizes of a row must be small or large, got " + std::string(sizes));
}

/// Returns a digest of all sizes. exchange(dims) returns the digest of each rank. Returns `refused` if exchange throws
/// std::invalid_argument.
template <class F>
std::uint64_t means_of(std::string_view sizes, F const& exchange) try {
  auto means = digest();
  for (auto const& dims : shapes(sizes)) means.add(exchange(dims));
  return means.value();
} catch (std::invalid_argument const&) {
  return row::refused;
}

template <class In, pith::executor E, class C>
row row_of(E const& exec, C const& codec, std::string_view sizes) {
  auto made = row();
  auto payloads = digest(), states = digest();
  for (auto const& dims : shapes(sizes)) add_steps<In>(exec, codec, dims, payloads, states);
  made.payloads = payloads.value();
  made.states = states.value();
  for (std::size_t i = 0; i < numbers_of_ranks.size(); ++i) {
    auto const ranks = numbers_of_ranks[i];
    made.means[i] = means_of(sizes, [&](auto const& dims) { return by_threads<In>(exec, codec, dims, ranks); });
  }
  return made;
}

/// A line of the file: element type, sizes, the codec's text, and the digests.
struct line {
  std::string element, sizes, text;
  row digests;
};

inline std::ostream& operator<<(std::ostream& to, line const& l) {
  to << l.element << ' ' << l.sizes << ' ' << l.text << std::hex << std::setfill('0');
  for (auto const d : {l.digests.payloads, l.digests.states}) to << ' ' << std::setw(16) << d;
  for (auto const d : l.digests.means) to << ' ' << std::setw(16) << d;
  return to << std::dec;
}

inline std::istream& operator>>(std::istream& from, line& l) {
  from >> l.element >> l.sizes >> l.text >> std::hex >> l.digests.payloads >> l.digests.states;
  for (auto& d : l.digests.means) from >> d;
  return from >> std::dec;
}

}  // namespace frozen
