// pith/parse.hpp — a codec constructed from its text: parse<float>("ef(top_k(0.01)|qsgd<8>)").
#pragma once

#include <pith/pith.hpp>
#include <pith/registry/exchanges.hpp>
#include <pith/registry/parser.hpp>
#include <pith/registry/policies.hpp>
#include <pith/registry/stages.hpp>

#include <string_view>

namespace pith::inline v0 {

/// All methods of the registry.
struct all_methods {
  static constexpr auto const& stages = stage_methods;
  static constexpr auto const& exchanges = exchange_methods;
  static constexpr auto const& policies = policy_methods;
};

/// Constructs the codec that a text describes, for values of `In` on `E`. Stages are joined by |; ef(...) and
/// bypass(...) wrap them.
///
///     parse<float>("bypass(ef(top_k(0.01)|qsgd<8>), 1024)")
///
///   errors      std::invalid_argument; the message contains the expected syntax and the text found instead
///   properties  payloads equal those of the typed codec with the same name; parse accepts the result of
///               any_codec::name(). In a chain built at run time, all stages but the last emit values of `In`, so no
///               stage can follow a cast. If all stages of a chain are summable, an all-reduce sums the payloads.
///               Otherwise an all-gather sends the payloads
template <real In, executor E = seq_executor>
any_codec<In, E> parse(std::string_view text) {
  return parse<In, E>(text, all_methods());
}
/// As above, for the type of an executor.
///
///     parse<float>(pith::par(pool), "ef(top_k(0.01))")
template <real In, executor E>
any_codec<In, E> parse(E const&, std::string_view text) {
  return parse<In, E>(text);
}

}  // namespace pith::inline v0
