// pith/sparsify/detail/nested_selection.hpp — selections that each take the largest entries of the previous selection.
#pragma once

#include <pith/core/detail/convert.hpp>
#include <pith/core/detail/summation.hpp>
#include <pith/core/source.hpp>
#include <pith/sparsify/select.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The number of values in a row. The squares of the values in a row are added to one sum.
inline constexpr std::uint32_t square_row = 64;

/// A source that also computes the sum of squares of each row that it loads. If a span is loaded twice, the sums are
/// computed twice with equal results.
template <class Source>
struct measuring_source {
  static constexpr bool stores_residual = Source::stores_residual;
  using A = decltype(std::declval<Source const&>()(0));

  Source from;
  double* rows;

  static constexpr std::uint64_t rows_for(std::uint64_t n) { return blocks_for(n, square_row); }

  PITH_HD A operator()(std::uint64_t i) const { return from(i); }

  template <class Team, class Count>
  PITH_HD A const* load(Team const& team, std::uint64_t first, Count count, A* room) const {
    auto const* const p = from.load(team, first, count, room);
    auto const term = square_of<A>{p};
    auto* const sums = rows + first / square_row;
    std::uint32_t whole = count / square_row, rest = count % square_row;
    if constexpr (Team::by_octets) {
      team.merge_rows(sums, 1, whole, constant<square_row>(), term, plus());
    } else {
      team.for_each(whole, [=](std::uint32_t row) {
        sums[row] = merge_row<double>(constant<square_row>(), term, row * square_row, plus());
      });
    }
    if (rest == 0) return p;
    team.for_each(1u, [=](std::uint32_t) {
      double sum = 0;
      for (std::uint32_t i = 0; i < rest; ++i) sum += term(whole * square_row + i);
      sums[whole] = sum;
    });
    return p;
  }

  PITH_HD A old_residual(std::uint64_t i) const { return from.old_residual(i); }
  PITH_HD A minus_gradient(std::uint64_t i, A p) const { return from.minus_gradient(i, p); }
  template <class Team, class Count>
  PITH_HD void store_input(Team const& team, std::uint64_t first, Count count, A const* p) const {
    from.store_input(team, first, count, p);
  }
  PITH_HD void write_back(std::uint64_t i, A value, A old, A sent) const { from.write_back(i, value, old, sent); }
};

/// Completes `some`, which is a selection among the entries of the selection `all`. Converts the indices of `some` from
/// positions in `all` to indices of the source. Also copies the previous residuals of the selected entries.
template <class In>
struct place_among {
  selected_entries<In> all, some;
  PITH_HD void operator()(std::uint64_t i) const {
    auto const j = some.indices[i];
    some.indices[i] = all.indices[j];
    if (some.old != nullptr) some.old[i] = all.old[j];
  }
};

/// A sequence of selections of descending size. The first selection reads the source. Each later selection reads the
/// previous selection.
template <class In, executor E, class Source>
class nested_selection {
 public:
  nested_selection(E const& exec, Source const& from, std::uint64_t n, workspace_on<E>& ws)
      : exec_(exec), ws_(ws), n_(n), from_{from, ws.template take<double>(noted::rows_for(n)).data} {}

  static std::size_t own_bytes(std::uint64_t n) { return scratch_for<double>(noted::rows_for(n)); }
  /// The function kept_bytes(k) returns the size of the result of a selection of k entries. The function
  /// scratch_bytes(n, k) returns the size of the temporary memory of a selection.
  static std::size_t kept_bytes(std::uint64_t k) {
    return scratch_for<std::uint32_t>(k) + scratch_for<In>(k) +
           (Source::stores_residual ? scratch_for<accum<In>>(k) : 0);
  }
  static std::size_t scratch_bytes(std::uint64_t n, std::uint64_t k) {
    return std::max({select_scratch_bytes<noted>(n, k), select_scratch_bytes<plain_source<In>>(n, k),
                     reduce_scratch_bytes<double>(n)});
  }

  /// Selects the k largest values of the source in the first call. In each later call, selects the k largest entries of
  /// the previous selection.
  selected_entries<In> const& select(std::uint64_t k) {
    if (k == selected_) return last_;
    auto const next = selected_entries<In>{take<std::uint32_t>(k), take<In>(k),
                                           Source::stores_residual ? take<accum<In>>(k) : nullptr};
    if (selected_ == 0) {
      select_largest(exec_, from_, n_, k, next, ws_);
    } else {
      auto const among = selected_entries<In>{next.indices, next.values};
      select_largest(exec_, plain_source<In>{last_.values}, selected_, k, among, ws_);
      exec_.for_each_index(k, place_among<In>{last_, next});
    }
    selected_ = k;
    return last_ = next;
  }

  /// `sum_all` computes the sum of squares of the source's values. `sum_selected` computes the sum of squares of the
  /// last selection.
  void sum_all(double* energy) const {
    reduce_into(exec_, energy, noted::rows_for(n_), plain_source<double>{from_.rows}, plus(), 0.0, ws_);
  }
  void sum_selected(double* energy) const {
    reduce_into(exec_, energy, selected_, square_of<In>{last_.values}, plus(), 0.0, ws_);
  }
  void write_back(In const* sent) const {
    if constexpr (Source::stores_residual)
      exec_.for_each_index(selected_, write_back_selected<Source, In>{from_.from, last_, sent});
  }

 private:
  using noted = measuring_source<Source>;

  template <class T>
  T* take(std::uint64_t count) const {
    return ws_.template take<T>(count).data;
  }

  E const& exec_;
  workspace_on<E>& ws_;
  std::uint64_t n_, selected_ = 0;
  noted from_;
  selected_entries<In> last_ = {};
};

}}}  // namespace pith::PITH_ABI::detail
