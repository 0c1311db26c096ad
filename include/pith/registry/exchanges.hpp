// pith/registry/exchanges.hpp — the codecs with transfers of their own that a text can name, one line per codec.
#pragma once

#include <pith/adaptor/rated.hpp>
#include <pith/collective/g_top_k.hpp>
#include <pith/collective/hierarchical.hpp>
#include <pith/collective/ok_top_k.hpp>
#include <pith/collective/reduce_scatter.hpp>
#include <pith/collective/ring.hpp>
#include <pith/collective/sharding.hpp>
#include <pith/collective/two_shot.hpp>
#include <pith/registry/parser.hpp>

#include <cstdint>
#include <tuple>
#include <vector>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Parses rated(chain) or rated(chain,dense_from). In rated(chain,dense) and rated(chain,dense_from,dense), the codec's
/// rate is 1.
template <class Parser>
auto rated_from(syntax::term const& t, Parser) {
  auto const is_dense = t.arguments.size() > 1 && t.arguments.back().text == "dense";
  t.takes(1, is_dense ? 3 : 2);
  auto const chain = Parser::chain(t.arguments[0]);
  require(chain.has_rate(), "parse: c of rated(c) must have exactly one stage with an adjustable rate, got \"", t.text,
          "\"");
  auto const made = t.arguments.size() == (is_dense ? 3u : 2u) ? rated(chain, t.number(1)) : rated(chain);
  return is_dense ? made.at(1) : made;
}

template <class Parser>
auto two_shot_from(syntax::term const& t, Parser) {
  return two_shot(Parser::chain(t.arguments[0]), Parser::codec(t.arguments[t.has(1) ? 1 : 0]));
}

/// Parses `rows` or `sizes(10,20,30)`.
inline sharding sharding_from(syntax::term const& t, std::size_t i) {
  if (!t.has(i)) return sharding::equal();
  auto const& rule = t.arguments[i].only();
  if (!rule.is_plain("sizes", 1, syntax::reader::max_characters))
    return t.word(i, {"rows", "sizes(n,...)"}), sharding::rows();
  auto sizes = std::vector<std::uint64_t>();
  for (std::size_t r = 0; r < rule.arguments.size(); ++r) sizes.push_back(rule.count(r));
  return sharding(sizes);
}

template <class Parser>
auto hierarchical_from(syntax::term const& t, Parser) {
  return hierarchical(Parser::chain(t.arguments[0]), Parser::codec(t.arguments[1]), t.count<unsigned>(2));
}

}  // namespace detail

/// The codecs with transfers of their own. Error feedback can wrap these codecs. `make` also receives the `parser`.
inline constexpr auto exchange_methods = std::tuple(
    method("rated(c)", 1, 3, "a codec with an adjustable rate; rated(c, dense_from): dense from that rate on",
           {"rated(top_k(0.2))", "ef(rated(top_k(0.2)|qsgd<8>,0.5))", "rated(random_k(0.2),dense)"},
           [](auto const& t, auto parser, auto const& f) { return f(detail::rated_from(t, parser)); }),
    method("two_shot(c)", 1, 2, "each rank adds up a part of the tensor; two_shot(a, b): b for the mean",
           {"two_shot(qsgd<8>)", "two_shot(scaled_sign,ef(scaled_sign))"},
           [](auto const& t, auto parser, auto const& f) { return f(detail::two_shot_from(t, parser)); }),
    method("reduce_scatter(c)", 1, 2, "each rank receives the mean of its shard; (c, rows): shards of whole rows",
           {"ef(reduce_scatter(qsgd<8>))", "reduce_scatter(qsgd<8>,rows)"},
           [](auto const& t, auto parser, auto const& f) {
             return f(reduce_scatter(parser.chain(t.arguments[0]), detail::sharding_from(t, 1)));
           }),
    method("ring(c)", 1, 1, "segments are added up along a ring", {"ring(qsgd<8>)"},
           [](auto const& t, auto parser, auto const& f) { return f(ring(parser.chain(t.arguments[0]))); }),
    method("hierarchical(c,d,ranks)", 3, 3, "c within a node of some ranks, d between nodes",
           {"hierarchical(qsgd<8>,ef(top_k(0.2)),2)"},
           [](auto const& t, auto parser, auto const& f) { return f(detail::hierarchical_from(t, parser)); }),
    method("ok_top_k(density)", 1, 1, "the largest 1 % of the sums of each rank's largest 1 %", {"ok_top_k(0.01)"},
           [](auto const& t, auto, auto const& f) { return f(ok_top_k(t.number(0))); }),
    method("g_top_k(density)", 1, 1, "pairs of ranks merge their largest 1 %, until all have the same",
           {"g_top_k(0.01)"}, [](auto const& t, auto, auto const& f) { return f(g_top_k(t.number(0))); }));

/// The descriptions of the codecs that are not stages.
inline constexpr auto exchange_listings = detail::with_wrappers(detail::listings_of(exchange_methods));

}}  // namespace pith::PITH_ABI
