// pith/collective/sharding.hpp — the division of a tensor into shards, one per rank, as in ZeRO and FSDP.
#pragma once

#include <pith/core/detail/pack.hpp>
#include <pith/core/error.hpp>
#include <pith/core/shape.hpp>
#include <pith/core/workspace.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pith { inline namespace PITH_ABI {

/// A rule that divides a tensor into consecutive shards, one per rank.
///
///   sharding::equal()   sizes that differ by at most one element; the larger shards come first
///   sharding::rows()    ceil(rows / ranks) rows per rank, as torch.chunk on dimension 0; the last shards may be short
///                       or empty. In a vector, each element is a row. A matrix of one row counts as a vector: for such
///                       a tensor, pass the sizes
///   sharding(sizes)     sizes[r] elements for rank r. Throws std::invalid_argument if the sum is 2^64 or more
class sharding {
 public:
  static sharding equal() { return sharding(form::equal); }
  static sharding rows() { return sharding(form::rows); }
  explicit sharding(std::vector<std::uint64_t> const& sizes) : form_(form::given) {
    for (auto const size : sizes) {
      detail::require(size <= ~firsts_.back(), "sharding: sizes must sum to less than 2^64, got ", size, " after ",
                      firsts_.back());
      firsts_.push_back(firsts_.back() + size);
    }
  }

  /// The rule in a codec's text: empty, "rows" or "sizes(10,20,30)".
  std::string name() const {
    if (form_ == form::equal) return "";
    if (form_ == form::rows) return "rows";
    auto text = std::string();
    for (std::size_t r = 1; r < firsts_.size(); ++r)
      text += detail::text(r == 1 ? "" : ",", firsts_[r] - firsts_[r - 1]);
    return detail::text("sizes(", text, ")");
  }

  /// The text of an exchange with this rule: exchange(codec) or exchange(codec,rule).
  std::string name_of(std::string_view exchange, std::string_view codec) const {
    return detail::text(exchange, "(", codec, form_ == form::equal ? "" : ",", name(), ")");
  }

  /// The index of the first element of a rank's shard. With rank = ranks, returns the number of elements. Throws
  /// std::invalid_argument if there is no such rank, or if the sizes are for another number of ranks.
  std::uint64_t first(shape const& dims, unsigned ranks, unsigned rank) const {
    detail::require(ranks > 0, "sharding::first: ranks must be at least 1, got 0");
    detail::require(rank <= ranks, "sharding::first: rank must be at most ", ranks, ", the number of ranks, got ",
                    rank);
    if (form_ == form::given && firsts_.size() != std::size_t{ranks} + 1) require_fit("sharding::first", dims, ranks);
    if (form_ == form::given) return firsts_[rank];
    if (form_ == form::equal) return dims.n / ranks * rank + std::min<std::uint64_t>(rank, dims.n % ranks);
    auto const row = dims.rows > 1 ? std::max<std::uint64_t>(dims.columns(), 1) : 1, rows = dims.n / row;
    auto const chunk = rows / ranks + (rows % ranks != 0);
    return chunk == 0 || rank > rows / chunk || rank == ranks ? dims.n : rank * chunk * row;
  }

  /// Throws std::invalid_argument if the sizes do not fit a tensor and a number of ranks.
  void require_fit(char const* call, shape const& dims, unsigned ranks) const {
    if (form_ != form::given) return;
    detail::require(firsts_.size() == std::size_t{ranks} + 1, call, ": sizes must have ", ranks,
                    " entries, one per rank, got ", name());
    detail::require(firsts_.back() == dims.n, call, ": sizes must sum to ", dims.n, ", got ", name());
  }

  friend bool operator==(sharding const&, sharding const&) = default;

 private:
  enum class form : std::uint8_t { equal, rows, given };

  explicit sharding(form how) : form_(how) {}

  form form_;
  std::vector<std::uint64_t> firsts_ = {0};  ///< with given sizes, the first element of each shard, and the end
};

namespace detail {

/// The shards of one tensor. Each shard is encoded as a separate vector.
struct tensor_shards {
  sharding const& rule;
  shape whole;
  unsigned ranks;

  std::uint64_t first(unsigned rank) const { return rule.first(whole, ranks, rank); }
  shape dims(unsigned rank) const { return {first(rank + 1) - first(rank)}; }
  /// The position of a shard in the tensor's random bits. Eight elements share a block of random bits, so shards need
  /// positions that are multiples of 8, between which the shards' elements fit.
  std::uint64_t first_draw(unsigned rank) const { return align_up(first(rank), octet) + octet * rank; }

  /// The largest result of f for the shape of a shard.
  template <class F>
  auto most(F const& f) const {
    auto largest = f(dims(0));
    for (unsigned rank = 1; rank < ranks; ++rank) largest = std::max(largest, f(dims(rank)));
    return largest;
  }
};

}  // namespace detail
}}  // namespace pith::PITH_ABI
