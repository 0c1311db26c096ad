// pith/comm/threads.hpp — a communicator whose ranks are threads of one process.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/comm/detail/arguments.hpp>
#include <pith/comm/detail/call_label.hpp>
#include <pith/comm/timeout.hpp>
#include <pith/core/draws.hpp>
#include <pith/core/error.hpp>
#include <pith/core/transfer.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// A barrier that breaks if a rank leaves the group or does not arrive within the timeout. Every rank that waits at a
/// broken barrier, or arrives later, throws. After close(), the ranks within a call end it, and the next call throws.
class leavable_barrier {
 public:
  leavable_barrier(unsigned ranks, timeout_duration timeout) : timeout_(timeout), is_here_(ranks) {
    require_timeout("run_ranks", timeout);
  }

  timeout_duration timeout() const { return timeout_; }

  /// The barrier at the start of a call. This barrier has a timeout.
  void arrive_and_wait(char const* call, unsigned rank) { meet(call, rank, timeout_, closed_by_); }
  /// A barrier within a call. This barrier has no timeout, since other ranks may still read this rank's memory.
  void arrive_and_stay(char const* call, unsigned rank) { meet(call, rank, for_ever, left_by_); }

  void leave(unsigned rank) {
    auto const lock = std::lock_guard(mutex_);
    if (!missing_.empty()) return;
    if (!left_by_) left_by_ = rank;
    if (!closed_by_) closed_by_ = rank;
    changed_.notify_all();
  }
  void close(unsigned rank) {
    auto const lock = std::lock_guard(mutex_);
    if (!closed_by_) closed_by_ = rank;
    changed_.notify_all();
  }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr timeout_duration for_ever{1e9};  // seconds; some clocks overflow at 1e11 seconds

  void meet(char const* call, unsigned rank, timeout_duration most, std::optional<unsigned> const& ended_by) {
    auto lock = std::unique_lock(mutex_);
    auto const is_broken = [&] { return ended_by || !missing_.empty(); };
    if (is_broken()) throw_broken(call, ended_by);
    auto const phase = phase_;
    is_here_[rank] = true;
    if (std::ranges::find(is_here_, false) == is_here_.end()) open();
    auto const end = clock::now() + std::chrono::duration_cast<clock::duration>(std::min(most, for_ever));
    if (!changed_.wait_until(lock, end, [&] { return phase_ != phase || is_broken(); })) give_up();
    if (phase_ == phase) throw_broken(call, ended_by);
  }
  void open() {
    is_here_.assign(is_here_.size(), false);
    ++phase_;
    changed_.notify_all();
  }
  void give_up() {
    for (unsigned r = 0; r < is_here_.size(); ++r) {
      if (!is_here_[r]) missing_.push_back(r);
    }
    changed_.notify_all();
  }

  [[noreturn]] void throw_broken(char const* call, std::optional<unsigned> const& ended_by) const {
    if (ended_by) {
      throw communication_error(sentence("thread_communicator: ", call, " cannot end: rank ", *ended_by,
                                         " returned or threw: see its error"));
    }
    throw communication_error(sentence("thread_communicator: ", call, " did not end within ", timeout_.count(),
                                       " s: ", gone_or_stuck(missing_)));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  timeout_duration timeout_;
  std::vector<bool> is_here_;
  std::uint64_t phase_ = 0;
  std::optional<unsigned> left_by_, closed_by_;
  std::vector<unsigned> missing_;
};

/// The arguments of a rank's call, which the other ranks read.
struct shown_memory {
  call_label label;
  void* data = nullptr;
  std::size_t bytes = 0;
  unsigned number = 0;                  ///< the receiving rank of send_recv, or the color of a split
  class thread_group* group = nullptr;  ///< the result of a split
};

/// The ranks of a communicator. A group owns the groups that `split()` makes from it.
class thread_group {
 public:
  thread_group(unsigned ranks, timeout_duration timeout) : barrier(ranks, timeout), shown(ranks), calls(ranks) {}

  leavable_barrier barrier;
  std::vector<shown_memory> shown;
  std::vector<std::mutex> calls;  ///< one per rank, locked during the rank's call

  thread_group& add_part(std::vector<unsigned> ranks) {
    auto const lock = std::lock_guard(mutex_);
    auto const size = static_cast<unsigned>(ranks.size());
    parts_.push_back({std::move(ranks), std::make_unique<thread_group>(size, barrier.timeout())});
    return *parts_.back().members;
  }

  /// A rank that leaves or closes a group does the same to the groups that `split()` made from that group.
  void leave(unsigned rank) { end(rank, &leavable_barrier::leave); }
  void close(unsigned rank) { end(rank, &leavable_barrier::close); }

 private:
  void end(unsigned rank, void (leavable_barrier::*how)(unsigned)) {
    (barrier.*how)(rank);
    auto const lock = std::lock_guard(mutex_);
    for (auto const& p : parts_) {
      auto const place = std::ranges::find(p.ranks, rank);
      if (place != p.ranks.end()) p.members->end(static_cast<unsigned>(place - p.ranks.begin()), how);
    }
  }

  struct part {
    std::vector<unsigned> ranks;
    std::unique_ptr<thread_group> members;
  };
  std::mutex mutex_;
  std::vector<part> parts_;
};

}  // namespace detail

/// A communicator for one rank of a group of threads. Every call waits for all ranks. Reductions add the ranks' values
/// in rank order, so all ranks get bitwise equal results. 16-bit floats are added as floats.
///
///   requires    host memory. One thread per rank at a time uses the communicator, and only while run_ranks runs
///   complexity  only split() allocates
///   errors      communication_error. A rank throws this error if it would receive another number of bytes than it
///               expects. All ranks throw it if ranks make different calls, or if a call times out
///               (thread_options::timeout). Calls differ if the collective, element type, reduction or root differs, or
///               the function, number or transfer of the exchange. If two threads of a rank call at the same time, the
///               second thread throws, and so does every call that not all ranks have begun. If a rank has returned or
///               thrown, the other ranks throw. After an error, the spans have unspecified values
///   owns        nothing; run_ranks owns the group
class thread_communicator {
 public:
  thread_communicator(detail::thread_group& group, unsigned rank) : group_(&group), rank_(rank) {}

  unsigned rank() const { return rank_; }
  unsigned size() const { return static_cast<unsigned>(group_->shown.size()); }

  template <detail::host_executor E>
  completed all_gather(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    arguments().all_gather(mine.size(), all.size());
    auto const call = show({.label = {kind::all_gather}, .data = bytes_of(mine), .bytes = mine.size()});
    for (unsigned r = 0; r < size(); ++r) expect(r, shown(r).bytes, mine.size());
    for (unsigned r = 0; r < size(); ++r) exec.copy(all.data() + r * mine.size(), shown(r).data, mine.size());
    return done();
  }

  template <detail::host_executor E>
  completed all_to_all(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    arguments().all_to_all(mine.size(), all.size());
    auto const call = show({.label = {kind::all_to_all}, .data = bytes_of(mine), .bytes = mine.size()});
    for (unsigned r = 0; r < size(); ++r) expect(r, shown(r).bytes, mine.size());
    auto const piece = mine.size() / size();
    for (unsigned r = 0; r < size(); ++r) exec.copy(all.data() + r * piece, at(r, rank_ * piece), piece);
    return done();
  }

  template <detail::host_executor E>
  completed send_recv(E const& exec, span_on<E, std::byte const> mine, unsigned to, span_on<E, std::byte> theirs,
                      unsigned from) {
    arguments().send_recv(mine.size(), to, theirs.size(), from);
    auto const call = show({.label = {kind::send_recv}, .data = bytes_of(mine), .bytes = mine.size(), .number = to});
    expect(from, shown(from).number == rank_ ? shown(from).bytes : 0, theirs.size());
    exec.copy(theirs.data(), shown(from).data, theirs.size());
    return done();
  }

  /// Rank r reduces part r of the tensor over all ranks, in the memory of rank r. Then every rank copies the parts of
  /// all other ranks.
  template <detail::host_executor E, class T>
  completed all_reduce(E const& exec, span<T, host_space> x, reduction how) {
    auto const call = show({.label = {kind::all_reduce, kind_of<T>(), how}, .data = x.data(), .bytes = x.size_bytes()});
    for (unsigned r = 0; r < size(); ++r) expect(r, shown(r).bytes, x.size_bytes());
    auto const part = [&](unsigned r) { return x.size() * r / size(); };
    for (auto i = part(rank_); i < part(rank_ + 1); ++i) x.data()[i] = reduced<T>(i, how);
    stay();
    for (unsigned r = 0; r < size(); ++r) {
      auto const first = part(r) * sizeof(T);
      if (r != rank_) exec.copy(x.data() + part(r), at(r, first), part(r + 1) * sizeof(T) - first);
    }
    return done();
  }

  template <detail::host_executor E, class T>
  completed reduce_scatter(E const&, span<std::type_identity_t<T> const, host_space> mine, span<T, host_space> part,
                           reduction how) {
    arguments().reduce_scatter(mine.size(), part.size());
    auto const call = show({.label = {kind::reduce_scatter, kind_of<T>(), how},
                            .data = const_cast<T*>(mine.data()),
                            .bytes = mine.size_bytes()});
    for (unsigned r = 0; r < size(); ++r) expect(r, shown(r).bytes, mine.size_bytes());
    for (std::size_t i = 0; i < part.size(); ++i) part[i] = reduced<T>(rank_ * part.size() + i, how);
    return done();
  }

  template <detail::host_executor E>
  completed broadcast(E const& exec, span_on<E, std::byte> x, unsigned root) {
    arguments().peer("broadcast", "root", root);
    auto const call = show({.label = {.kind = kind::broadcast, .root = root}, .data = x.data(), .bytes = x.size()});
    expect(root, shown(root).bytes, x.size());
    if (rank_ != root) exec.copy(x.data(), shown(root).data, x.size());
    return done();
  }

  /// The lowest rank of each color makes the group of that color.
  thread_communicator split(unsigned color) {
    auto const call = show({.label = {kind::split}, .number = color});
    auto ranks = std::vector<unsigned>();
    for (unsigned r = 0; r < size(); ++r) {
      if (shown(r).number == color) ranks.push_back(r);
    }
    auto const place = std::ranges::find(ranks, rank_) - ranks.begin();
    auto const first = ranks.front();
    done();
    if (place == 0) group_->shown[rank_].group = &group_->add_part(std::move(ranks));
    stay();
    auto& part = *shown(first).group;
    done();
    return {part, static_cast<unsigned>(place)};
  }

 private:
  using kind = detail::call_kind;

  detail::collective_arguments arguments() const { return {"thread_communicator", rank_, size()}; }

  template <class Space>
  static std::byte* bytes_of(span<std::byte const, Space> x) {
    return const_cast<std::byte*>(x.data());
  }

  /// Shows the arguments of this rank's call, and compares the labels of all ranks. Returns a lock that the call holds
  /// until it returns, so that a call of a second thread of this rank throws.
  [[nodiscard]] std::unique_lock<std::mutex> show(detail::shown_memory const& memory) {
    auto call = std::unique_lock(group_->calls[rank_], std::try_to_lock);
    if (!call) {
      // Either of the two calls may belong to the other ranks' call. That call ends, since it reads memory of all ranks.
      group_->close(rank_);
      throw communication_error(detail::sentence("thread_communicator: ", detail::calls_at_once(memory.label)));
    }
    group_->shown[rank_] = memory;
    group_->barrier.arrive_and_wait(memory.label.name(), rank_);
    for (unsigned r = 1; r < size(); ++r) {
      if (shown(r).label != shown(0).label) fail(detail::mixed_calls(0, shown(0).label, r, shown(r).label));
    }
    return call;
  }
  detail::shown_memory const& shown(unsigned r) const { return group_->shown[r]; }
  std::byte* at(unsigned r, std::size_t offset) const { return static_cast<std::byte*>(shown(r).data) + offset; }

  void stay() { group_->barrier.arrive_and_stay(shown(rank_).label.name(), rank_); }
  /// Waits until all ranks have read the memory of the other ranks.
  completed done() {
    stay();
    return {};
  }

  void expect(unsigned from, std::size_t got, std::size_t expected) {
    if (got == expected) return;
    fail(shown(rank_).label.name(), " of rank ", rank_, " must receive ", expected, " bytes from rank ", from, ", got ",
         got, detail::why_sizes_differ);
  }

  /// Calls done() and then throws. Until `done()` returns, other ranks may read this rank's memory.
  template <class... Parts>
  [[noreturn]] void fail(Parts const&... parts) {
    done();
    throw communication_error(detail::sentence("thread_communicator: ", parts...));
  }

  template <class T>
  T reduced(std::size_t i, reduction how) const {
    using A = std::conditional_t<std::integral<T>, T, accum<T>>;
    auto const element = [&](unsigned r) { return element_cast<A>(static_cast<T const*>(shown(r).data)[i]); };
    A total = element(0);
    for (unsigned r = 1; r < size(); ++r)
      total = how == reduction::sum ? static_cast<A>(total + element(r)) : std::max(total, element(r));
    return element_cast<T>(total);
  }

  detail::thread_group* group_;
  unsigned rank_;
};

static_assert(communicator<thread_communicator, archetype> &&
              calls_of<thread_communicator, archetype> == optional_calls::all());

namespace detail {

/// The exceptions of all ranks. `followed_` has the exceptions of type communication_error, which another rank's error
/// may have caused. `own_` has all other exceptions.
class rank_errors {
 public:
  explicit rank_errors(unsigned ranks) : own_(ranks), followed_(ranks) {}

  template <class F>
  void catch_from(unsigned rank, F const& f) {
    try {
      f();
    } catch (communication_error const&) {
      followed_[rank] = std::current_exception();
    } catch (...) {
      own_[rank] = std::current_exception();
    }
  }

  void rethrow_first() const {
    for (auto const* errors : {&own_, &followed_}) {
      for (auto const& error : *errors) {
        if (error) std::rethrow_exception(error);
      }
    }
  }

 private:
  std::vector<std::exception_ptr> own_, followed_;
};

/// Starts run(rank) on `ranks` threads and joins them. If a thread cannot be started, the communicator's calls on the
/// other threads throw.
template <class F>
void join_threads(unsigned ranks, leavable_barrier& barrier, F const& run) {
  auto threads = std::vector<std::jthread>();
  try {
    for (unsigned r = 0; r < ranks; ++r) threads.emplace_back(run, r);
  } catch (...) {
    barrier.leave(static_cast<unsigned>(threads.size()));
    throw;
  }
}

}  // namespace detail

/// Options of run_ranks.
struct thread_options {
  timeout_duration timeout = default_timeout;  ///< the time that a rank waits for the other ranks to make the same call
};

/// Calls f(communicator) on `ranks` threads and joins them. If f throws on a rank, the next communicator call of every
/// other rank throws too. `run_ranks` then throws the exception of the lowest rank whose exception is not a
/// communication_error. If there are only communication_errors, `run_ranks` throws that of the lowest rank.
template <class F>
void run_ranks(unsigned ranks, F const& f, thread_options const& options = {}) {
  detail::require(ranks >= 1 && ranks < shared_rank, "run_ranks: ranks must be in [1, 65534], got ", ranks);
  auto group = detail::thread_group(ranks, options.timeout);
  auto errors = detail::rank_errors(ranks);
  detail::join_threads(ranks, group.barrier, [&](unsigned rank) {
    errors.catch_from(rank, [&] { f(thread_communicator(group, rank)); });
    group.leave(rank);
  });
  errors.rethrow_first();
}

}}  // namespace pith::PITH_ABI
