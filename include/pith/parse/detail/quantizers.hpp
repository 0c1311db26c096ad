// pith/parse/detail/quantizers.hpp — the parser of quantizers.
#pragma once

#include <pith/codec/identity.hpp>
#include <pith/codec/syntax.hpp>
#include <pith/coding/trits.hpp>
#include <pith/quantize/eight_bit.hpp>
#include <pith/quantize/natural.hpp>
#include <pith/quantize/one_bit.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/quantize/sign.hpp>
#include <pith/quantize/summed_sign.hpp>
#include <pith/quantize/summed_terngrad.hpp>
#include <pith/quantize/terngrad.hpp>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace pith::inline v0::detail {

/// Calls f with qsgd<Bits>, where Bits is the number in the text.
template <class F, int... Bits>
auto with_qsgd(syntax::term const& t, F const& f, std::integer_sequence<int, Bits...>) {
  t.takes(0, 3);
  auto const bits = t.angle_count();
  auto const bucket = t.count(1, 128);
  auto const of = t.is_second(2, "l2", "max") ? norm::max : norm::l2;
  auto made = std::optional<decltype(f(identity()))>();
  auto const match = [&]<int B>(std::integral_constant<int, B>) {
    if (bits == B) made = f(qsgd<B>(t.count<int>(0, qsgd<B>::most_levels), bucket, of));
  };
  (match(std::integral_constant<int, Bits + 2>()), ...);
  require(made.has_value(), "parse: Bits of qsgd<Bits> must be in [2, 10], got \"", t.text, "\"");
  return *std::move(made);
}

template <class F>
auto with_terngrad(syntax::term const& t, F const& f) {
  auto const sigma = t.has(0) ? t.number(0) : 2.5;
  auto const bucket = t.count(1, 0);
  return sigma == 0 ? f(terngrad<outliers::kept>(bucket)) : f(terngrad<>(sigma, bucket));
}

/// Calls f with trits(s), where s is the ternary stage that the term names.
template <class F>
auto with_trits(syntax::term const& t, F const& f) {
  auto const wrapped = [&]<class S>(S const& stage) -> decltype(f(identity())) {
    if constexpr (traits_of<S>.ternary) {
      return f(trits(stage));
    } else {
      throw std::logic_error(sentence("parse: s of trits(s) must be ternary, got ", stage.name()));
    }
  };
  if (t.is_plain("terngrad", 0, 2)) return with_terngrad(t, wrapped);
  require(t.name == "qsgd" && t.angle == "2", "parse: s of trits(s) must be terngrad or qsgd<2>, got \"", t.text, "\"");
  return with_qsgd(t, wrapped, std::integer_sequence<int, 0>());
}

template <class F>
auto with_natural(syntax::term const& t, F const& f) {
  t.takes(0, 0);
  require(t.angle == "8" || t.angle == "9", "parse: Bits of natural<Bits> must be 8 or 9, got \"", t.text, "\"");
  return t.angle == "8" ? f(natural<8>()) : f(natural<9>());
}

template <class F>
auto with_signs(syntax::term const& t, F const& f) {
  if (t.is_plain("scaled_sign", 0, 1)) return f(scaled_sign(t.count(0, 0)));
  if (t.is_plain("one_bit", 0, 1)) {
    if (t.has(0) && t.arguments[0].text == "row") return f(one_bit<axis::row>());
    if (t.has(0) && t.arguments[0].text == "column") return f(one_bit<axis::column>());
    return f(one_bit<>(t.count(0, 0)));
  }
  if (t.is_plain("terngrad", 0, 2)) return with_terngrad(t, f);
  if (t.is_plain("summed_terngrad", 0, 1)) return f(summed_terngrad(t.has(0) ? t.number(0) : 2.5));
  auto const is_summed = t.is_plain("summed_sign", 0, 1);
  auto const even =
      (is_summed || t.is_plain("sign", 0, 1)) && t.is_second(0, "positive", "zero") ? ties::zero : ties::positive;
  return is_summed ? f(summed_sign(even)) : f(sign(even));
}

constexpr bool says_signs(std::string_view name) {
  return name == "scaled_sign" || name == "one_bit" || name == "sign" || name == "summed_sign" || name == "terngrad" ||
         name == "summed_terngrad";
}

}  // namespace pith::inline v0::detail
