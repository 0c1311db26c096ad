// tests/laws/laws.hpp — holds a codec to what it claims: on samples, and on the worst input that a search finds.
#pragma once

#include <pith/codec/compress.hpp>
#include <pith/exec/seq.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/vectors.hpp"

namespace laws {

using vector = std::vector<double>;

struct options {
  unsigned draws = 100000;  ///< elements that an expectation is averaged over, at least 50 (1 + omega) steps
  unsigned search = 300;    ///< inputs that a search tries; 0 for none
  double bias = 0;          ///< |E D(C(x)) - x| <= bias |x|, where unbiased is meant up to that
  double scale = 1;         ///< what all samples are multiplied by; without a search
  std::uint64_t seed = 1;
};

struct report {
  std::vector<std::string> failures;
  double contraction = 0;  ///< the largest E|D(C(x)) - x|^2 / ((1 - delta) |x|^2) that was seen: 1 if delta is tight
  double variance = 0;     ///< the largest E|D(C(x)) - x|^2 / (omega |x|^2): 1 if omega is tight

  bool holds() const { return failures.empty(); }
  std::string text() const {
    auto all = std::string();
    for (auto const& f : failures) all += f + "\n";
    return all;
  }
};

struct sample {
  std::string name;
  vector x;
};

/// Normal, Laplace, heavy-tailed, sparse, constant, of equal magnitudes, one spike.
inline std::vector<sample> samples(std::size_t n, std::uint64_t seed, double scale = 1) {
  auto random = std::mt19937_64(seed);
  auto const filled = [&](auto draw) {
    auto x = vector(n);
    for (auto& v : x) v = draw();
    return x;
  };
  auto const normal = [&] { return support::normal(random); };
  auto const uniform = [&] { return support::uniform(random); };
  auto spike = vector(n);
  spike[n / 2] = -3;
  auto all = std::vector<sample>{{"normal", filled(normal)},
                                 {"laplace", filled([&] { return (uniform() < 0.5 ? 1 : -1) * std::log(uniform()); })},
                                 {"heavy", filled([&] { return std::pow(normal(), 3); })},
                                 {"sparse", filled([&] { return uniform() < 0.1 ? normal() : 0; })},
                                 {"constant", vector(n, 0.7)},
                                 {"equal magnitudes", filled([&] { return uniform() < 0.5 ? 1.5 : -1.5; })},
                                 {"one spike", spike}};
  for (auto& s : all) {
    for (auto& v : s.x) v *= scale;
  }
  return all;
}

namespace detail {

/// One codec, one tensor, one rank; a step is taken or repeated as one likes.
template <class C>
class subject {
 public:
  using value = pith::output_of<C, float>;

  subject(C const& codec, pith::shape dims, std::uint64_t seed, std::uint16_t rank = 0)
      : codec_(codec),
        state_(pith::make_state<float>(pith::seq, codec, dims, {seed, 3, rank})),
        memory_(pith::workspace_bytes<float>(pith::seq, codec, dims)),
        payload_(pith::payload_bytes<float>(codec, dims)) {}

  void step() { state_.advance(pith::seq); }

  std::vector<std::byte> encode(vector const& x, std::byte garbage = std::byte{0}) {
    auto const input = support::narrow<float>(x);
    std::fill(payload_.begin(), payload_.end(), garbage);
    auto ws = pith::workspace<>(pith::span<std::byte>(memory_));
    pith::detail::encode_payload<float>(codec_, state_.context_on(pith::seq, ws),
                                        pith::value_view<float const>{input.data(), input.size()},
                                        pith::span<std::byte>(payload_), state_.replicated(), state_.local());
    return payload_;
  }
  vector decode(std::vector<std::byte> const& payload) {
    auto x = std::vector<float>(state_.dims().n);
    auto ws = pith::workspace<>(pith::span<std::byte>(memory_));
    pith::detail::decode_payload<float>(codec_, state_.context_on(pith::seq, ws), pith::span<std::byte const>(payload),
                                        pith::value_view<float>{x.data(), x.size()}, state_.replicated());
    return support::widen(x);
  }
  vector roundtrip(vector const& x) { return decode(encode(x)); }

  pith::shape dims() const { return state_.dims(); }

  std::size_t values() const {
    auto const n = codec_.output_shape(state_.dims()).n;
    return static_cast<std::size_t>(pith::storage<value>::words(n));
  }

 private:
  C codec_;
  pith::codec_state<float, C, pith::seq_executor> state_;
  std::vector<std::byte> memory_;
  std::vector<std::byte> payload_;
};

/// A mean over draws, and the standard error of it.
class estimate {
 public:
  void add(double v) {
    ++count_;
    auto const off = v - mean_;
    mean_ += off / count_;
    squares_ += off * (v - mean_);
  }
  double mean() const { return mean_; }
  double error() const { return count_ < 2 ? 0 : std::sqrt(squares_ / (count_ - 1) / count_); }

 private:
  double count_ = 0, mean_ = 0, squares_ = 0;
};

/// How far single precision may be off where a law speaks of real numbers: relative to |x|^2.
inline constexpr double rounding = 0x1p-20;

/// Unit vectors along which a bias shows: x, all ones, signs of x, some elements.
inline std::vector<vector> probes(vector const& x) {
  auto const n = x.size();
  auto all = std::vector<vector>{x, vector(n, 1), vector(n)};
  for (std::size_t i = 0; i < n; ++i) all[2][i] = x[i] < 0 ? -1 : 1;
  for (std::size_t const at : {std::size_t{0}, n / 3, n - 1}) {
    all.emplace_back(n);
    all.back()[at] = 1;
  }
  for (auto& u : all) {
    auto const length = std::sqrt(support::square(u));
    for (auto& v : u) v /= length;
  }
  return all;
}

/// Changes some of x, at random.
inline void mutate(vector& x, std::mt19937_64& random) {
  auto const at = random() % x.size(), from = random() % x.size();
  switch (random() % 6) {
    case 0: x[at] = 0; break;
    case 1: x[at] = support::normal(random); break;
    case 2: x[at] = std::copysign(x[from], x[at]); break;
    case 3: x[at] *= 0.5 + support::uniform(random); break;
    case 4: std::fill(x.begin(), x.end(), x[from]); break;
    default:
      for (auto& v : x) v *= &v == &x[at] ? 1 : 0.5 + 0.5 * support::uniform(random);
  }
}

template <class C>
class inspection {
 public:
  inspection(C const& codec, pith::shape dims, options how) : codec_(codec), dims_(dims), how_(how) {}

  report run() {
    for (auto const& s : samples(dims_.n, how_.seed, how_.scale)) on_sample(s);
    if constexpr (pith::promises_of<C>.contractive || pith::promises_of<C>.unbiased) search();
    if constexpr (pith::traits_of<C>.is_summable()) sums();
    if constexpr (pith::traits_of<C>.isometric || pith::traits_of<C>.rotation) keeps_distances();
    return report_;
  }

 private:
  template <class... Parts>
  void expect(bool holds, Parts const&... parts) {
    if (!holds) report_.failures.push_back(pith::detail::text(codec_.name(), " at n = ", dims_.n, ": ", parts...));
  }

  void on_sample(sample const& s) {
    deterministic(s);
    if constexpr (pith::promises_of<C>.contractive || pith::promises_of<C>.unbiased) judge(s.name, s.x);
    if constexpr (pith::promises_of<C>.absolute) bounded(s);
    if constexpr (pith::traits_of<C>.projection) projects(s);
  }

  void deterministic(sample const& s) {
    auto a = fresh(), b = fresh();
    for (int step = 0; step < 2; ++step) {
      a.step(), b.step();
      expect(a.encode(s.x, std::byte{0x00}) == b.encode(s.x, std::byte{0xff}), "equal calls gave other bytes on ",
             s.name);
    }
  }

  unsigned steps() const {
    auto const fair = std::max<double>(how_.draws / static_cast<double>(dims_.n), 50);
    return static_cast<unsigned>(std::min(how_.draws / 25.0, std::max(fair, 50 * (1 + claimed_omega()))));
  }
  double claimed_omega() const {
    if constexpr (pith::promises_of<C>.unbiased) {
      return codec_.omega(dims_);
    } else if constexpr (pith::promises_of<C>.contractive) {
      return 1 / std::max(codec_.delta(dims_), 0.02) - 1;  // as rare as damping such a codec makes it
    } else {
      return 0;
    }
  }

  /// Averages over steps: the squared error against delta and omega, and, for unbiased codecs, the mean itself.
  void judge(std::string const& name, vector const& x) {
    auto const size = support::square(x);
    if (size == 0) return;
    auto s = fresh();
    auto error = estimate();
    auto const directions = probes(x);
    auto off = std::vector<estimate>(directions.size());
    for (unsigned step = 0; step < steps(); ++step) {
      s.step();
      auto const miss = support::minus(s.roundtrip(x), support::widen(support::narrow<float>(x)));
      error.add(support::square(miss) / size);
      if constexpr (pith::promises_of<C>.unbiased) {
        for (std::size_t i = 0; i < off.size(); ++i) off[i].add(support::dot(miss, directions[i]));
        for (auto const v : miss) largest_miss_ = std::max(largest_miss_, std::abs(v) / std::sqrt(size));
      }
    }
    against_claims(name, error);
    if constexpr (pith::promises_of<C>.unbiased) {
      // In these steps, an element may not have made a rare jump, which other samples show. It makes the jump less than ten
      // times in as many steps.
      for (auto const& o : off) {
        auto const most = 5 * o.error() + (10 * largest_miss_ / steps() + how_.bias + rounding) * std::sqrt(size);
        expect(std::abs(o.mean()) <= most, "biased on ", name, ": the mean is off by ", o.mean() / std::sqrt(size),
               " |x|, at most ", most / std::sqrt(size), " is chance");
      }
    }
  }

  void against_claims(std::string const& name, estimate const& error) {
    auto const slack = 5 * error.error() + rounding;
    if constexpr (pith::promises_of<C>.contractive) {
      auto const left = 1 - codec_.delta(dims_);
      expect(error.mean() <= left + slack, "delta does not hold on ", name, ": error ", error.mean(),
             " > 1 - delta = ", left, " + ", slack);
      if (left > 0) report_.contraction = std::max(report_.contraction, error.mean() / left);
    }
    if constexpr (pith::promises_of<C>.unbiased) {
      auto const omega = codec_.omega(dims_);
      expect(error.mean() <= omega + slack, "omega does not hold on ", name, ": error ", error.mean(),
             " > omega = ", omega, " + ", slack);
      if (omega > 0) report_.variance = std::max(report_.variance, error.mean() / omega);
    }
  }

  /// A hill climb over x on the relative error, from the worst sample; what it finds is judged with draws of its own.
  void search() {
    if (how_.search == 0) return;
    auto random = std::mt19937_64(how_.seed + 17);
    auto climber = subject<C>(codec_, dims_, how_.seed + 23);
    auto best = vector();
    double height = -1;
    for (auto const& s : samples(dims_.n, how_.seed)) {
      auto const h = relative_error(climber, s.x);
      if (h > height) best = s.x, height = h;
    }
    for (unsigned i = 0; i < how_.search; ++i) {
      auto x = best;
      for (auto moves = 1 + random() % 3; moves > 0; --moves) mutate(x, random);
      auto const h = relative_error(climber, x);
      if (h > height) best = x, height = h;
      if (i % 16 == 15) height = relative_error(climber, best);  // not what was lucky once
    }
    judge("the worst input found", best);
  }

  double relative_error(subject<C>& s, vector const& x) const {
    auto const size = support::square(x);
    if (!(size > 1e-6 && size < 1e12)) return -1;
    double sum = 0;
    for (int draw = 0; draw < 16; ++draw) {
      s.step();
      sum += support::square(support::minus(s.roundtrip(x), x)) / size;
    }
    return sum / 16;
  }

  void bounded(sample const& s) {
    auto t = fresh();
    t.step();
    auto const miss = support::minus(t.roundtrip(s.x), support::widen(support::narrow<float>(s.x)));
    for (auto const v : miss) {
      if (!(std::abs(v) <= codec_.error_bound(dims_))) {
        return expect(false, "error_bound does not hold on ", s.name, ": ", std::abs(v), " > ",
                      codec_.error_bound(dims_));
      }
    }
  }

  /// Pythagoras, and that a projection projects what it projected onto itself.
  void projects(sample const& s) {
    auto t = fresh();
    t.step();
    auto const x = support::widen(support::narrow<float>(s.x));
    auto const y = t.roundtrip(x);
    auto const off = support::square(x) - support::square(y) - support::square(support::minus(x, y));
    expect(std::abs(off) <= rounding * support::square(x), "no orthogonal projection of ", s.name,
           ": Pythagoras is off by ", off / support::square(x), " |x|^2");
    auto const again = support::square(support::minus(t.roundtrip(y), y));
    expect(again <= rounding * rounding * support::square(y), "not idempotent on ", s.name);
  }

  /// For any values y, z with the same side information: |D(y) - D(z)| = |y - z|, or at most that of a rotation.
  void keeps_distances() {
    using value = typename subject<C>::value;
    if constexpr (std::is_same_v<value, float>) {
      auto t = fresh();
      t.step();
      auto payload = t.encode(samples(dims_.n, how_.seed, how_.scale)[0].x);
      auto const y = support::normal_vector(t.values(), how_.seed + 1),
                 z = support::normal_vector(t.values(), how_.seed + 2);
      auto const decoded = [&](vector const& values) {
        auto const narrow = support::narrow<float>(values);
        std::memcpy(payload.data(), narrow.data(), narrow.size() * sizeof(float));
        return t.decode(payload);
      };
      auto const apart = support::square(support::minus(y, z));
      auto const off = support::square(support::minus(decoded(y), decoded(z))) - apart;
      auto const least = pith::traits_of<C>.isometric ? -rounding * apart : -apart;
      expect(least <= off && off <= rounding * apart, pith::traits_of<C>.isometric ? "not isometric" : "no rotation",
             ": |D(y) - D(z)|^2 is off by ", off / apart);
    }
  }

  /// Four ranks with different inputs: the decoded sum is the mean of the decoded payloads, in the claimed form.
  void sums() {
    using value = typename subject<C>::value;
    constexpr int ranks = 4;
    auto const form = pith::traits_of<C>.sums;
    auto const share = form == pith::sum_form::decode ? 1.0 / ranks : 1.0;
    auto summed = std::vector<value>();
    auto expected = vector(dims_.n), mean = expected, size = expected;
    auto side = std::vector<std::byte>();
    for (std::uint16_t rank = 0; rank < ranks; ++rank) {
      auto t = subject<C>(codec_, dims_, how_.seed, rank);
      t.step();
      auto const x = support::widen(support::narrow<float>(samples(dims_.n, how_.seed + rank, how_.scale)[rank].x));
      auto shared = x;
      for (auto& v : shared) v *= share;
      auto const payload = t.encode(shared);
      auto values = std::vector<value>(t.values());
      std::memcpy(values.data(), payload.data(), values.size() * sizeof(value));
      auto const rest = std::vector<std::byte>(
          payload.begin() + static_cast<std::ptrdiff_t>(values.size() * sizeof(value)), payload.end());
      if (rank == 0) summed.resize(values.size(), pith::element_cast<value>(0.0)), side = rest;
      expect(rest == side, "side information differ between ranks, so payloads cannot be summed");
      for (std::size_t i = 0; i < values.size(); ++i) {
        summed[i] =
            pith::element_cast<value>(pith::element_cast<double>(summed[i]) + pith::element_cast<double>(values[i]));
      }
      auto const alone = t.roundtrip(x);
      for (std::size_t i = 0; i < x.size(); ++i) {
        mean[i] += x[i] / ranks;
        expected[i] += alone[i] / ranks;
        size[i] += std::abs(x[i]);
      }
    }
    auto t = fresh();
    t.step();
    if (form == pith::sum_form::encode) expected = t.roundtrip(mean);
    auto payload = t.encode(mean);
    std::memcpy(payload.data(), summed.data(), summed.size() * sizeof(value));
    auto sum = t.decode(payload);
    if (form == pith::sum_form::encode) {
      for (auto& v : sum) v /= ranks;
    }
    auto const norm = std::sqrt(support::square(size));
    for (std::size_t i = 0; i < sum.size(); ++i) {
      // Each term is rounded once when it is encoded, alone and as a share, and once when it is added; halves below
      // 2^-14 are off by 2^-25.
      // A rotation is 8 rounds of additions, twice. Each round rounds a vector of no larger norm.
      auto const turned = pith::traits_of<C>.rotation ? 16 * support::roundoff<value>() * norm : 0;
      auto const most = (ranks + 3) * (support::roundoff<value>() * size[i] + 0x1p-25) + turned;
      if (!(std::abs(sum[i] - expected[i]) <= most)) {
        return expect(false, "sums do not hold: element ", i, " is off by ", sum[i] - expected[i], ", at most ", most);
      }
    }
  }

  subject<C> fresh() const { return subject<C>(codec_, dims_, how_.seed); }

  C codec_;
  pith::shape dims_;
  options how_;
  report report_;
  double largest_miss_ = 0;  ///< the largest error of an element, divided by |x|
};

}  // namespace detail

/// Looks at what `codec` claims for a tensor of shape `dims`, and checks each claim. Averages are over the codec's own
/// steps, and five standard errors of them are allowed.
template <class C>
report check(C const& codec, pith::shape dims, options how = {}) {
  return detail::inspection<C>(codec, dims, how).run();
}

}  // namespace laws
