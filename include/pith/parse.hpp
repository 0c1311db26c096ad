// pith/parse.hpp — a codec constructed from its text: parse<float>("ef(top_k(0.01)|qsgd<8>)").
#pragma once

#include <pith/pith.hpp>
#include <pith/registry/exchanges.hpp>
#include <pith/registry/parser.hpp>
#include <pith/registry/policies.hpp>
#include <pith/registry/stages.hpp>

#include <string>
#include <string_view>

namespace pith { inline namespace PITH_ABI {

/// All methods of the registry (registry/stages.hpp, exchanges.hpp and policies.hpp).
struct all_methods {
  static constexpr auto const& stages = stage_methods;
  static constexpr auto const& exchanges = exchange_methods;
  static constexpr auto const& policies = policy_methods;
};

/// Constructs the codec that `text` describes, for elements of type `In` and the executor type `E`. Stages are joined
/// by |, and wrapped by ef(...), bypass(...) and flat(...).
///
///     parse<float>("bypass(ef(top_k(0.01)|qsgd<8>), 1024)")
///
///   errors      std::invalid_argument; the message contains the expected syntax and the text found instead
///   properties  payloads equal those of the codec that is constructed in C++ and has the same name. parse accepts the
///               name() of a parsed codec. In a parsed chain, all stages but the last emit values of type `In`, so
///               no stage can follow a cast. If all stages of a chain are summable, an all-reduce sums the payloads.
///               Otherwise, an all-gather sends the payloads
template <real In, executor E = seq_executor>
any_codec<In, E> parse(std::string_view text) {
  return parse<In, E>(text, all_methods());
}
/// Like parse<In, E>(text), where E is the type of the executor.
///
///     parse<float>(pith::par(pool), "ef(top_k(0.01))")
template <real In, executor E>
any_codec<In, E> parse(E const&, std::string_view text) {
  return parse<In, E>(text);
}

/// The text of a codec, which converts to the codec for any element type and executor. A policy of mixed_exchange may
/// return it.
struct codec_text {
  std::string text;

  template <real In, executor E>
  operator any_codec<In, E>() const {
    return parse<In, E>(text);
  }
};

}}  // namespace pith::PITH_ABI
