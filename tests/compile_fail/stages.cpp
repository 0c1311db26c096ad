// tests/compile_fail/stages.cpp — what is no stage, and stages that do not fit.
#include <pith/codec/any_stage.hpp>
#include <pith/pith.hpp>
#include <pith/quantize/block_int.hpp>

namespace sample {

using pith::context;
using pith::encoded_on;
using pith::executor;
using pith::values_on;

template <class In>
struct complete : pith::codec_base {
  template <class T>
  using output = T;

  std::string name() const { return "complete"; }
  template <executor E>
  void encode(context<In, E> const&, values_on<E, In const>, encoded_on<E, In>) const {}
  template <executor E>
  void decode(context<In, E> const&, encoded_on<E, In const>, values_on<E, In>) const {}
};

struct stranger {
  template <class T>
  using output = T;

  std::string name() const { return "stranger"; }
  template <executor E>
  void encode(context<float, E> const&, values_on<E, float const>, encoded_on<E, float>) const {}
  template <executor E>
  void decode(context<float, E> const&, encoded_on<E, float const>, values_on<E, float>) const {}
};

struct nameless : complete<float> {
  std::string name() const = delete;
};

struct without_output : pith::codec_base {
  std::string name() const { return "without_output"; }
};

struct without_encode : pith::codec_base {
  template <class T>
  using output = T;

  std::string name() const { return "without_encode"; }
  template <executor E>
  void decode(context<float, E> const&, encoded_on<E, float const>, values_on<E, float>) const {}
};

struct without_decode : pith::codec_base {
  template <class T>
  using output = T;

  std::string name() const { return "without_decode"; }
  template <executor E>
  void encode(context<float, E> const&, values_on<E, float const>, encoded_on<E, float>) const {}
};

struct wide_sign {
  static constexpr int bits = 2;
  static constexpr bool draws = false;
  using facets = pith::ext::facets<pith::ext::sign>;

  template <class A>
  PITH_HD std::uint32_t code(A x, pith::unscaled<A>, std::uint16_t) const {
    return x < 0;
  }
  template <class A>
  PITH_HD A value(std::uint32_t symbol, pith::unscaled<A>) const {
    return static_cast<A>(symbol);
  }
};

}  // namespace sample

int main() {
  using namespace sample;

  [[maybe_unused]] auto const select = pith::top_k(0.01);
#if defined(NUMBER)
  // expected-error {{pith: a stage must derive from pith::codec_base}}
  select | 42;
#elif defined(STRANGER)
  // expected-error {{pith: a stage must derive from pith::codec_base}}
  select | stranger();
#elif defined(STRANGER_FIRST)
  // expected-error {{pith: a stage must derive from pith::codec_base}}
  stranger() | select;
#elif defined(NAMELESS)
  // expected-error {{pith: a stage must have std::string name() const}}
  nameless() | select;
#elif defined(WITHOUT_OUTPUT)
  // expected-error {{pith: a stage must declare template <class In> using output = what it emits}}
  without_output() | select;
#elif defined(WITHOUT_ENCODE)
  // expected-error {{pith: a stage must have void encode(context<In, E> const&, value_view<In const>, encoded<Out>}}
  without_encode() | select;
#elif defined(WITHOUT_DECODE)
  // expected-error {{pith: a stage must have void decode(context<In, E> const&, encoded<Out const>, value_view<In>}}
  without_decode() | select;
#elif defined(EXPLAINED)
  // expected-error {{pith: a stage must have void decode(context<In, E> const&, encoded<Out const>, value_view<In>}}
  pith::explain_stage<without_decode>();
#elif defined(ORDER)
  // expected-error {{pith: these stages do not fit: the right one cannot take the values that the left one emits}}
  pith::qsgd<4>() | pith::top_k(0.01);
#elif defined(ORDER_OF_CHAINS)
  // expected-error {{pith: these stages do not fit: the right one cannot take the values that the left one emits}}
  pith::qsgd<4>() | (select | pith::cast<pith::half>());
#elif defined(OTHER_ELEMENTS)
  // expected-error {{pith: these stages do not fit: the right one cannot take the values that the left one emits}}
  pith::cast<pith::half>() | complete<float>();
#elif defined(TOO_FEW_BITS)
  // expected-error {{pith: qsgd<Bits> needs 2 <= Bits <= 10: a sign and at least one level}}
  pith::qsgd<1>();
#elif defined(TOO_FEW_LEVELS)
  // expected-error {{pith: block_int<Bits> needs 2 <= Bits <= 8: a sign and at least one level}}
  pith::block_int<1>();
#elif defined(TOO_MANY_BITS)
  // expected-error {{pith: packed<Bits> needs 1 <= Bits <= 16}}
  pith::value_view<pith::packed<17>>();
#elif defined(CHAIN_AS_STAGE)
  // expected-error {{pith: any_stage(s) needs one stage; pass each stage of a chain to any_chain}}
  pith::any_stage<float, pith::seq_executor>(select | pith::qsgd<8>());
#elif defined(NO_RULE)
  // expected-error {{pith: scalar_quantizer<Rule> needs bits, draws, code and value}}
  pith::scalar_quantizer<stranger>({}, 128);
#elif defined(WIDE_SIGN)
  // expected-error {{pith: scalar_quantizer<Rule>: a rule with the facet ext::sign has symbols of one bit and draws nothing}}
  pith::scalar_quantizer<wide_sign>({});
#else
  auto const codec = complete<float>() | select | pith::qsgd<4>();
  pith::explain_stage<decltype(codec)>();
  return codec.name().empty() || pith::value_view<pith::packed<16>>().capacity != 0;
#endif
}
