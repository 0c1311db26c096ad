// tests/wire/scalar_decoder.hpp — a naive decoder of frames, written from docs/wire_format.md; shares nothing with pith.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace scalar {

using bytes = std::vector<unsigned char>;

/// A little-endian number of `size` bytes.
inline std::uint64_t number(bytes const& from, std::size_t at, unsigned size) {
  std::uint64_t v = 0;
  for (unsigned i = 0; i < size; ++i) v += static_cast<std::uint64_t>(from.at(at + i)) << (8 * i);
  return v;
}

/// Elements: 1 float, 2 double, 3 half, 4 bfloat16. A value is held as a double, which all of them are.
inline unsigned size_of(int kind) { return kind == 1 ? 4 : kind == 2 ? 8 : 2; }

/// |value| in units of the last place of a format of so many digits and so small an exponent, ties to even.
inline double nearest(double value, int digits, int least, double overflow) {
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  auto const unit = std::ldexp(1.0, std::max(exponent - digits, least));
  auto const r = std::nearbyint(value / unit) * unit;
  return std::abs(r) >= overflow ? std::copysign(INFINITY, r) : r;
}
inline double rounded(int kind, double v) {
  if (kind == 1) return static_cast<double>(static_cast<float>(v));
  if (kind == 3) return nearest(v, 11, -24, 65536);
  if (kind == 4) return nearest(v, 8, -133, 0x1p128);
  return v;
}

/// The fields of sign, exponent and fraction of half and bfloat16.
inline double from_fields(std::uint64_t v, int exponent_bits, int fraction_bits) {
  auto const fraction = static_cast<double>(v & ((1u << fraction_bits) - 1));
  auto const exponent = static_cast<int>(v >> fraction_bits & ((1u << exponent_bits) - 1));
  auto const bias = (1 << (exponent_bits - 1)) - 1;
  auto const sign = v >> (exponent_bits + fraction_bits) & 1 ? -1.0 : 1.0;
  if (exponent == 2 * bias + 1) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}
inline double element(int kind, bytes const& from, std::size_t at) {
  auto const v = number(from, at, size_of(kind));
  if (kind == 3) return from_fields(v, 5, 10);
  if (kind == 4) return from_fields(v, 8, 7);
  if (kind == 1) {
    auto const low = static_cast<std::uint32_t>(v);
    float f;
    return std::memcpy(&f, &low, 4), static_cast<double>(f);
  }
  double d;
  return std::memcpy(&d, &v, 8), d;
}
inline std::vector<double> elements(int kind, bytes const& from, std::size_t at, std::uint64_t n) {
  auto x = std::vector<double>();
  for (std::uint64_t i = 0; i < n; ++i) x.push_back(element(kind, from, at + i * size_of(kind)));
  return x;
}

/// The `bits` bits at bit `first`, the least significant one first.
inline std::uint64_t field(bytes const& from, std::size_t at, std::uint64_t first, unsigned bits) {
  std::uint64_t v = 0;
  for (unsigned b = 0; b < bits; ++b) {
    auto const place = first + b;
    v += static_cast<std::uint64_t>(from.at(at + place / 8) >> (place % 8) & 1) << b;
  }
  return v;
}

/// Word `i` of the random numbers of a stage whose draws all ranks share: Philox4x32-10.
inline std::uint32_t shared_word(std::uint64_t seed, std::uint64_t tensor, std::uint64_t step, std::uint64_t stage,
                                 std::uint64_t i) {
  std::uint64_t c[4] = {i / 4 & 0xffffffff, i / 4 >> 32 | tensor << 8, step & 0xffffffff,
                        step >> 32 | 0xffffull << 8 | stage << 27};
  std::uint64_t k[2] = {seed & 0xffffffff, seed >> 32};
  for (int round = 0; round < 10; ++round) {
    auto const a = 0xD2511F53 * c[0], b = 0xCD9E8D57 * c[2];
    std::uint64_t const next[4] = {b >> 32 ^ c[1] ^ k[0], b & 0xffffffff, a >> 32 ^ c[3] ^ k[1], a & 0xffffffff};
    std::copy(next, next + 4, c);
    k[0] = (k[0] + 0x9E3779B9) & 0xffffffff;
    k[1] = (k[1] + 0xBB67AE85) & 0xffffffff;
  }
  return static_cast<std::uint32_t>(c[i % 4]);
}

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
  std::string codec;
  int kind;
  std::uint64_t n, rows, step, seed, tensor;
  bytes payload;
};

inline frame read(bytes const& from) {
  auto const name_bytes = number(from, 8, 4);
  auto const begin = static_cast<std::ptrdiff_t>(72 + (name_bytes + 7) / 8 * 8 + 8);
  if (std::string(from.begin(), from.begin() + 4) != "pith" || number(from, 4, 2) != 0)
    throw std::runtime_error("no frame of version 0");
  return {std::string(from.begin() + 72, from.begin() + 72 + static_cast<std::ptrdiff_t>(name_bytes)),
          static_cast<int>(from.at(6)),
          number(from, 16, 8),
          number(from, 24, 8),
          number(from, 32, 8),
          number(from, 40, 8),
          number(from, 12, 4),
          bytes(from.begin() + begin, from.end())};
}

inline int wide(int kind) { return kind == 2 ? 2 : 1; }

/// One stage in its place: what it takes, what it emits, and the bytes of its side record.
struct stage {
  term t;
  int kind;
  std::uint64_t n, rows, place;
  std::uint64_t out_n = n, out_rows = rows, side = 0, bucket = 1, levels = 0, rank = 0;
  int out_kind = kind;
  unsigned bits = 0;
  bool damped = false, exact = false;

  stage(std::string const& text, int k, std::uint64_t elements, std::uint64_t in_rows, std::uint64_t where)
      : t(text), kind(k), n(elements), rows(in_rows), place(where) {
    if (t.name == "damped") damped = true, t = term(t.arguments.at(0));
    if (t.name == "cast<half>") out_kind = 3;
    if (t.name == "cast<bfloat16>") out_kind = 4;
    if (t.name == "scaled_sign") quantizer(1, t.whole(0, 0));
    if (t.name.rfind("qsgd<", 0) == 0) quantizer(static_cast<unsigned>(std::stoul(t.name.substr(5))), t.whole(1, 128));
    if (t.name == "top_k" || t.name == "random_k") sparsifier();
    if (t.name == "power_sgd") factors();
  }

  void quantizer(unsigned b, std::uint64_t in_bucket) {
    bits = b;
    bucket = in_bucket == 0 ? std::max<std::uint64_t>(n, 1) : in_bucket;
    levels = t.whole(0, (1u << (bits - 1)) - 1);
    side = (n + bucket - 1) / bucket * size_of(wide(kind));
  }
  void sparsifier() {
    auto const k = static_cast<std::uint64_t>(std::floor(std::stod(t.arguments.at(0)) * static_cast<double>(n)));
    out_n = n == 0 ? 0 : std::max<std::uint64_t>(k, 1);
    out_rows = 1;
    if (t.name == "top_k") side = (out_n * index_bits() + 7) / 8;
  }
  void factors() {
    auto const columns = n / rows;
    rank = std::min({t.whole(0, 1), std::max<std::uint64_t>(rows, 1), std::max<std::uint64_t>(columns, 1)});
    exact = 2 * rank * (rows + columns) > n;
    out_n = exact ? n : rank * (rows + columns);
    out_rows = 1;
    out_kind = wide(kind);
  }
  unsigned index_bits() const {
    unsigned b = 0;
    while (n > 1 && (n - 1) >> b != 0) ++b;
    return b;
  }
  std::uint64_t values_bytes() const { return bits > 0 ? (out_n * bits + 7) / 8 : out_n * size_of(out_kind); }

  std::vector<double> values(bytes const& payload) const {
    if (bits == 0) return elements(out_kind, payload, 0, out_n);
    auto x = std::vector<double>();
    for (std::uint64_t i = 0; i < out_n; ++i) {
      auto const symbol = static_cast<double>(field(payload, 0, i * bits, bits));
      auto const whole = std::ldexp(1.0, static_cast<int>(bits));
      x.push_back(bits == 1 ? 1 - 2 * symbol : symbol < whole / 2 ? symbol : symbol - whole);
    }
    return x;
  }

  std::vector<double> decode(frame const& f, std::vector<double> const& y, std::size_t at) const {
    auto x = bits > 0               ? quantized(f, y, at)
             : t.name == "top_k"    ? placed(f, y, at, false)
             : t.name == "random_k" ? placed(f, y, at, true)
             : rank > 0 && !exact   ? product(y)
                                    : y;
    for (auto& v : x) v = rounded(kind, v);
    if (!damped) return x;
    auto const factor = rounded(wide(kind), 1 / (1 + omega()));
    for (auto& v : x) v = rounded(kind, rounded(wide(kind), factor * v));
    return x;
  }
  std::vector<double> quantized(frame const& f, std::vector<double> x, std::size_t at) const {
    for (std::uint64_t i = 0; i < n; ++i) {
      auto const scale = element(wide(kind), f.payload, at + i / bucket * size_of(wide(kind)));
      x[i] = rounded(wide(kind), x[i] * scale);
    }
    return x;
  }
  std::vector<double> placed(frame const& f, std::vector<double> const& y, std::size_t at, bool drawn) const {
    auto x = std::vector<double>(n);
    for (std::uint64_t j = 0; j < out_n; ++j) {
      auto const first = j * n / out_n, next = (j + 1) * n / out_n;
      auto const i = drawn ? first + (shared_word(f.seed, f.tensor, f.step, place, j) * (next - first) >> 32)
                           : field(f.payload, at, j * index_bits(), index_bits());
      x.at(i) = y[j];
    }
    return x;
  }
  std::vector<double> product(std::vector<double> const& y) const {
    auto x = std::vector<double>(n);
    auto const columns = n / rows;
    for (std::uint64_t i = 0; i < n; ++i) {
      for (std::uint64_t c = 0; c < rank; ++c) {
        auto const p = y[i / columns * rank + c], q = y[rows * rank + i % columns * rank + c];
        x[i] = rounded(wide(kind), x[i] + rounded(wide(kind), p * q));
      }
    }
    return x;
  }
  double omega() const {
    if (t.name == "identity") return 0;
    if (t.name == "random_k") return n == 0 ? 0 : static_cast<double>((n + out_n - 1) / out_n) - 1;
    auto const s = static_cast<double>(levels) / (1 + std::ldexp(2.0, bits < 10 ? -16 : -15));
    auto const b = static_cast<double>(std::min(bucket, n));
    return std::min(b / (4 * s * s), std::sqrt(b) / s);
  }
};

/// The elements of a frame whose codec and element kind are these, in place of its own.
inline std::vector<double> decode(frame const& f, std::string const& codec, int kind) {
  auto const parts = split(codec, '|');
  auto const outer = term(codec);
  if (parts.size() == 1 && outer.name == "bypass")
    return f.n < outer.whole(1, 0) ? elements(kind, f.payload, 0, f.n) : decode(f, outer.arguments[0], kind);
  if (parts.size() == 1 && outer.name == "ef") {
    auto x = decode(f, outer.arguments[0], wide(kind));
    for (auto& v : x) v = rounded(kind, v);
    return x;
  }
  auto stages = std::vector<stage>{{parts[0], kind, f.n, f.rows, 0}};
  for (std::size_t i = 1; i < parts.size(); ++i) {
    auto const& s = stages.back();
    stages.push_back({parts[i], s.out_kind, s.out_n, s.out_rows, i});
  }
  auto sides = std::vector<std::size_t>{(stages.back().values_bytes() + 7) / 8 * 8};
  for (auto const& s : stages) sides.push_back(sides.back() + (s.side + 7) / 8 * 8);
  auto x = stages.back().values(f.payload);
  for (auto i = stages.size(); i-- > 0;) x = stages[i].decode(f, x, sides[i]);
  return x;
}
inline std::vector<double> decode(frame const& f) { return decode(f, f.codec, f.kind); }

}  // namespace scalar
