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

template <class T, class Comm>
void reduces(Comm& comm, std::size_t n) {
  auto sum = mine<T>(comm.rank(), n), most = sum;
  comm.all_reduce(pith::seq, pith::span<T>(sum), pith::reduction::sum).wait(pith::seq);
  comm.all_reduce(pith::seq, pith::span<T>(most), pith::reduction::max).wait(pith::seq);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    int total = 0, largest = -2;
    for (unsigned r = 0; r < comm.size(); ++r) {
      total += held(r, i);
      largest = std::max(largest, held(r, i));
    }
    auto const same = [](T a, T b) { return pith::element_cast<float>(a) == pith::element_cast<float>(b); };
    wrong += !same(sum[i], to<T>(total)) + !same(most[i], to<T>(largest));
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

template <class Comm>
void broadcasts(Comm& comm, std::size_t n) {
  for (unsigned root = 0; root < comm.size(); ++root) {
    auto x = mine<std::int32_t>(comm.rank(), n);
    comm.broadcast(pith::seq, pith::span(reinterpret_cast<std::byte*>(x.data()), 4 * n), root).wait(pith::seq);
    CHECK(x == mine<std::int32_t>(root, n));
  }
}

/// All of it, at sizes from nothing to more than a page, some not divided by the ranks.
template <class Comm>
void check(Comm& comm) {
  static_assert(pith::exchanges<Comm, pith::seq_executor> && pith::broadcasts<Comm, pith::seq_executor>);
  for (std::size_t n : {0u, 1u, 3u, 64u, 1001u, 4099u}) {
    reduces<float>(comm, n);
    reduces<double>(comm, n);
    reduces<pith::half>(comm, n);
    reduces<pith::bfloat16>(comm, n);
    reduces<std::int32_t>(comm, n);
    reduces<std::int8_t>(comm, n);
    gathers(comm, n);
    exchanges_pieces(comm, n);
    broadcasts(comm, n);
  }
}

}  // namespace conformance
