// pith/core/source.hpp — the value sources and sinks of engines, block by block.
#pragma once

#include <pith/core/element.hpp>
#include <pith/core/team.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace ext {

/// Prefetches memory 4 KiB ahead of `block`, farther than the CPU's own prefetcher. The address may be past the
/// tensor's end, because a prefetch reads no data.
template <class Team, class T>
PITH_HD inline void fetch_ahead(T const* block, std::uint32_t count) {
  if constexpr (Team::specializes) {
    constexpr std::uint32_t line = 64 / sizeof(T), ahead = 4096 / sizeof(T);
    for (std::uint32_t i = 0; i < count; i += line) PITH_PREFETCH(block + ahead + i);
  }
}

/// A source that reads a tensor. A source is an object from which an engine reads the values to encode:
///
///   stores_residual                  a constant: true if the source stores the next residual (see residual_source)
///   (i)                              returns value i
///   tail(first)                      returns a source that begins at element `first`, for engines that work row by row
///   load(team, first, count, room)   returns a pointer to values first .. first + count - 1, which are in the tensor
///                                    or are copied to `room`
template <class In>
struct plain_source {
  static constexpr bool stores_residual = false;

  In const* x;

  PITH_HD accum<In> operator()(std::uint64_t i) const { return element_cast<accum<In>>(x[i]); }
  PITH_HD plain_source tail(std::uint64_t first) const { return {x + first}; }

  template <class Team, class Count>
  PITH_HD accum<In> const* load(Team const& team, std::uint64_t first, Count count, accum<In>* room) const {
    auto const* const from = x + first;
    fetch_ahead<Team>(from, count);
    if constexpr (std::same_as<In, accum<In>>) {
      return from;
    } else {
      team.for_each_run(count, detail::is_vector_aligned(from) && detail::is_vector_aligned(room),
                        [=](std::uint32_t begin, auto const& run) {
                          auto const values = run.read(from + begin);
                          run.write(room + begin, [&](std::uint32_t i) { return element_cast<accum<In>>(values[i]); });
                        });
      return room;
    }
  }
};

/// The residual to store if p - sent is not finite: 0 if the old residual is so large that a sum of squares of such
/// values overflows, otherwise the old residual. If such a large residual were stored, the sum would overflow again in
/// every step.
template <class A>
PITH_HD A bounded_residual(A residual) {
  return detail::magnitude(residual) <= (sizeof(A) == 4 ? A(0x1p47) : A(0x1p495)) ? residual : A{0};
}

/// A source of p = residual + g that stores the next residual (residual write-back), rounded to `Stored`: p - sent where
/// that is finite, and bounded_residual(residual) elsewhere. An engine that encodes all elements calls these functions:
///
///   store_residual(team, first, count, sent)   stores p - sent as the residual, where `sent` is the decoded payload
///   add(i, unsent)                             adds to a stored residual the part of a mean that In, half or bfloat16,
///                                              cannot hold
///
/// An engine that selects entries calls the following functions, but calls `write_back` only for entries that it sends:
///
///   old_residual(i)                        returns the stored residual of element i
///   store_input(team, first, count, p)     sets the residual to p where p is finite, and to bounded_residual(residual)
///                                          elsewhere
///   minus_gradient(i, p)                   returns p minus gradient element i: the old residual, up to rounding
///   write_back(i, value, old, sent)        sets the residual to value - sent if that is finite, else to
///                                          bounded_residual(old)
///
/// Engines whose threads compute elements in registers call these functions, if the source has them:
///
///   fetch(i)                               returns the values that `store_residual` reads. An engine fetches many
///                                          elements before it stores the first residual, so that their loads run in
///                                          parallel
///   store_residual(i, element, sent)       as `store_residual` for a block, where `element` is fetch(i)
template <class In, class Stored = accum<In>>
struct residual_source {
  static constexpr bool stores_residual = true;
  static constexpr bool is_exact = std::same_as<Stored, accum<In>>;
  using A = accum<In>;

  In const* g;
  Stored* residual;

  PITH_HD A operator()(std::uint64_t i) const { return old_residual(i) + element_cast<A>(g[i]); }
  PITH_HD residual_source tail(std::uint64_t first) const { return {g + first, residual + first}; }

  template <class Team, class Count>
  PITH_HD A const* load(Team const& team, std::uint64_t first, Count count, A* room) const {
    auto const* const gradient = g + first;
    auto const* const from = residual + first;
    fetch_ahead<Team>(gradient, count);
    fetch_ahead<Team>(from, count);
    auto const well =
        detail::is_vector_aligned(gradient) && detail::is_vector_aligned(from) && detail::is_vector_aligned(room);
    team.for_each_run(count, well, [=](std::uint32_t begin, auto const& run) {
      auto const own = run.read(gradient + begin);
      auto const old = run.read(from + begin);
      run.write(room + begin, [&](std::uint32_t i) { return element_cast<A>(old[i]) + element_cast<A>(own[i]); });
    });
    return room;
  }
  template <class Team, class Count>
  PITH_HD void store_residual(Team const& team, std::uint64_t first, Count count, A const* sent) const {
    auto const* const gradient = g + first;
    auto* const to = residual + first;
    auto const well =
        detail::is_vector_aligned(gradient) && detail::is_vector_aligned(to) && detail::is_vector_aligned(sent);
    team.for_each_run(count, well, [=](std::uint32_t begin, auto const& run) {
      auto const own = run.read(gradient + begin);
      auto const old = run.read(to + begin);
      auto const gone = run.read(sent + begin);
      run.write(to + begin, [&](std::uint32_t i) {
        auto const was = element_cast<A>(old[i]);
        return kept((was + element_cast<A>(own[i])) - gone[i], was);
      });
    });
  }

  /// The values that `store_residual` reads to write one residual.
  struct element {
    A old, own;
  };
  PITH_HD element fetch(std::uint64_t i) const { return {old_residual(i), element_cast<A>(g[i])}; }
  PITH_HD void store_residual(std::uint64_t i, element const& was, A sent) const {
    residual[i] = kept((was.old + was.own) - sent, was.old);
  }

  PITH_HD void add(std::uint64_t i, A unsent) const { residual[i] = saturated_cast<Stored>(old_residual(i) + unsent); }

  PITH_HD A old_residual(std::uint64_t i) const { return element_cast<A>(residual[i]); }
  PITH_HD A minus_gradient(std::uint64_t i, A p) const { return p - element_cast<A>(g[i]); }
  template <class Team, class Count>
  PITH_HD void store_input(Team const& team, std::uint64_t first, Count count, A const* p) const {
    auto* const to = residual + first;
    auto const well = detail::is_vector_aligned(to) && detail::is_vector_aligned(p);
    team.for_each_run(count, well, [=](std::uint32_t begin, auto const& run) {
      auto const all = run.read(p + begin);
      run.write(to + begin, [&](std::uint32_t i) { return kept(all[i], element_cast<A>(to[begin + i])); });
    });
  }
  PITH_HD void write_back(std::uint64_t i, A value, A old, A sent) const { residual[i] = kept(value - sent, old); }

 private:
  PITH_HD static Stored kept(A unsent, A old) {
    return saturated_cast<Stored>(is_finite(unsent) ? unsent : bounded_residual(old));
  }
};

/// A source whose stored residuals have all bits of p - sent. An engine that reads p again after `store_input` needs it.
/// A source is exact unless its member `is_exact` is false.
template <class Source>
concept exact_source = Source::stores_residual && !requires {
  requires !Source::is_exact;
};

/// The selected entries in ascending order of indices. `old` points to the previous residuals of these entries.
template <class Out>
struct selected_entries {
  std::uint32_t* indices;
  Out* values;
  accum<Out>* old = nullptr;
};

/// Writes the residuals of selected entries back to the source.
template <class Source, class Out>
struct write_back_selected {
  Source to;
  selected_entries<Out> of;
  Out const* sent;
  PITH_HD void operator()(std::uint64_t j) const { to.write_back(of.indices[j], of.values[j], of.old[j], sent[j]); }
};

/// A sink that writes `factor` times the sum of the ranks' decoded values to a tensor. If `takes_blocks` is false, an
/// engine calls `put` and `put_run`; otherwise the engine calls `store`:
///
///   put(i, sum)                      writes one value
///   store(team, first, count, sum)   writes the values of a block; may overwrite `sum`
///
/// Engines whose threads compute elements in registers call these functions, if the sink has them:
///
///   fetch(i)                         returns what the sink reads to write element i; `fetch` of a source does the same
///   put(i, was, sum)                 writes one value, where `was` is fetch(i)
template <class In>
struct tensor_sink {
  static constexpr bool takes_blocks = false;

  In* x;
  accum<In> factor;

  /// Rounds the value of one rank to the type In, as in a decoding of a single payload.
  PITH_HD static accum<In> rounded(accum<In> value) { return element_cast<accum<In>>(saturated_cast<In>(value)); }

  PITH_HD void put(std::uint64_t i, accum<In> sum) const { x[i] = saturated_cast<In>(factor * sum); }

  struct nothing {};
  PITH_HD static nothing fetch(std::uint64_t) { return {}; }
  PITH_HD void put(std::uint64_t i, nothing, accum<In> sum) const { put(i, sum); }

  /// Writes the values of an octet, as `put` does for one value.
  template <class Run>
  PITH_HD void put_run(std::uint64_t first, Run const& run, accum<In> const* sum) const {
    run.write(x + first, [&](std::uint32_t i) { return saturated_cast<In>(factor * sum[i]); });
  }
};

/// A sink that passes decoded values to a source with residual write-back.
template <class Source>
struct unsent_sink {
  static constexpr bool takes_blocks = true;

  Source from;

  template <class Team, class Count, class A>
  PITH_HD void store(Team const& team, std::uint64_t first, Count count, A* sent) const {
    from.store_residual(team, first, count, sent);
  }

  PITH_HD auto fetch(std::uint64_t i) const requires requires { from.fetch(i); }
  { return from.fetch(i); }
  template <class Element, class A>
  PITH_HD void put(std::uint64_t i, Element const& was, A sent) const {
    from.store_residual(i, was, sent);
  }
};
/// The largest value of a 16-bit mean that an exchange can multiply by *common. If `common` is null, it stands for 1.
template <class In>
PITH_HD inline accum<In> largest_mean(double const* common) {
  return common == nullptr ? largest_finite<In> : largest_finite<In> / static_cast<accum<In>>(*common);
}

/// A sink that passes decoded values to a source with residual write-back, and then writes these values to a tensor.
/// The source may read the same tensor.
template <class Source, class In>
struct unsent_and_sent_sink {
  static constexpr bool takes_blocks = true;

  Source from;
  tensor_sink<In> to;
  double const* common = nullptr;  ///< that of the context

  template <class Team, class Count, class A>
  PITH_HD void store(Team const& team, std::uint64_t first, Count count, A* sent) const {
    from.store_residual(team, first, count, sent);
    auto const sink = *this;
    team.for_each(count, [=](std::uint32_t i) { sink.deliver(first + i, sent[i]); });
  }

  PITH_HD auto fetch(std::uint64_t i) const requires requires { from.fetch(i); }
  { return from.fetch(i); }
  template <class Element, class A>
  PITH_HD void put(std::uint64_t i, Element const& was, A sent) const {
    from.store_residual(i, was, sent);
    deliver(i, sent);
  }

 private:
  /// Writes a value to the tensor. The source keeps the part that a 16-bit element cannot hold.
  PITH_HD void deliver(std::uint64_t i, accum<In> sent) const {
    if constexpr (std::same_as<In, accum<In>>) {
      to.put(i, sent);
    } else {
      auto const held = element_cast<accum<In>>(saturated_cast<In>(sent, largest_mean<In>(common)));
      from.add(i, is_finite(sent) ? sent - held : 0);
      to.put(i, held);
    }
  }
};

}}}  // namespace pith::PITH_ABI::ext
