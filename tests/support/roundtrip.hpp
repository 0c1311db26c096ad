// tests/support/roundtrip.hpp — a codec with its buffers and state, for one tensor on one rank.
#pragma once

#include <pith/codec/compress.hpp>
#include <pith/comm/self.hpp>
#include <pith/exchange/all_reduce_mean.hpp>
#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include "support/vectors.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace support {

/// Compresses and decompresses with exactly the required memory, so that a sanitizer reports any access beyond it.
template <class In, class C>
class trial {
 public:
  explicit trial(C codec, pith::shape dims, pith::tensor_id owner = {0x5eed, 1, 0})
      : codec_(std::move(codec)),
        state_(pith::make_state<In>(pith::seq, codec_, dims, owner)),
        memory_(pith::workspace_bytes<In>(pith::seq, codec_, dims)) {}

  /// The payload of the next step. It is written over `garbage`.
  std::vector<std::byte> compress(std::vector<In> const& x, std::byte garbage = std::byte{0xa5}) {
    auto payload = std::vector<std::byte>(payload_bytes(), garbage);
    with_workspace([&](auto& ws) {
      pith::compress(pith::seq, codec_, pith::span<In const>(x), pith::span<std::byte>(payload), state_, ws);
    });
    return payload;
  }
  std::vector<In> decompress(std::vector<std::byte> const& payload) {
    auto x = std::vector<In>(state_.dims().n);
    with_workspace([&](auto& ws) {
      pith::decompress(pith::seq, codec_, pith::span<std::byte const>(payload), pith::span<In>(x), state_, ws);
    });
    return x;
  }
  std::vector<In> roundtrip(std::vector<In> const& x) { return decompress(compress(x)); }

  /// compress without the next step: the same random numbers again.
  std::vector<std::byte> compress_again(std::vector<In> const& x) {
    auto payload = std::vector<std::byte>(payload_bytes());
    auto const& dims = state_.dims();
    with_workspace([&](auto& ws) {
      pith::detail::encode_payload<In>(codec_, state_.context_on(pith::seq, ws),
                                       pith::value_view<In const>{x.data(), dims.n}, pith::span<std::byte>(payload),
                                       state_.replicated(), state_.local());
    });
    return payload;
  }
  std::vector<In> roundtrip_again(std::vector<In> const& x) { return decompress(compress_again(x)); }

  /// The mean over `comm`, by default of this rank alone.
  template <class Comm = pith::self_communicator>
  std::vector<In> all_reduce(std::vector<In> x, Comm comm = {}) {
    memory_.resize(pith::workspace_bytes<In>(pith::seq, codec_, state_.dims(), comm.size()));
    auto comms = pith::make_sub_communicators<In>(comm, codec_, state_.dims());
    with_workspace([&](auto& ws) { pith::all_reduce_mean(pith::seq, comms, codec_, pith::span<In>(x), state_, ws); });
    return x;
  }

  std::size_t payload_bytes() const { return pith::payload_bytes<In>(codec_, state_.dims()); }
  C const& codec() const { return codec_; }
  auto& state() { return state_; }

 private:
  template <class F>
  void with_workspace(F use) {
    auto ws = pith::workspace<>(pith::span<std::byte>(memory_));
    use(ws);
    REQUIRE(ws.high_water() <= memory_.size());
  }

  C codec_;
  pith::codec_state<In, C, pith::seq_executor> state_;
  std::vector<std::byte> memory_;
};

/// D(C(x)) in the first step, in double.
template <class In = float, class C>
std::vector<double> decoded(C const& codec, pith::shape dims, std::vector<double> const& x) {
  return widen(trial<In, C>(codec, dims).roundtrip(narrow<In>(x)));
}
template <class In = float, class C>
std::vector<double> decoded(C const& codec, std::vector<double> const& x) {
  return decoded<In>(codec, pith::shape{x.size()}, x);
}

/// The mean of `Ranks` ranks that all have the data of this one.
template <unsigned Ranks>
struct echo_communicator {
  unsigned rank() const { return 0; }
  unsigned size() const { return Ranks; }

  template <pith::executor E>
  pith::completed all_gather(E const& exec, pith::span<std::byte const> mine, pith::span<std::byte> all) {
    for (unsigned r = 0; r < Ranks; ++r) {
      auto const* const theirs = is_mean ? parts.data() + r * mine.size() : mine.data();
      exec.copy(all.data() + r * mine.size(), theirs, mine.size());
    }
    is_mean = false;
    return {};
  }
  /// The first transfer of a mean: the second brings the parts of the other ranks, whose means are their values.
  template <pith::executor E>
  pith::completed all_to_all(E const& exec, pith::span<std::byte const> mine, pith::span<std::byte> all) {
    parts.assign(mine.begin(), mine.end());
    is_mean = true;
    auto const piece = mine.size() / Ranks;
    for (unsigned r = 0; r < Ranks; ++r) exec.copy(all.data() + r * piece, mine.data(), piece);
    return {};
  }
  template <pith::executor E, class T>
  pith::completed all_reduce(E const&, pith::span<T> x, pith::reduction how) {
    if (how == pith::reduction::max) return {};
    for (auto& v : x) {
      if constexpr (std::is_integral_v<T>) {
        v *= static_cast<T>(Ranks);
      } else {
        v = pith::element_cast<T>(pith::element_cast<double>(v) * Ranks);
      }
    }
    return {};
  }
  template <pith::executor E>
  pith::completed broadcast(E const&, pith::span<std::byte>, unsigned) {
    return {};
  }

  std::vector<std::byte> parts = {};
  bool is_mean = false;
};

}  // namespace support
