// pith/exchange/detail/agreement.hpp — a check for equal tensors and codecs, which throws on all ranks.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/comm/detail/lent.hpp>
#include <pith/core/buffer.hpp>
#include <pith/core/digest.hpp>
#include <pith/core/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// A small all-gather of host memory. The function allocates, and is used only outside of steps and for debugging.
template <class T, class Comm, executor E>
std::vector<T> gather_on_host(E const& exec, Comm& comm, std::vector<T> const& mine) {
  auto all = std::vector<T>(mine.size() * comm.size());
  auto memory = lent(buffer<T, E>(exec, mine.size() + all.size()));
  auto* const sent = (*memory).data();
  auto* const received = sent + mine.size();
  exec.upload(sent, mine.data(), mine.size() * sizeof(T));
  memory.wait(exec, [&] {
    return comm.all_gather(
        exec, span_on<E, std::byte const>(reinterpret_cast<std::byte const*>(sent), mine.size() * sizeof(T)),
        span_on<E, std::byte>(reinterpret_cast<std::byte*>(received), all.size() * sizeof(T)));
  });
  exec.download(all.data(), received, all.size() * sizeof(T));
  return all;
}

/// A zero-terminated text of fixed size, for messages between ranks.
template <std::size_t Size>
struct short_text {
  std::array<char, Size> letters = {};

  short_text() = default;
  explicit short_text(std::string const& text) {
    std::copy_n(text.data(), std::min(text.size(), Size - 1), letters.data());
  }
  /// The text, with `?` in place of unprintable characters, which a damaged message may contain.
  std::string words() const {
    auto shown = std::string(letters.begin(), std::find(letters.begin(), letters.end(), '\0'));
    std::ranges::replace_if(
        shown, [](char c) { return c < ' ' || c > '~'; }, '?');
    return shown;
  }
  friend bool operator==(short_text const&, short_text const&) = default;
};

inline std::uint64_t digest_of(std::vector<std::string> const& texts) {
  auto all = digest();
  for (auto const& words : texts) all << words;
  return all.value();
}

/// A description of a rank's exchange. If the rank could not build its exchange, `failure` is the reason.
struct agreement {
  using term = short_text<32>;
  using note = short_text<256>;

  /// The names of the `terms`, which must be equal on all ranks.
  static constexpr std::array names = {"the element type", "the executor", "the version",  "gather_mode",
                                       "bucket_bytes",     "is_weighted",  "verification", "seed"};
  std::array<term, names.size()> terms = {};
  std::uint64_t tensors = 0;  ///< the number of tensors
  std::uint64_t digest = 0;   ///< a digest of all tensors' descriptions
  std::uint64_t has_failed = 0;
  std::uint64_t number = 0;  ///< the number of exchanges that this process has built
  note failure = {};

  void describe(std::vector<std::string> const& all) {
    tensors = all.size();
    digest = digest_of(all);
  }
};

/// Throws agreement_error if a rank could not build its exchange.
inline void require_built(std::vector<agreement> const& each) {
  for (std::size_t rank = 0; rank < each.size(); ++rank) {
    if (each[rank].has_failed == 0) continue;
    throw agreement_error(sentence("gradient_exchange: rank ", rank, " failed: ", each[rank].failure.words()));
  }
}

inline void require_equal_terms(std::vector<agreement> const& each) {
  for (std::size_t rank = 1; rank < each.size(); ++rank) {
    for (std::size_t i = 0; i < agreement::names.size(); ++i) {
      if (each[rank].terms[i] == each[0].terms[i]) continue;
      throw agreement_error(sentence("gradient_exchange: rank ", rank, " differs from rank 0 in ", agreement::names[i],
                                     ": ", each[rank].terms[i].words(), ", not ", each[0].terms[i].words()));
    }
  }
}

/// Compares `count` values per rank. Returns the rank and the index of the first value that differs from rank 0's
/// value. Returns rank 0 if all values are equal.
template <class T>
std::pair<std::size_t, std::size_t> first_difference(std::vector<T> const& all, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    for (auto at = i + count; at < all.size(); at += count) {
      if (!(all[at] == all[i])) return {at / count, i};
    }
  }
  return {0, 0};
}

/// `differs` is true if this rank found a difference in the gathered values. Returns true if all ranks found a
/// difference, and false if no rank found a difference. If only some ranks found a difference, a message was damaged.
/// Then all ranks throw, so that no rank waits for another.
template <class Comm, executor E>
bool all_see_difference(E const& exec, Comm& comm, bool differs) {
  auto const seen = gather_on_host(exec, comm, std::vector(1, std::uint64_t{differs ? 1u : 0u}));
  auto const ranks = static_cast<std::size_t>(std::ranges::count(seen, 1u));
  if (ranks == seen.size() || ranks == 0) return ranks > 0;
  auto const first = std::ranges::find(seen, 1u) - seen.begin();
  throw communication_error(sentence("gradient_exchange: ", ranks, " of ", seen.size(),
                                     " ranks received descriptions that differ, the first is rank ", first,
                                     ": messages were damaged in transit"));
}

/// Throws the error for a contradiction: the digests of all tensors together differ between ranks, but the digest of
/// each single tensor is equal on all ranks.
[[noreturn]] inline void throw_no_difference() {
  throw communication_error(sentence(
      "gradient_exchange: digests differ, but the tensors of all ranks are equal: messages were damaged in transit"));
}

/// Throws on all ranks if tensors or codecs differ between ranks. The check all-gathers one digest per tensor, and then
/// the description of the first tensor that differs. Each rank sends `fewest + 1` digests, where `fewest` is the
/// smallest number of tensors on any rank. `fewest` is at most this rank's number of tensors, so a damaged number from
/// another rank cannot enlarge the message.
template <class Comm, executor E>
void require_equal_tensors(E const& exec, Comm& comm, std::vector<agreement> const& each,
                           std::vector<std::string> const& mine) {
  auto fewest = std::uint64_t{mine.size()};
  bool is_equal = true;
  for (auto const& a : each) {
    fewest = std::min(fewest, a.tensors);
    is_equal = is_equal && a.tensors == each[0].tensors && a.digest == each[0].digest;
  }
  if (!all_see_difference(exec, comm, !is_equal)) return;
  auto digests = std::vector<std::uint64_t>(fewest + 1);
  for (std::size_t i = 0; i < digests.size() && i < mine.size(); ++i) digests[i] = (digest() << mine[i]).value();
  auto const [rank, tensor] = first_difference(gather_on_host(exec, comm, digests), digests.size());
  if (rank == 0) throw_no_difference();
  auto const words = std::vector(1, agreement::note(tensor < mine.size() ? mine[tensor] : "none"));
  auto const all = gather_on_host(exec, comm, words);
  throw agreement_error(sentence("gradient_exchange: rank ", rank, " differs from rank 0 in tensor ", tensor, ": ",
                                 all[rank].words(), ", not ", all[0].words()));
}

inline std::string words_of(std::exception_ptr const& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (std::exception const& e) {
    return e.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

/// All-gathers one message per rank. A rank with a failure also sends its message, and then rethrows the failure, even
/// if the all-gather fails.
template <class T, class Comm, executor E>
std::vector<T> gather_or_rethrow(E const& exec, Comm& comm, T const& mine, std::exception_ptr const& failure) {
  auto all = std::vector<T>();
  try {
    all = gather_on_host(exec, comm, std::vector(1, mine));
  } catch (...) {
    if (!failure) throw;
  }
  if (failure) std::rethrow_exception(failure);
  return all;
}

/// All ranks call this function, which calls f. If f throws on a rank, that rank rethrows the exception, and the other
/// ranks throw agreement_error with the text `failed`, such as "could not load its state".
template <class Comm, executor E, class F>
void require_success(E const& exec, Comm& comm, char const* call, char const* failed, F const& f) {
  auto failure = std::exception_ptr();
  try {
    f();
  } catch (...) {
    failure = std::current_exception();
  }
  auto const all = gather_or_rethrow(exec, comm, std::uint64_t{failure ? 1u : 0u}, failure);
  auto const rank = std::ranges::find(all, 1u) - all.begin();
  if (rank < std::ssize(all))
    throw agreement_error(sentence(call, ": rank ", rank, " ", failed, ": see the error on rank ", rank));
}

inline constexpr auto* could_not_load = "could not load its state, and no rank has changed";

/// Throws on all ranks if the states that the ranks import were saved after different steps. `moment` is equal for
/// states of the same step. For example, it contains the number of steps.
template <class Comm, executor E>
void require_one_moment(E const& exec, Comm& comm, char const* call, std::vector<std::uint64_t> const& moment) {
  auto const rank = first_difference(gather_on_host(exec, comm, moment), moment.size()).first;
  if (rank != 0)
    throw agreement_error(sentence(call, ": rank ", rank, " differs from rank 0 in the step of its state, and no rank ",
                                   "has changed: import states that were saved after the same step"));
}

/// Throws on all ranks if a rank differs from rank 0, or could not build its exchange. A rank that could not build its
/// exchange rethrows `failure`. Costs two all-gathers if all ranks agree. Returns the `number` of rank 0.
template <class Comm, executor E>
std::uint64_t require_agreement(E const& exec, Comm& comm, agreement mine, std::vector<std::string> const& tensors,
                                std::exception_ptr const& failure) {
  mine.has_failed = failure ? 1 : 0;
  if (failure) mine.failure = agreement::note(words_of(failure));
  auto const each = gather_or_rethrow(exec, comm, mine, failure);
  require_built(each);
  require_equal_terms(each);
  require_equal_tensors(exec, comm, each, tensors);
  return each[0].number;
}

}}}  // namespace pith::PITH_ABI::detail
