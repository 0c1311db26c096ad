// tests/comm/conformance.hpp — what every communicator must do, checked from the inside of one rank.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace conformance {

/// What rank r holds at i: small whole numbers, whose sums are exact in every type.
inline int held(unsigned r, std::size_t i) { return static_cast<int>((7 * r + i) % 5) - 2; }

template <class T>
T to(int value) {
  if constexpr (std::integral<T>) {
    return static_cast<T>(value);
  } else {
    return pith::element_cast<T>(static_cast<float>(value));
  }
}

template <class T>
std::vector<T> mine(unsigned rank, std::size_t n) {
  auto x = std::vector<T>(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = to<T>(held(rank, i));
  return x;
}

template <class T>
struct totals {
  T sum, most;
};

template <class T>
totals<T> reduced(unsigned ranks, std::size_t i) {
  int total = 0, largest = -2;
  for (unsigned r = 0; r < ranks; ++r) {
    total += held(r, i);
    largest = std::max(largest, held(r, i));
  }
  return {to<T>(total), to<T>(largest)};
}

template <class T>
bool same(T a, T b) {
  return pith::element_cast<float>(a) == pith::element_cast<float>(b);
}

template <class T, class Comm>
void reduces(Comm& comm, std::size_t n) {
  auto sum = mine<T>(comm.rank(), n), most = sum;
  comm.all_reduce(pith::seq, pith::span<T>(sum), pith::reduction::sum).wait(pith::seq);
  comm.all_reduce(pith::seq, pith::span<T>(most), pith::reduction::max).wait(pith::seq);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    auto const expected = reduced<T>(comm.size(), i);
    wrong += !same(sum[i], expected.sum) + !same(most[i], expected.most);
  }
  CHECK(wrong == 0);
}

template <class Comm>
void gathers(Comm& comm, std::size_t n) {
  auto const sent = mine<std::int32_t>(comm.rank(), n);
  auto all = std::vector<std::int32_t>(n * comm.size(), 99);
  auto const in = pith::span(reinterpret_cast<std::byte const*>(sent.data()), 4 * n);
  comm.all_gather(pith::seq, in, pith::span(reinterpret_cast<std::byte*>(all.data()), 4 * all.size())).wait(pith::seq);
  for (unsigned r = 0; r < comm.size(); ++r) {
    CHECK(std::equal(all.begin() + static_cast<long>(r * n), all.begin() + static_cast<long>((r + 1) * n),
                     mine<std::int32_t>(r, n).begin()));
  }
}

template <class Comm>
void exchanges_pieces(Comm& comm, std::size_t n) {
  auto const ranks = comm.size();
  auto sent = std::vector<std::int32_t>(n * ranks), got = sent;
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = held(comm.rank(), i);
  auto const in = pith::span(reinterpret_cast<std::byte const*>(sent.data()), 4 * sent.size());
  comm.all_to_all(pith::seq, in, pith::span(reinterpret_cast<std::byte*>(got.data()), 4 * got.size())).wait(pith::seq);
  std::size_t wrong = 0;
  for (unsigned r = 0; r < ranks; ++r) {
    for (std::size_t i = 0; i < n; ++i) wrong += got[r * n + i] != held(r, comm.rank() * n + i);
  }
  CHECK(wrong == 0);
}

/// Bytes that say who sent them to whom.
inline std::vector<std::byte> letter(unsigned from, unsigned to, std::size_t bytes) {
  auto text = std::vector<std::byte>(bytes);
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<std::byte>(1 + 31 * from + 7 * to + i);
  return text;
}

inline void append(std::vector<std::byte>& all, std::vector<std::byte> const& more) {
  all.insert(all.end(), more.begin(), more.end());
}

template <class Comm>
void gathers_uneven(Comm& comm, std::size_t n) {
  auto const bytes = [n](unsigned r) { return n * r + r % 2; };
  auto sizes = std::vector<std::size_t>();
  auto expected = std::vector<std::byte>();
  for (unsigned r = 0; r < comm.size(); ++r) {
    sizes.push_back(bytes(r));
    append(expected, letter(r, 0, sizes.back()));
  }
  auto const sent = letter(comm.rank(), 0, bytes(comm.rank()));
  auto all = std::vector<std::byte>(expected.size());
  comm.all_gather_v(pith::seq, pith::span<std::byte const>(sent), pith::span<std::byte>(all),
                    pith::span<std::size_t const>(sizes))
      .wait(pith::seq);
  CHECK(all == expected);
}

template <class Comm>
void exchanges_uneven_pieces(Comm& comm, std::size_t n) {
  auto const bytes = [n](unsigned from, unsigned to) { return n * ((from + 2 * to) % 3) + from; };
  auto sizes_to = std::vector<std::size_t>(), sizes_from = sizes_to;
  auto sent = std::vector<std::byte>(), expected = sent;
  for (unsigned r = 0; r < comm.size(); ++r) {
    sizes_to.push_back(bytes(comm.rank(), r));
    sizes_from.push_back(bytes(r, comm.rank()));
    append(sent, letter(comm.rank(), r, sizes_to.back()));
    append(expected, letter(r, comm.rank(), sizes_from.back()));
  }
  auto all = std::vector<std::byte>(expected.size());
  comm.all_to_all_v(pith::seq, pith::span<std::byte const>(sent), pith::span<std::size_t const>(sizes_to),
                    pith::span<std::byte>(all), pith::span<std::size_t const>(sizes_from))
      .wait(pith::seq);
  CHECK(all == expected);
}

/// Rings of every stride, the rank itself among them; then pairs, where an odd one out is its own partner.
template <class Comm>
void sends(Comm& comm, std::size_t n) {
  auto const ranks = comm.size(), rank = comm.rank();
  auto const swap = [&](unsigned to, unsigned from) {
    auto const sent = letter(rank, to, n), expected = letter(from, rank, n);
    auto got = std::vector<std::byte>(n);
    comm.send_recv(pith::seq, pith::span<std::byte const>(sent), to, pith::span<std::byte>(got), from).wait(pith::seq);
    CHECK(got == expected);
  };
  for (unsigned stride = 0; stride < ranks; ++stride) swap((rank + stride) % ranks, (rank + ranks - stride) % ranks);
  auto const partner = (rank ^ 1u) < ranks ? rank ^ 1u : rank;
  swap(partner, partner);
}

template <class T, class Comm>
void reduces_pieces(Comm& comm, std::size_t n) {
  auto const sent = mine<T>(comm.rank(), n * comm.size());
  auto sum = std::vector<T>(n), most = sum;
  comm.reduce_scatter(pith::seq, pith::span<T const>(sent), pith::span<T>(sum), pith::reduction::sum).wait(pith::seq);
  comm.reduce_scatter(pith::seq, pith::span<T const>(sent), pith::span<T>(most), pith::reduction::max).wait(pith::seq);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    auto const expected = reduced<T>(comm.size(), comm.rank() * n + i);
    wrong += !same(sum[i], expected.sum) + !same(most[i], expected.most);
  }
  CHECK(wrong == 0);
}

template <class Comm>
void broadcasts(Comm& comm, std::size_t n) {
  for (unsigned root = 0; root < comm.size(); ++root) {
    auto x = mine<std::int32_t>(comm.rank(), n);
    comm.broadcast(pith::seq, pith::span(reinterpret_cast<std::byte*>(x.data()), 4 * n), root).wait(pith::seq);
    CHECK(x == mine<std::int32_t>(root, n));
  }
}

template <class T, class Comm>
void sums(Comm& comm, std::size_t n) {
  reduces<T>(comm, n);
  reduces_pieces<T>(comm, n);
}

template <class Comm>
void transfers(Comm& comm, std::size_t n) {
  sums<float>(comm, n);
  sums<double>(comm, n);
  sums<pith::half>(comm, n);
  sums<pith::bfloat16>(comm, n);
  sums<std::int32_t>(comm, n);
  sums<std::int8_t>(comm, n);
  gathers(comm, n);
  gathers_uneven(comm, n);
  exchanges_pieces(comm, n);
  exchanges_uneven_pieces(comm, n);
  sends(comm, n);
  broadcasts(comm, n);
}

/// Even and odd ranks, then all in one: they keep their order and work apart.
template <class Comm>
void splits(Comm& comm) {
  auto halves = comm.split(comm.rank() % 2);
  CHECK(halves.rank() == comm.rank() / 2);
  CHECK(halves.size() == (comm.size() + 1 - comm.rank() % 2) / 2);
  if (comm.rank() % 2 == 0) transfers(halves, 3);
  transfers(halves, 5);
  auto all = comm.split(7);
  CHECK(all.rank() == comm.rank());
  CHECK(all.size() == comm.size());
  transfers(all, 5);
}

/// All of it, at sizes from nothing to more than a page, some not divided by the ranks.
template <class Comm>
void check(Comm& comm) {
  static_assert(pith::exchanges<Comm, pith::seq_executor> && pith::communicates_in_full<Comm, pith::seq_executor>);
  for (std::size_t n : {0u, 1u, 3u, 64u, 1001u, 4099u}) transfers(comm, n);
  splits(comm);
}

}  // namespace conformance
