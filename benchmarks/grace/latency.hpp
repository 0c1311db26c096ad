// benchmarks/grace/latency.hpp — times of compressing and decompressing, in copies of the tensor (GRACE, figure 8).
#pragma once

#include "../catalogue.hpp"
#include "methods.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace grace {

struct latency_options {
  std::vector<std::string> methods;
  std::vector<unsigned> sizes{14, 16, 18, 20, 22, 24};
  std::size_t rounds = 11;
};

/// Two if one tensor evicts another from the cache, else the usual number.
inline std::size_t latency_sets(std::size_t bytes) {
  return bytes > 2 * bench::last_level_cache() ? 2 : bench::sets_for(bytes);
}

/// Times over that of memcpy of the same tensor in the same rounds: medians.
struct latency {
  double compress, decompress;
};

/// Normal values in `sets` tensors of 2^log2n, and as many to decompress into.
class latency_bench {
 public:
  explicit latency_bench(unsigned log2n)
      : dims_(bench::matrix_of(log2n)),
        bytes_(dims_.n * sizeof(float)),
        sets_(latency_sets(bytes_)),
        x_(pith::seq, dims_.n, sets_),
        y_(pith::seq, dims_.n, sets_) {
    auto const values = bench::normal_values<float>(dims_.n);
    for (std::size_t set = 0; set < sets_; ++set) std::memcpy(x_[set].data(), values.data(), bytes_);
  }

  latency measure(std::string const& codec, std::size_t rounds) const {
    auto s = bench::subject<float, pith::seq_executor>(pith::seq, codec, dims_, sets_);
    for (std::size_t set = 0; set < sets_; ++set) s.encode(set, x_[set]);
    auto const times = bench::interleave({{[&](std::size_t set) { s.encode(set, x_[set]); }},
                                          {[&](std::size_t set) { s.decode(set, y_[set]); }},
                                          {[&](std::size_t set) { copy(set); }}},
                                         sets_, rounds);
    return {times[0].median / times[2].median, times[1].median / times[2].median};
  }

 private:
  void copy(std::size_t set) const { std::memcpy(y_[set].data(), x_[set].data(), bytes_); }

  pith::shape dims_;
  std::size_t bytes_, sets_;
  bench::rotated<float, pith::seq_executor> x_, y_;
};

/// A name without commas, because gnuplot splits even quoted texts at commas.
inline std::string label(std::string name) {
  std::replace(name.begin(), name.end(), ',', ':');
  return name;
}

/// One row per size and method of the catalogue.
inline void write_latency(std::FILE* out, latency_options const& o) {
  fmt::print(out, "method,family,codec,log2n,compress,decompress\n");
  for (auto const log2n : o.sizes) {
    auto const bench = latency_bench(log2n);
    for (auto const& m : bench::catalogue) {
      if (!is_wanted(o.methods, m.name)) continue;
      auto const times = bench.measure(m.codec, o.rounds);
      fmt::print(out, "{},{},\"{}\",{},{:.4g},{:.4g}\n", label(m.name), m.family, m.codec, log2n, times.compress,
                 times.decompress);
      std::fflush(out);
    }
  }
}

}  // namespace grace
