// tests/wire/scalar_decoder.hpp — a naive decoder of frames, written from docs/wire_format.md; shares nothing with pith.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/normal_quantizer.hpp"
#include "wire/scalar_numbers.hpp"

namespace scalar {

/// The parts of a text between marks that stand in no parentheses.
inline std::vector<std::string> split(std::string const& text, char mark) {
  auto parts = std::vector<std::string>(1);
  int depth = 0;
  for (char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == mark && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

/// name(arguments).
struct term {
  std::string name;
  std::vector<std::string> arguments;

  explicit term(std::string const& text) : name(text.substr(0, text.find('('))) {
    if (name.size() < text.size()) arguments = split(text.substr(name.size() + 1, text.size() - name.size() - 2), ',');
  }
  std::uint64_t whole(std::size_t i, std::uint64_t otherwise) const {
    return i < arguments.size() ? std::stoull(arguments[i]) : otherwise;
  }
};

struct frame {
  std::uint64_t version;
  std::string codec;
  int kind;
  std::uint64_t n, rows, step, seed, tensor, rank;
  bytes payload;
};

inline frame read(bytes const& from) {
  auto const name_bytes = number(from, 8, 4);
  auto const begin = static_cast<std::ptrdiff_t>(72 + (name_bytes + 7) / 8 * 8 + 8);
  auto const version = number(from, 4, 2);
  if (std::string(from.begin(), from.begin() + 4) != "pith" || version > 1)
    throw std::runtime_error("no frame of version 0 or 1");
  return {version,
          std::string(from.begin() + 72, from.begin() + 72 + static_cast<std::ptrdiff_t>(name_bytes)),
          static_cast<int>(from.at(6)),
          number(from, 16, 8),
          number(from, 24, 8),
          number(from, 32, 8),
          number(from, 40, 8),
          number(from, 12, 4),
          number(from, 48, 2),
          bytes(from.begin() + begin, from.end())};
}

inline int wide(int kind) { return kind == 2 ? 2 : 1; }

/// One stage at its position: its input, its output, and the bytes of its side information.
struct stage {
  term t;
  int kind;
  std::uint64_t version, n, rows, place;
  std::uint64_t out_n = n, out_rows = rows, side = 0, bucket = 1, scales = 0, rank = 0, room = 0, tile = 0, block = 1;
  int out_kind = kind, scale_kind = wide(kind);
  unsigned bits = 0;
  bool damped = false, trits = false, by_column = false, exact = false, dense = false;

  stage(std::uint64_t v, std::string const& text, int k, std::uint64_t elements, std::uint64_t in_rows,
        std::uint64_t where)
      : t(text), kind(k), version(v), n(elements), rows(in_rows), place(where) {
    if (t.name == "damped") damped = true, t = term(t.arguments.at(0));
    if (t.name == "trits") trits = true, t = term(t.arguments.at(0));
    if (t.name == "cast<half>") out_kind = 3;
    if (t.name == "cast<bfloat16>") out_kind = 4;
    if (t.name == "scaled_sign") quantizer(1, 1, t.whole(0, 0));
    if (t.name == "one_bit") means();
    if (t.name == "sign" || t.name == "summed_sign") quantizer(1, 0, 0);
    if (t.name == "terngrad" || t.name == "summed_terngrad") quantizer(2, 1, t.whole(1, 0));
    if (is("natural<")) quantizer(bits_of_name(), 0, 0);
    if (is("stochastic_cast<")) quantizer(16, 0, 0);
    if (t.name == "eight_bit") quantizer(8, 1, t.whole(0, 0));
    if (is("qsgd<")) quantizer(bits_of_name(), 1, t.whole(1, 128));
    if (is("block_int<")) scale_kind = 4, quantizer(bits_of_name(), 1, t.whole(0, 128));
    if (t.name == "mxfp8" || t.name == "mxint8") scale_kind = 5, quantizer(8, 1, 32);
    if (t.name == "mxfp6" || t.name == "mxfp4") scale_kind = 5, quantizer(t.name == "mxfp6" ? 6 : 4, 1, 32);
    if (t.name == "nvfp4") blocks_of_floats();
    if (t.name == "two_magnitudes") scale_kind = 4, quantizer(2, 2, t.whole(0, 64));
    if (is("eden<")) quantizer(bits_of_name(), 1, t.whole(0, 256));
    if (t.name == "top_k" || t.name == "chunk_top_k" || t.name == "random_k" || t.name == "random_blocks") sparsifier();
    if (t.name == "threshold") counted(kept(n, t.arguments.size() > 1 ? std::stod(t.arguments[1]) : 1));
    if (t.name == "redsync" || t.name == "sidco" || t.name == "gaussian_k") counted(estimated());
    if (t.name == "redsync_mean") mean_of_some();
    if (t.name == "hadamard") tiles();
    if (t.name == "power_sgd" || t.name == "one_sided_power_sgd") factors();
  }

  bool is(char const* beginning) const { return t.name.rfind(beginning, 0) == 0; }
  unsigned bits_of_name() const { return static_cast<unsigned>(std::stoul(t.name.substr(t.name.find('<') + 1))); }

  /// Symbols of b bits, and `scales_of_one` scales per bucket.
  void quantizer(unsigned b, std::uint64_t scales_of_one, std::uint64_t in_bucket) {
    bits = b;
    scales = scales_of_one;
    bucket = in_bucket == 0 ? std::max<std::uint64_t>(n, 1) : in_bucket;
    side = (n + bucket - 1) / bucket * scales * size_of(scale_kind);
  }
  /// A scale of the tensor, then a byte per block of 16 elements.
  void blocks_of_floats() {
    bits = 4;
    side = n == 0 ? 0 : size_of(scale_kind) + (n + 15) / 16;
  }
  void means() {
    auto const axis = t.arguments.empty() ? "" : t.arguments[0];
    by_column = axis == "column";
    quantizer(1, 2, by_column ? rows : axis == "row" ? n / rows : t.whole(0, 0));
  }
  /// Of so many elements or blocks.
  static std::uint64_t kept(std::uint64_t m, double density) {
    auto const k = static_cast<std::uint64_t>(std::floor(density * static_cast<double>(m)));
    return m == 0 ? 0 : std::max<std::uint64_t>(k, 1);
  }
  std::uint64_t drawn_blocks() const { return kept(n / block, std::stod(t.arguments.at(0))); }
  void sparsifier() {
    if (t.name == "random_blocks") block = t.whole(1, 64);
    out_n = t.name == "chunk_top_k" ? kept_of_chunks() : drawn_blocks() * block + n % block;
    out_rows = 1;
    if (t.name == "top_k" || t.name == "chunk_top_k")
      side = ((has_bitmap() ? out_n * low_bits() + bitmap_bits() : out_n * index_bits()) + 7) / 8;
  }
  bool has_bitmap() const {
    if (t.name != "top_k") return t.name == "chunk_top_k";
    return version == 0 ? t.arguments.size() > 1 && t.arguments[1] == "elias_fano" : t.arguments.size() == 1;
  }
  std::uint64_t kept_of_chunks() const {
    auto const k = t.whole(0, 64), chunk = t.whole(1, 4096), rest = n % chunk;
    return n / chunk * k + (rest == 0 ? 0 : std::max<std::uint64_t>(1, (2 * rest * k + chunk) / (2 * chunk)));
  }
  /// The width of a field before the bitmap: the smallest width with the fewest bits.
  unsigned low_bits() const {
    unsigned best = 0;
    auto const total = [&](unsigned w) { return out_n * (w + 1) + ((n - 1) >> w) + 1; };
    for (unsigned w = 1; n > 0 && w < 32; ++w) {
      if (total(w) < total(best)) best = w;
    }
    return best;
  }
  std::uint64_t bitmap_bits() const { return n == 0 ? 0 : out_n + ((n - 1) >> low_bits()) + 1; }
  std::uint64_t estimated() const {
    auto const k = kept(n, std::stod(t.arguments.at(0)));
    return k == 0 ? 0 : std::min(2 * k - 1, n);
  }
  void mean_of_some() {
    room = estimated();
    bits = 8;
    out_n = (room * index_bits() + 7) / 8;
    out_rows = 1;
    side = 8 + size_of(wide(kind));
  }
  void counted(std::uint64_t most) {
    room = most;
    dense = t.arguments.size() > 2 && t.arguments[2] == "dense";
    out_n = dense ? n : room;
    out_rows = 1;
    side = 4 + (room * index_bits() + 7) / 8;
  }
  void tiles() {
    tile = t.whole(0, 256);
    out_n = (n + tile - 1) / tile * tile;
    out_rows = 1;
  }
  void factors() {
    auto const columns = n / rows;
    rank = std::min({t.whole(0, 1), std::max<std::uint64_t>(rows, 1), std::max<std::uint64_t>(columns, 1)});
    auto const min_rate = t.arguments.size() > 1 ? std::stod(t.arguments[1]) : 2;
    exact = min_rate * static_cast<double>(rank * (rows + columns)) > static_cast<double>(n);
    out_n = exact ? n : rank * (rows + columns);
    out_rows = 1;
    out_kind = wide(kind);
  }
  unsigned index_bits() const {
    unsigned b = 0;
    while (n > 1 && (n - 1) >> b != 0) ++b;
    return b;
  }
  std::uint64_t values_bytes() const {
    if (trits) return (n + 4) / 5;
    return bits > 0 ? (out_n * bits + 7) / 8 : out_n * size_of(out_kind);
  }

  /// Elements, or symbols.
  std::vector<double> values(bytes const& payload) const {
    if (bits == 0) return elements(out_kind, payload, 0, out_n);
    auto x = std::vector<double>();
    for (std::uint64_t i = 0; i < out_n; ++i)
      x.push_back(static_cast<double>(trits ? trit(payload, i) : field(payload, 0, i * bits, bits)));
    return x;
  }
  static std::uint64_t trit(bytes const& payload, std::uint64_t i) {
    auto digits = payload.at(i / 5);
    for (auto left = i % 5; left > 0; --left) digits /= 3;
    return digits % 3 == 2 ? 3 : digits % 3;
  }

  std::vector<double> decode(frame const& f, std::vector<double> const& y, std::size_t at) const {
    auto x = t.name == "redsync_mean" ? averaged(f, at)
             : t.name == "nvfp4"      ? from_blocks(f, y, at)
             : bits > 0               ? quantized(f, y, at)
             : has_bitmap()           ? placed_by_bitmap(f, y, at)
             : t.name == "top_k"      ? placed(f, y, at, out_n)
             : is("random_")          ? drawn(f, y)
             : room > 0               ? reaching(f, y, at)
             : tile > 0               ? unrotated(f, y)
             : rank > 0 && !exact     ? product(y)
                                      : y;
    for (auto& v : x) v = saturated(kind, v);
    if (!damped) return x;
    auto const factor = rounded(wide(kind), 1 / (1 + omega()));
    for (auto& v : x) v = saturated(kind, rounded(wide(kind), factor * v));
    return x;
  }
  std::vector<double> quantized(frame const& f, std::vector<double> x, std::size_t at) const {
    for (std::uint64_t i = 0; i < n; ++i) {
      auto const group = by_column ? i % (n / rows) : i / bucket;
      auto const own = elements(scale_kind, f.payload, at + group * scales * size_of(scale_kind), scales);
      x[i] = rounded(wide(kind), meaning(static_cast<std::uint64_t>(x[i]), own));
    }
    return x;
  }
  std::vector<double> from_blocks(frame const& f, std::vector<double> x, std::size_t at) const {
    for (std::uint64_t i = 0; i < n; ++i) {
      auto const scale = small_float(f.payload.at(at + size_of(scale_kind) + i / 16), 3, 7, 126);
      auto const symbol = static_cast<std::uint64_t>(x[i]);
      auto const number = small_float(symbol & 7, 1, 1, 7) * scale * element(scale_kind, f.payload, at);
      x[i] = rounded(wide(kind), symbol > 7 ? -number : number);
    }
    return x;
  }
  /// The element of a symbol among the scales of its group.
  double meaning(std::uint64_t symbol, std::vector<double> const& own) const {
    auto const high = symbol >> (bits - 1), low = symbol - (high << (bits - 1));
    auto const sign = high == 1 ? -1.0 : 1.0;
    if (t.name == "one_bit") return own[symbol];
    if (is("natural<")) {
      if (low == 0) return high == 1 ? NAN : 0;
      return std::ldexp(sign, static_cast<int>(low) - (bits == 8 ? 109 : 127));
    }
    if (is("stochastic_cast<")) return from_fields(symbol, 8, 7);
    if (t.name == "two_magnitudes") return sign * own[low];
    if (t.name == "eight_bit") return sign * point(low) * own[0];
    if (is("eden<")) return sign * normal_point(low) * own[0];
    if (is("mxfp")) return sign * own[0] * magnitude(low);
    if (t.name == "mxint8") return (static_cast<double>(low) - 128 * static_cast<double>(high)) / 64 * own[0];
    if (bits == 1) return scales == 0 ? sign : sign * own[0];
    return (static_cast<double>(low) - std::ldexp(static_cast<double>(high), static_cast<int>(bits) - 1)) * own[0];
  }
  double normal_point(std::uint64_t index) const {
    static auto const solved = [] {
      auto all = std::vector<support::normal_quantizer>();
      for (unsigned b = 1; b <= 8; ++b) all.emplace_back(b);
      return all;
    }();
    return static_cast<float>(solved.at(bits - 1).points.at(index));
  }
  /// The number of a code of mxfp8, mxfp6 or mxfp4.
  double magnitude(std::uint64_t code) const {
    auto const format = t.arguments.empty() ? "" : t.arguments[0];
    if (t.name == "mxfp4") return small_float(code, 1, 1, 7);
    if (t.name == "mxfp6") return format == "e3m2" ? small_float(code, 2, 3, 31) : small_float(code, 3, 1, 31);
    return format == "e5m2" ? small_float(code, 2, 15, 123) : small_float(code, 3, 7, 126);
  }
  std::vector<double> placed(frame const& f, std::vector<double> const& y, std::size_t at, std::uint64_t count) const {
    auto x = std::vector<double>(n);
    for (std::uint64_t j = 0; j < count; ++j) x.at(field(f.payload, at, j * index_bits(), index_bits())) = y[j];
    return x;
  }
  /// The j-th set bit of the bitmap is at j + the high part of the j-th index.
  std::vector<double> placed_by_bitmap(frame const& f, std::vector<double> const& y, std::size_t at) const {
    auto x = std::vector<double>(n);
    std::uint64_t j = 0;
    for (std::uint64_t b = 0; b < bitmap_bits() && j < out_n; ++b) {
      if (field(f.payload, at, out_n * low_bits() + b, 1) == 0) continue;
      x.at((b - j) << low_bits() | field(f.payload, at, j * low_bits(), low_bits())) = y[j];
      ++j;
    }
    return x;
  }
  /// Of Philox.
  int rounds() const { return version == 0 ? 10 : 7; }
  /// One block per stratum, and the elements after the last block.
  std::vector<double> drawn(frame const& f, std::vector<double> const& y) const {
    auto const own = !t.arguments.empty() && t.arguments.back() == "own";
    auto const by = drawer{f.seed, f.tensor, f.step, own ? f.rank : all_ranks, place, rounds()};
    auto const k = drawn_blocks(), m = n / block;
    auto x = std::vector<double>(n);
    for (std::uint64_t j = 0; j < k; ++j) {
      auto const first = j * m / k, next = (j + 1) * m / k;
      auto const at = first + (random_word(by, j) * (next - first) >> 32);
      for (std::uint64_t i = 0; i < block; ++i) x.at(at * block + i) = y[j * block + i];
    }
    for (std::uint64_t i = 0; i < n % block; ++i) x[m * block + i] = y[k * block + i];
    return x;
  }
  std::vector<double> reaching(frame const& f, std::vector<double> const& y, std::size_t at) const {
    auto const count = number(f.payload, at, 4);
    return dense && count > room ? y : placed(f, y, at + 4, std::min(count, room));
  }
  std::vector<double> averaged(frame const& f, std::size_t at) const {
    auto const count = std::min(number(f.payload, at + 4, 4), room);
    return placed(f, std::vector<double>(count, elements(wide(kind), f.payload, at + 8, 1)[0]), 0, count);
  }
  std::vector<double> unrotated(frame const& f, std::vector<double> x) const {
    for (auto& v : x) v = rounded(wide(kind), v / std::sqrt(static_cast<double>(tile)));
    for (std::uint64_t half = 1; half < tile; half *= 2) {
      for (std::uint64_t i = 0; i < out_n; ++i) {
        if (i / half % 2 != 0) continue;
        auto const a = x[i], b = x[i + half];
        x[i] = rounded(wide(kind), a + b);
        x[i + half] = rounded(wide(kind), a - b);
      }
    }
    x.resize(n);
    auto const by = drawer{f.seed, f.tensor, f.step, all_ranks, place, rounds()};
    for (std::uint64_t i = 0; i < n; ++i) {
      if (random_word(by, i / 32) >> i % 32 & 1) x[i] = -x[i];
    }
    return x;
  }
  std::vector<double> product(std::vector<double> const& y) const {
    auto x = std::vector<double>(n);
    auto const columns = n / rows;
    for (std::uint64_t i = 0; i < n; ++i) {
      for (std::uint64_t c = 0; c < rank; ++c) {
        auto const p = y[i / columns * rank + c], q = y[rows * rank + i % columns * rank + c];
        x[i] += p * q;
      }
      x[i] = rounded(wide(kind), x[i]);
    }
    return x;
  }
  double omega() const {
    if (t.name == "identity" || t.name == "hadamard") return 0;
    if (is("random_"))
      return n < block ? 0 : std::ceil(static_cast<double>(n / block) / static_cast<double>(drawn_blocks())) - 1;
    if (is("natural<")) return 1.0 / 8 + 0x1p-16;
    if (is("stochastic_cast<")) return 0x1p-16;
    auto const b = static_cast<double>(std::min(bucket, n));
    if (t.name == "terngrad") return n == 0 ? 0 : (std::sqrt(b) - 1) / 2 + 0x1p-16;
    auto const levels = static_cast<double>(t.whole(0, (1u << (bits - 1)) - 1));
    auto const s = levels / (1 + std::ldexp(2.0, bits < 10 ? -16 : -15));
    return std::min(b / (4 * s * s), std::sqrt(b) / s);
  }
};

/// The elements of a frame whose codec and element kind are these, in place of its own.
inline std::vector<double> decode(frame const& f, std::string const& codec, int kind) {
  auto const parts = split(codec, '|');
  auto const outer = term(codec);
  if (parts.size() == 1 && outer.name == "bypass")
    return f.n < outer.whole(1, 0) ? elements(kind, f.payload, 0, f.n) : decode(f, outer.arguments[0], kind);
  if (parts.size() == 1 && outer.name == "rated" && outer.arguments.back() == "dense")
    return elements(kind, f.payload, 0, f.n);
  if (parts.size() == 1 && (outer.name == "flat" || outer.name == "rated" || outer.name == "two_shot" ||
                            outer.name == "reduce_scatter" || outer.name == "ring" || outer.name == "hierarchical"))
    return decode(f, outer.arguments[0], kind);
  if (parts.size() == 1 && (outer.name == "ok_top_k" || outer.name == "g_top_k"))
    return decode(f, "top_k(" + outer.arguments[0] + (f.version == 0 ? ")" : ",packed_indices)"), kind);
  if (parts.size() == 1 && outer.name == "ef") {
    auto x = decode(f, outer.arguments[0], wide(kind));
    for (auto& v : x) v = saturated(kind, v);
    return x;
  }
  auto stages = std::vector<stage>{{f.version, parts[0], kind, f.n, f.rows, 0}};
  for (std::size_t i = 1; i < parts.size(); ++i) {
    auto const& s = stages.back();
    stages.push_back({f.version, parts[i], s.out_kind, s.out_n, s.out_rows, i});
  }
  auto sides = std::vector<std::size_t>{(stages.back().values_bytes() + 7) / 8 * 8};
  for (auto const& s : stages) sides.push_back(sides.back() + (s.side + 7) / 8 * 8);
  auto x = stages.back().values(f.payload);
  for (auto i = stages.size(); i-- > 0;) x = stages[i].decode(f, x, sides[i]);
  return x;
}
inline std::vector<double> decode(frame const& f) { return decode(f, f.codec, f.kind); }

}  // namespace scalar
