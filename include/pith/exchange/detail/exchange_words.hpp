// pith/exchange/detail/exchange_words.hpp — descriptions of an exchange, for agreement and for saved states.
#pragma once

#include <pith/codec/detail/saved_state.hpp>
#include <pith/codec/detail/state_words.hpp>
#include <pith/core/element.hpp>
#include <pith/core/error.hpp>
#include <pith/exchange/codec_policy.hpp>
#include <pith/exchange/detail/agreement.hpp>
#include <pith/exchange/detail/buckets.hpp>
#include <pith/exchange/detail/gather.hpp>
#include <pith/exchange/exchange_options.hpp>
#include <pith/version.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// A shape as people write it, such as 4096 x 128.
inline std::string shape_words(shape const& dims) {
  if (dims.rows == 1) return text(dims.n, " elements");
  return dims.rows * dims.columns() == dims.n ? text(dims.rows, " x ", dims.columns())
                                              : text(dims.n, " elements in ", dims.rows, " rows");
}

/// One line for each tensor, with its codec.
template <class Codec>
std::vector<std::string> described(std::vector<tensor_spec> const& tensors, std::vector<Codec> const& codecs) {
  auto all = std::vector<std::string>();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    auto const& t = tensors[i];
    all.push_back(text('"', t.name, "\" of ", shape_words(t.dims), ", codec ", codecs[i].name()));
  }
  return all;
}
/// One line for each tensor, with its bucket.
inline std::vector<std::string> described(std::vector<tensor_spec> const& tensors, bucket_list const& layout) {
  auto all = std::vector<std::string>(tensors.size());
  for (std::size_t b = 0; b < layout.size(); ++b) {
    for (auto const i : layout[b]) all[i] = text('"', tensors[i].name, "\" in bucket ", b);
  }
  return all;
}

/// Returns the number of a new exchange. The exchanges of a process are numbered from 1 on, in the order of their
/// construction.
inline std::uint64_t next_exchange() {
  static auto built = std::atomic<std::uint64_t>();
  return ++built;
}

/// The terms that must be equal on all ranks when an exchange is built.
template <real In, executor E>
agreement agreement_on(std::vector<std::string> const& tensors, exchange_options const& o) {
  auto mine = agreement();
  auto const terms = {std::string(element_name<In>()),
                      std::string(E::name()),
                      text(PITH_VERSION_MAJOR, '.', PITH_VERSION_MINOR, ", wire ", PITH_WIRE_VERSION),
                      std::string(gather_name(o.gather_mode)),
                      o.bucket_bytes ? text(*o.bucket_bytes) : text("unset"),
                      text(o.is_weighted ? "true" : "false"),
                      text(o.verification == verify::each_step ? "each_step" : "when_built"),
                      text(o.seed)};
  std::transform(terms.begin(), terms.end(), mine.terms.begin(),
                 [](std::string const& words) { return agreement::term(words); });
  mine.describe(tensors);
  mine.number = next_exchange();
  return mine;
}

/// A codec's text in the description of a saved state. The sizes of shards are left out, because another number of
/// ranks has other sizes.
inline std::string without_sizes(std::string codec) {
  constexpr std::string_view sizes = ",sizes(";
  for (auto at = codec.find(sizes); at != codec.npos; at = codec.find(sizes, at))
    codec.erase(at, codec.find(')', at) + 1 - at);
  return codec;
}

/// The lines of a saved state's description that must match when the state is restored.
template <real In, class Tensors>
std::string state_words(Tensors& model, typename Tensors::change& next, unsigned rank, std::uint64_t seed) {
  auto words = text(exchange_word, '\n', rank_line(rank, model.ranks()), "\nseed ", seed, "\nelements of ",
                    element_name<In>(), '\n');
  for (std::size_t i = 0; i < model.specs().size(); ++i) {
    auto const& t = model.specs()[i];
    auto fields = field_describer();
    model.fields(i, next, fields);
    words += tensor_line(text('"', t.name, "\" of ", t.dims.n, " elements in ", t.dims.rows, " rows, codec ",
                              without_sizes(next.codecs[i].name()), model.groups().words(i))) +
             '\n' + fields.lines;
  }
  return words;
}

/// The number of fields of each tensor in the description of a saved state.
inline std::vector<std::size_t> field_counts(std::string_view words) {
  auto counts = std::vector<std::size_t>();
  while (!words.empty()) {
    auto const line = take_line(words);
    if (line.starts_with("tensor ")) counts.push_back(0);
    if (line.starts_with("field ") && !counts.empty()) ++counts.back();
  }
  return counts;
}
/// Returns whether each tensor has an undelivered residual in a saved state. `saved` is the description of this state,
/// and `own` is the description without such residuals, in which a tensor with such a residual has one field fewer.
inline std::vector<bool> owing_in(std::string_view saved, std::string_view own) {
  auto const with = field_counts(saved), without = field_counts(own);
  auto owes = std::vector<bool>(without.size());
  for (std::size_t i = 0; i < std::min(with.size(), without.size()); ++i) owes[i] = with[i] == without[i] + 1;
  return owes;
}

}}}  // namespace pith::PITH_ABI::detail
