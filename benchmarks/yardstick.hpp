// benchmarks/yardstick.hpp — the speed of memory, measured in the same rounds as the codecs.
#pragma once

#include <pith/core/buffer.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace bench {

inline constexpr std::size_t huge_page = std::size_t{1} << 21;

/// The size of the last-level cache according to Linux; a large default if it is unknown.
inline std::size_t last_level_cache() {
  std::size_t kib = 0;
  std::ifstream("/sys/devices/system/cpu/cpu0/cache/index3/size") >> kib;
  return (kib > 0 ? kib : 65'536) << 10;
}

/// The number of buffers of `bytes` with which each has left the cache before its next use.
inline std::size_t sets_for(std::size_t bytes) { return std::max<std::size_t>(8, 2 * last_level_cache() / bytes + 1); }

/// `sets` equal blocks of `n` elements in one allocation, those of at least 2 MiB aligned to it.
template <class T, pith::executor E>
class rotated {
 public:
  rotated(E const& exec, std::size_t n, std::size_t sets)
      : n_(n),
        stride_(pith::detail::align_up(n * sizeof(T), n * sizeof(T) < huge_page ? 128 : huge_page) / sizeof(T)),
        all_(exec, stride_ * sets) {}

  pith::span_on<E, T> operator[](std::size_t set) const { return all_.view().subspan(set * stride_, n_); }

 private:
  std::size_t n_, stride_;
  pith::buffer<T, E> all_;
};

/// The quantile q of the times; the upper one of two candidates.
inline double quantile(std::vector<double> times, double q) {
  auto const at = static_cast<std::ptrdiff_t>(q * static_cast<double>(times.size()));
  std::nth_element(times.begin(), times.begin() + at, times.end());
  return times[static_cast<std::size_t>(at)];
}

/// Seconds.
struct timing {
  double median, q10;
};

/// A timed call on one set of buffers, and an untimed call before it.
struct thing {
  std::function<void(std::size_t set)> run;
  std::function<void(std::size_t set)> prepare = [](std::size_t) {};

  double seconds(std::size_t set) const {
    prepare(set);
    auto const begin = std::chrono::steady_clock::now();
    run(set);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
};

/// The times seconds(i, call) of n things in the same rounds. A round runs each once, in a new random order, so that
/// the state of the caches affects all alike; `call` increases. The first round is a warm-up.
template <class Seconds>
std::vector<timing> interleave(std::size_t n, std::size_t rounds, Seconds const& seconds) {
  auto times = std::vector<std::vector<double>>(n);
  auto order = std::vector<std::size_t>(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  auto random = std::mt19937(1);
  std::size_t call = 0;
  for (std::size_t round = 0; round <= rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (auto const i : order) {
      auto const time = seconds(i, call++);
      if (round > 0) times[i].push_back(time);
    }
  }
  auto result = std::vector<timing>();
  for (auto const& t : times) result.push_back({quantile(t, 0.5), quantile(t, 0.1)});
  return result;
}

/// Times all things like this; each call takes the next set of buffers.
inline std::vector<timing> interleave(std::vector<thing> const& things, std::size_t sets, std::size_t rounds) {
  return interleave(things.size(), rounds,
                    [&](std::size_t i, std::size_t call) { return things[i].seconds(call % sets); });
}

inline constexpr std::size_t piece_words = 1024;

/// Reads a piece: sixteen independent sums, which any compiler keeps in vector registers. One block per piece, so that
/// threads share the pieces.
struct read_piece {
  using memory = pith::detail::idle_block::memory;

  std::uint64_t const* from;
  std::uint64_t* sums;

  template <pith::team Team>
  void operator()(Team const&, memory&, std::uint64_t piece) const {
    auto const* const words = from + piece * piece_words;
    std::uint64_t lane[16] = {};
    for (std::size_t i = 0; i < piece_words; i += 16) {
      for (std::size_t j = 0; j < 16; ++j) lane[j] += words[i + j];
    }
    sums[piece] = std::accumulate(std::begin(lane), std::end(lane), std::uint64_t{0});
  }
};

/// Writes a piece. The bytes of `value` differ, so that the loop does not become a call of memset.
struct write_piece {
  using memory = pith::detail::idle_block::memory;

  std::uint64_t* to;
  std::uint64_t value;

  template <pith::team Team>
  void operator()(Team const&, memory&, std::uint64_t piece) const {
    for (std::size_t i = 0; i < piece_words; ++i) to[piece * piece_words + i] = value;
  }
};

/// The minimal traffic of an operation.
struct traffic {
  double read, written;
  double total() const { return read + written; }
};

/// Reads, writes and copies blocks of `bytes`, a multiple of 8 KiB, on executor E.
template <pith::executor E>
class yardstick {
 public:
  yardstick(E const& exec, std::size_t bytes, std::size_t sets)
      : exec_(exec),
        bytes_(bytes),
        pieces_(bytes / sizeof(std::uint64_t) / piece_words),
        blocks_(exec, pieces_ * piece_words, sets),
        copies_(exec, pieces_ * piece_words, sets),
        sums_(exec, pieces_) {}

  static constexpr std::uint64_t word(std::size_t set) { return 0x0123'4567'89ab'cdef + set; }

  void read(std::size_t set) const { run(read_piece{blocks_[set].data(), sums_.data()}); }
  void write(std::size_t set) const { run(write_piece{blocks_[set].data(), word(set)}); }
  void copy(std::size_t set) const {
    exec_.copy(copies_[set].data(), blocks_[set].data(), bytes_);
    exec_.wait();
  }

  /// The result of the last read, for a test.
  std::uint64_t sum() const { return std::accumulate(sums_.data(), sums_.data() + pieces_, std::uint64_t{0}); }

 private:
  void run(auto const& piece) const {
    exec_.for_each_block(pieces_, piece);
    exec_.wait();
  }

  E exec_;
  std::size_t bytes_, pieces_;
  rotated<std::uint64_t, E> blocks_, copies_;
  pith::buffer<std::uint64_t, E> sums_;
};

/// The speed of memory for blocks of `bytes`.
struct rates {
  double bytes;
  timing copy, read, write;

  /// The least seconds of any operation with this traffic.
  double bound(traffic const& least) const { return (least.read * read.median + least.written * write.median) / bytes; }
  /// The minimal traffic per second of an operation, over that of memcpy.
  double of_memcpy(traffic const& least, double seconds) const {
    return least.total() / seconds / (2 * bytes / copy.median);
  }
  /// The bytes that memcpy copies in a time.
  double copied(double seconds) const { return bytes * seconds / copy.median; }
};

/// Times all things and the yardstick in the same rounds. Returns the times of things, then the rates.
template <pith::executor E>
std::pair<std::vector<timing>, rates> measure(std::vector<thing> things, yardstick<E> const& memory, std::size_t bytes,
                                              std::size_t sets, std::size_t rounds) {
  things.push_back({[&](std::size_t set) { memory.copy(set); }});
  things.push_back({[&](std::size_t set) { memory.read(set); }});
  things.push_back({[&](std::size_t set) { memory.write(set); }});
  auto times = interleave(things, sets, rounds);
  auto const last = times.end();
  auto const memory_rates = rates{static_cast<double>(bytes), last[-3], last[-2], last[-1]};
  times.resize(times.size() - 3);
  return {times, memory_rates};
}

}  // namespace bench
