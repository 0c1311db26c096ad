// pith/comm/detail/call_label.hpp — the label of a call, which the ranks compare so that different calls never mix.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/core/error.hpp>
#include <pith/core/transfer.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The function of an exchange that makes a call. Exchanges are numbered in the order in which rank 0 has built them.
/// `transfer` is the number of the transfer in its step, or 0 before the transfers.
struct caller {
  enum function : std::uint8_t { user, constructor, check, step, change, fit_buckets, import_state };

  function from = user;
  std::uint32_t exchange = 0, transfer = 0;

  friend bool operator==(caller const&, caller const&) = default;

  std::string words() const {
    constexpr std::array names = {" outside of exchanges",
                                  " in the constructor of an exchange",
                                  " in the check before a step",
                                  " in transfer ",
                                  " in change()",
                                  " in fit_buckets()",
                                  " in import_state()"};
    if (from < step) return names[from];
    return text(names[from], from == step ? text(transfer, " of a step") : text(), " of exchange ", exchange);
  }
};

/// The caller of this thread's calls.
inline constinit thread_local caller current_caller;

/// Sets `current_caller` during the lifetime of this object.
class calling {
 public:
  [[nodiscard]] explicit calling(caller by) : before_(std::exchange(current_caller, by)) {}
  calling(calling const&) = delete;
  calling& operator=(calling const&) = delete;
  ~calling() { current_caller = before_; }

 private:
  caller before_;
};

enum class call_kind : std::uint8_t {
  all_gather,
  all_to_all,
  send_recv,
  all_reduce,
  reduce_scatter,
  broadcast,
  split,
  duplicate
};

/// A call without its spans: the collective, element type, reduction, root and caller. The labels of all ranks must be
/// equal.
struct call_label {
  call_kind kind = call_kind::all_gather;
  element_kind of = element_kind::bytes;
  reduction how = reduction::sum;
  std::uint32_t root = 0;
  caller by = current_caller;

  friend bool operator==(call_label const&, call_label const&) = default;

  char const* name() const {
    constexpr std::array names = {"all_gather",     "all_to_all", "send_recv", "all_reduce",
                                  "reduce_scatter", "broadcast",  "split",     "MPI_Comm_idup"};
    return names[static_cast<std::size_t>(kind)];
  }
  std::string words() const {
    constexpr std::array elements = {"bytes", "float", "double", "half", "bfloat16", "int32", "int8"};
    if (kind == call_kind::broadcast) return text(name(), " from rank ", root);
    if (kind != call_kind::all_reduce && kind != call_kind::reduce_scatter) return name();
    return text(name(), " of ", elements[static_cast<std::size_t>(of)], how == reduction::sum ? " by sum" : " by max");
  }

  /// Returns the label as an integer below 2^47. The number of the exchange is reduced modulo 2^11, and the number of
  /// the transfer is at most 1023.
  std::int64_t packed() const {
    auto all = std::int64_t{by.from};
    auto const add = [&all](auto value, int bits) { all = all << bits | static_cast<std::int64_t>(value); };
    add(by.exchange % (1u << 11), 11);
    add(std::min(by.transfer, (1u << 10) - 1), 10);
    add(kind, 3);
    add(of, 3);
    add(how, 1);
    add(root, 16);
    return all;
  }
  static call_label unpacked(std::int64_t all) {
    auto const next = [&all](int bits) {
      auto const value = static_cast<std::uint32_t>(all & ((1 << bits) - 1));
      all >>= bits;
      return value;
    };
    auto label = call_label();
    label.root = next(16);
    label.how = static_cast<reduction>(next(1));
    label.of = static_cast<element_kind>(std::min(next(3), 6u));  // a damaged label must be printable
    label.kind = static_cast<call_kind>(next(3));
    label.by.transfer = next(10);
    label.by.exchange = next(11);
    label.by.from = static_cast<caller::function>(std::min(next(3), 6u));
    return label;
  }
};

/// Returns the error text for two ranks whose labels differ.
inline std::string mixed_calls(unsigned a, call_label const& x, unsigned b, call_label const& y) {
  if (b < a) return mixed_calls(b, y, a, x);
  auto const of = [is_equal = x.by == y.by](call_label const& l) { return l.words() + (is_equal ? "" : l.by.words()); };
  return text("rank ", a, " calls ", of(x), " while rank ", b, " calls ", of(y),
              ": all ranks must make the same calls in the same order");
}

/// Returns the error text for a call during another thread's call.
inline std::string calls_at_once(call_label const& label) {
  return text(label.name(), " was called", label.by.words(), " during a call of another thread",
              ": exchanges that step at the same time need one communicator each, for example split(0)");
}

/// The likely causes of a difference in size between two ranks.
inline constexpr auto* why_sizes_differ =
    ": one of these ranks has changed its exchange alone, uses another exchange or passed another tensor";

/// Returns the error text for two ranks whose spans differ in size.
inline std::string unequal_sizes(char const* call, unsigned a, std::size_t x, unsigned b, std::size_t y) {
  if (b < a) return unequal_sizes(call, b, y, a, x);
  return text(call, ": ranks must pass equal sizes, got ", x, " bytes on rank ", a, " and ", y, " bytes on rank ", b,
              why_sizes_differ);
}

}}}  // namespace pith::PITH_ABI::detail
