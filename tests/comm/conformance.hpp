// tests/comm/conformance.hpp — what every communicator must do, checked from the inside of one rank.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/core/buffer.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <thread>
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

/// How many sums and maxima are not those of what `ranks` ranks hold from element `first` on.
template <class T>
std::size_t wrong_totals(std::vector<T> const& sums, std::vector<T> const& maxima, unsigned ranks, std::size_t first) {
  auto const same = [](T a, T b) { return pith::element_cast<float>(a) == pith::element_cast<float>(b); };
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    int sum = 0, most = -2;
    for (unsigned r = 0; r < ranks; ++r) {
      sum += held(r, first + i);
      most = std::max(most, held(r, first + i));
    }
    wrong += !same(sums[i], to<T>(sum)) + !same(maxima[i], to<T>(most));
  }
  return wrong;
}

/// Values in an executor's memory, and those of an executor's memory.
template <class T, class E>
pith::buffer<T, E> put(E const& exec, std::vector<T> const& values) {
  auto memory = pith::buffer<T, E>(exec, values.size());
  exec.upload(memory.data(), values.data(), memory.size_bytes());
  exec.wait();  // the values may be gone before a stream reads them
  return memory;
}
template <class T, class E>
std::vector<T> fetched(E const& exec, pith::buffer<T, E> const& memory) {
  auto values = std::vector<T>(memory.size());
  exec.download(values.data(), memory.data(), memory.size_bytes());
  return values;
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

template <class E>
using bytes_on = pith::span_on<E, std::byte const>;

template <class T, class E, class Comm>
void reduces(E const& exec, Comm& comm, std::size_t n) {
  auto const x = mine<T>(comm.rank(), n);
  auto const sum = put(exec, x), most = put(exec, x);
  comm.all_reduce(exec, sum.view(), pith::reduction::sum).wait(exec);
  comm.all_reduce(exec, most.view(), pith::reduction::max).wait(exec);
  CHECK(wrong_totals(fetched(exec, sum), fetched(exec, most), comm.size(), 0) == 0);
}

template <class T, class E, class Comm>
void scatters_sums(E const& exec, Comm& comm, std::size_t n) {
  auto const sent = put(exec, mine<T>(comm.rank(), n * comm.size()));
  auto const x = pith::span_on<E, T const>(sent.view());
  auto const sum = put(exec, std::vector<T>(n)), most = put(exec, std::vector<T>(n));
  comm.reduce_scatter(exec, x, sum.view(), pith::reduction::sum).wait(exec);
  comm.reduce_scatter(exec, x, most.view(), pith::reduction::max).wait(exec);
  CHECK(wrong_totals(fetched(exec, sum), fetched(exec, most), comm.size(), comm.rank() * n) == 0);
}

template <class E, class Comm>
void gathers(E const& exec, Comm& comm, std::size_t n) {
  auto expected = std::vector<std::byte>();
  for (unsigned r = 0; r < comm.size(); ++r) append(expected, letter(r, 0, n));
  auto const sent = put(exec, letter(comm.rank(), 0, n)), all = put(exec, std::vector<std::byte>(expected.size()));
  comm.all_gather(exec, bytes_on<E>(sent.view()), all.view()).wait(exec);
  CHECK(fetched(exec, all) == expected);
}

template <class E, class Comm>
void exchanges_pieces(E const& exec, Comm& comm, std::size_t n) {
  auto sent = std::vector<std::byte>(), expected = sent;
  for (unsigned r = 0; r < comm.size(); ++r) {
    append(sent, letter(comm.rank(), r, n));
    append(expected, letter(r, comm.rank(), n));
  }
  auto const from = put(exec, sent), all = put(exec, std::vector<std::byte>(expected.size()));
  comm.all_to_all(exec, bytes_on<E>(from.view()), all.view()).wait(exec);
  CHECK(fetched(exec, all) == expected);
}

template <class E, class Comm>
void swaps(E const& exec, Comm& comm, std::size_t n, unsigned to, unsigned from) {
  auto const sent = put(exec, letter(comm.rank(), to, n)), got = put(exec, std::vector<std::byte>(n));
  comm.send_recv(exec, bytes_on<E>(sent.view()), to, got.view(), from).wait(exec);
  CHECK(fetched(exec, got) == letter(from, comm.rank(), n));
}

/// Rings of every stride, the rank itself among them; then pairs, where an odd one out is its own partner.
template <class E, class Comm>
void sends(E const& exec, Comm& comm, std::size_t n) {
  auto const ranks = comm.size(), rank = comm.rank();
  for (unsigned stride = 0; stride < ranks; ++stride)
    swaps(exec, comm, n, (rank + stride) % ranks, (rank + ranks - stride) % ranks);
  auto const partner = (rank ^ 1u) < ranks ? rank ^ 1u : rank;
  swaps(exec, comm, n, partner, partner);
}

template <class E, class Comm>
void broadcasts(E const& exec, Comm& comm, std::size_t n) {
  for (unsigned root = 0; root < comm.size(); ++root) {
    auto const x = put(exec, letter(comm.rank(), 0, n));
    comm.broadcast(exec, x.view(), root).wait(exec);
    CHECK(fetched(exec, x) == letter(root, 0, n));
  }
}

/// Several pending calls, completed by test() in turn in place of wait().
template <class E, class Comm>
void polls(E const& exec, Comm& comm, std::size_t n) {
  auto expected = std::vector<std::byte>();
  for (unsigned r = 0; r < comm.size(); ++r) append(expected, letter(r, 0, n));
  auto const sent = put(exec, letter(comm.rank(), 0, n)), all = put(exec, std::vector<std::byte>(expected.size()));
  auto const next = (comm.rank() + 1) % comm.size(), previous = (comm.rank() + comm.size() - 1) % comm.size();
  auto const got = put(exec, std::vector<std::byte>(n));
  auto const x = put(exec, mine<float>(comm.rank(), n)), most = put(exec, mine<float>(comm.rank(), n));
  auto gather = comm.all_gather(exec, bytes_on<E>(sent.view()), all.view());
  auto sum = comm.all_reduce(exec, x.view(), pith::reduction::sum);
  auto swap = [&] {
    if constexpr (pith::calls_of<Comm, E>.send_recv) {
      return comm.send_recv(exec, bytes_on<E>(sent.view()), next, got.view(), previous);
    } else {
      return pith::completed();
    }
  }();
  auto maximum = comm.all_reduce(exec, most.view(), pith::reduction::max);
  while (!(maximum.test(exec) && swap.test(exec) && sum.test(exec) && gather.test(exec))) std::this_thread::yield();
  CHECK(fetched(exec, all) == expected);
  if constexpr (pith::calls_of<Comm, E>.send_recv) CHECK(fetched(exec, got) == letter(previous, 0, n));
  CHECK(wrong_totals(fetched(exec, x), fetched(exec, most), comm.size(), 0) == 0);
}

template <class T, class E, class Comm>
void sums(E const& exec, Comm& comm, std::size_t n) {
  reduces<T>(exec, comm, n);
  if constexpr (pith::calls_of<Comm, E>.reduce_scatter) scatters_sums<T>(exec, comm, n);
}

template <class E, class Comm>
void transfers(E const& exec, Comm& comm, std::size_t n) {
  sums<float>(exec, comm, n);
  sums<double>(exec, comm, n);
  sums<pith::half>(exec, comm, n);
  sums<pith::bfloat16>(exec, comm, n);
  sums<std::int32_t>(exec, comm, n);
  sums<std::int8_t>(exec, comm, n);
  gathers(exec, comm, n);
  constexpr auto has = pith::calls_of<Comm, E>;
  if constexpr (has.all_to_all) exchanges_pieces(exec, comm, n);
  if constexpr (has.send_recv) sends(exec, comm, n);
  if constexpr (has.broadcast) broadcasts(exec, comm, n);
  polls(exec, comm, n);
}

/// Even and odd ranks, which then work apart; all of them, in their order; and parts of parts.
template <class E, class Comm>
void splits(E const& exec, Comm& comm) {
  auto halves = comm.split(comm.rank() % 2);
  CHECK(halves.rank() == comm.rank() / 2);
  CHECK(halves.size() == (comm.size() + 1 - comm.rank() % 2) / 2);
  if (comm.rank() % 2 == 0) transfers(exec, halves, 3);
  transfers(exec, halves, 5);
  auto all = comm.split(7);
  CHECK(all.rank() == comm.rank());
  CHECK(all.size() == comm.size());
  auto alone = all.split(all.rank());
  CHECK(alone.size() == 1);
  transfers(exec, alone, 5);
  transfers(exec, all, 5);
}

/// All calls that the communicator has, at sizes from nothing to more than a page, some not divided by the ranks.
template <class E, class Comm>
void check(E const& exec, Comm& comm) {
  static_assert(pith::communicator<Comm, E>);
  for (std::size_t n : {0u, 1u, 3u, 64u, 1001u, 4099u}) transfers(exec, comm, n);
  if constexpr (pith::calls_of<Comm, E>.split) splits(exec, comm);
}

}  // namespace conformance
