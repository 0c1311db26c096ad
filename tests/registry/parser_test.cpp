// tests/registry/parser_test.cpp — texts of the caller's own methods.
#include <pith/feedback/own_residual.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/registry/parser.hpp>
#include <pith/sparsify/packed_indices.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <stdexcept>
#include <tuple>

#include "../examples/own/nearest4.hpp"
#include "support/executed.hpp"

using pith::method;
using support::executed;

namespace {

/// A user's stage, two stages of the library, one exchange and one policy.
struct few_methods {
  static constexpr auto stages =
      std::tuple(method("nearest4", 0, 0, "the user's stage", {"nearest4"},
                        [](auto const&, auto const& f) { return f(nearest4()); }),
                 method("top_k", 1, 1, "the largest magnitudes", {"top_k(0.1)"},
                        [](auto const& t, auto const& f) { return f(pith::top_k(t.number(0))); }),
                 method("qsgd<8>", 0, 0, "random rounding to 8 bits", {"qsgd<8>"},
                        [](auto const&, auto const& f) { return f(pith::qsgd<8>()); }));
  static constexpr auto exchanges =
      std::tuple(method("both(c)", 1, 1, "a chain by another name", {"both(top_k(0.1))"},
                        [](auto const& t, auto parser, auto const& f) { return f(parser.chain(t.arguments[0])); }));
  static constexpr auto policies =
      std::tuple(method("own_residual", 0, 0, "the residual against a rank's own payload",
                        {"ef(top_k(0.1),own_residual)"}, [](auto const&, auto) { return pith::own_residual(); }));
};

struct no_methods {
  static constexpr auto stages = std::tuple(), exchanges = std::tuple(), policies = std::tuple();
};

auto parse(char const* text) { return pith::parse<float>(text, few_methods()); }

template <class C>
void check_same(char const* text, C const& typed) {
  for (std::uint64_t const n : {0u, 1u, 1003u})
    CHECK(executed<float>(pith::seq, parse(text), {n}) == executed<float>(pith::seq, typed, {n}));
}

}  // namespace

TEST_CASE("a text of the caller's methods has the payloads of the typed codec") {
  check_same("nearest4", nearest4());
  check_same("ef(nearest4)", pith::error_feedback(nearest4()));
  check_same("top_k(0.1)|nearest4", pith::top_k(0.1) | nearest4());
  check_same("both(top_k(0.1)|qsgd<8>)", pith::top_k(0.1) | pith::qsgd<8>());
  check_same("ef(both(top_k(0.1)),own_residual)", pith::error_feedback(pith::top_k(0.1), pith::own_residual()));
  check_same("bypass(ef(top_k(0.1),residual(0.9,1)),64)",
             pith::bypass(pith::error_feedback(pith::top_k(0.1), pith::residual(0.9, 1)), 64));
}

TEST_CASE("other methods are refused, and the error lists the caller's") {
  CHECK_THROWS_WITH_AS(
      parse("sign"),
      "pith::parse: \"sign\" is not a stage. Stages are nearest4, top_k and qsgd<8>. These wrap a whole "
      "chain or stand alone: ef(c), bypass(c,n), flat(c) and both(c)",
      std::invalid_argument);
  CHECK_THROWS_WITH_AS(parse("topk(0.1)|qsgd<8>"), doctest::Contains("is not a stage; did you mean top_k?"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(parse("qsgd<4>"), doctest::Contains("\"qsgd<4>\" is not a stage"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(parse("ef(top_k(0.1),ef21)"), doctest::Contains("policies are own_residual"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(pith::parse<float>("top_k(0.1)", no_methods()), doctest::Contains("is not a stage"),
                       std::invalid_argument);
}
