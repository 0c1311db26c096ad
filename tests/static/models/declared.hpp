// tests/static/models/declared.hpp — stages that are only declared: concepts test them, no program runs them.
#pragma once

#include <pith/pith.hpp>
#include <pith/quantize/natural.hpp>
#include <pith/quantize/one_bit.hpp>
#include <pith/quantize/summed_sign.hpp>
#include <pith/quantize/summed_terngrad.hpp>

#include <string>

namespace models {

using pith::context;
using pith::encoded_on;
using pith::encoding_id;
using pith::executor;
using pith::real;
using pith::shape;
using pith::span_on;
using pith::sum_form;
using pith::transfer;
using pith::transport;
using pith::values_on;
using pith::workspace_on;

/// A stage without random numbers and state. Derived classes declare its output and capabilities.
struct declared : pith::codec_base {
  std::string name() const;

  template <real In, class Out, executor E>
  void encode(context<In, E> const&, values_on<E, In const>, encoded_on<E, Out>) const;
  template <real In, class Out, executor E>
  void decode(context<In, E> const&, encoded_on<E, Out const>, values_on<E, In>) const;
};

/// Draws random numbers when it encodes.
struct declared_random : pith::codec_base {
  std::string name() const;

  template <real In, class Out, executor E>
  void encode(context<In, E> const&, values_on<E, In const>, encoded_on<E, Out>) const;
  template <real In, class Out, executor E>
  void decode(context<In, E> const&, encoded_on<E, Out const>, values_on<E, In>) const;
};

/// The state of one buffer of numbers.
template <class A, executor E>
struct numbers {
  pith::buffer<A, E> values;
  void fields(pith::field_visitor& f) { f(values); }
};

}  // namespace models
