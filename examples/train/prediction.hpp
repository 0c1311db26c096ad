// examples/train/prediction.hpp — the predicted time of a step on a network of a given rate.
#pragma once

#include "statistics.hpp"
#include "worker.hpp"

#include <range/v3/range/conversion.hpp>
#include <range/v3/view/transform.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace train {

/// One rank of a group whose other ranks have the same data. It moves and adds as many bytes as in a real group, on one
/// thread.
class echo_communicator {
 public:
  explicit echo_communicator(unsigned size) : size_(size) {}

  unsigned rank() const { return 0; }
  unsigned size() const { return size_; }

  template <pith::executor E>
  pith::completed all_gather(E const& exec, pith::span_on<E, std::byte const> mine, pith::span_on<E, std::byte> all) {
    for (unsigned rank = 0; rank < size_; ++rank) exec.copy(all.data() + rank * mine.size(), mine.data(), mine.size());
    return {};
  }

  template <pith::executor E>
  pith::completed all_to_all(E const& exec, pith::span_on<E, std::byte const> mine, pith::span_on<E, std::byte> all) {
    auto const piece = mine.size() / size_;
    for (unsigned rank = 0; rank < size_; ++rank) exec.copy(all.data() + rank * piece, mine.data(), piece);
    return {};
  }

  template <pith::executor E>
  pith::completed send_recv(E const& exec, pith::span_on<E, std::byte const> mine, unsigned,
                            pith::span_on<E, std::byte> theirs, unsigned) {
    exec.copy(theirs.data(), mine.data(), theirs.size());
    return {};
  }

  template <pith::executor E>
  pith::completed broadcast(E const&, pith::span_on<E, std::byte>, unsigned) {
    return {};
  }

  template <pith::executor E, class T>
  pith::completed all_reduce(E const&, pith::span<T> x, pith::reduction how) {
    if (how == pith::reduction::max) return {};
    for (auto& value : x) value = pith::element_cast<T>(pith::element_cast<double>(value) * size_);
    return {};
  }

 private:
  unsigned size_;
};

/// A step of one codec: its times, measured alone on one thread, and its bytes.
struct prediction {
  unsigned ranks;
  pith::traffic bytes;
  phases alone;

  double sent() const { return bytes.sent(ranks); }

  /// Seconds: nothing overlaps, and each of the ring's 2 (ranks - 1) messages takes 20 us to arrive.
  double step(double gigabits) const {
    auto const latency = 2 * (ranks - 1) * 20e-6;
    return alone.compute + alone.encode + alone.decode + sent() * 8 / (gigabits * 1e9) + latency;
  }

  /// Steps per second over those of another codec.
  double throughput_over(prediction const& other, double gigabits) const {
    return other.step(gigabits) / step(gigabits);
  }
};

/// The median of n steps, after n / 10 steps of warm-up, at least one.
template <class F>
phases median_of(std::size_t n, F const& step) {
  for (std::size_t i = 0; i < (n + 9) / 10; ++i) step();
  std::vector<phases> steps;
  for (std::size_t i = 0; i < n; ++i) steps.push_back(step());
  auto const of = [&](double phases::*phase) {
    return median(steps | ranges::views::transform(phase) | ranges::to<std::vector>());
  };
  return {of(&phases::compute), of(&phases::encode), of(&phases::exchange), of(&phases::decode)};
}

inline prediction predict(task const& job, std::string const& codec) {
  worker<echo_communicator> rank(job, codec, 1, echo_communicator(job.ranks));
  auto const alone = median_of(101, [&] { return rank.step(); });
  return {job.ranks, rank.bytes(), alone};
}

}  // namespace train
