// pith/comm/detail/mpi_request.hpp — pending MPI calls, with the comparison of calls between ranks and the timeout.
#pragma once

#include <pith/comm/detail/call_label.hpp>
#include <pith/comm/timeout.hpp>
#include <pith/core/error.hpp>

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

namespace detail {

inline bool is_mpi_running() {
  int has_begun = 0, has_ended = 0;
  MPI_Initialized(&has_begun);
  MPI_Finalized(&has_ended);
  return has_begun && !has_ended;
}

/// A number below 2^47, with the rank that passes it. The maximum over the ranks of `packed()` contains the largest
/// number and the lowest rank that passes this number.
struct ranked_number {
  std::int64_t number;
  unsigned rank;

  static constexpr std::int64_t max_ranks = 1 << 16;

  ranked_number negated() const { return {-number, rank}; }
  std::int64_t packed() const { return number * max_ranks + (max_ranks - 1 - rank); }
  static ranked_number unpacked(std::int64_t all) {
    return {all >> 16, static_cast<unsigned>(max_ranks - 1 - (all & (max_ranks - 1)))};
  }
};

/// The memory that MPI reads and writes during a call. Later calls reuse the memory, so a step allocates nothing.
struct mpi_call {
  struct message {
    MPI_Request request = MPI_REQUEST_NULL;
    int peer = MPI_PROC_NULL;  ///< the partner of a point-to-point message
  };
  std::vector<message> messages;
  std::vector<MPI_Datatype> types;
  std::vector<std::byte> memory;

  /// The messages that compare the ranks' labels and sizes. A collective receives the maxima over the ranks of label,
  /// size, -label and -size. send_recv receives label and size from each of its two partners, and compares them with
  /// `expected`.
  std::array<message, 2> agreement;
  std::array<std::int64_t, 4> sent = {}, expected = {}, received = {};
  call_label label;
  int tag = 0;  ///< differs between successive calls; a call uses the tags up to tag + 2
  bool has_agreed = false;

  void clear() {
    for (auto& type : types) MPI_Type_free(&type);
    types.clear(), messages.clear();
    agreement = {};
    sent = expected = received = {};
    has_agreed = false;
  }
};

/// State that a communicator shares with its requests: the timeout, the pending calls and the first error. After an
/// error, every call throws this error. Calls of several threads at once are such an error.
class mpi_link {
 public:
  explicit mpi_link(timeout_duration timeout) : timeout_(timeout) { require_timeout("mpi_communicator", timeout); }

  /// Sets the communicator on which the ranks compare their calls.
  void use(MPI_Comm comm, unsigned rank, int size) { comm_ = comm, rank_ = rank, size_ = size; }
  ranked_number ranked(std::uint64_t number) const { return {static_cast<std::int64_t>(number), rank_}; }

  /// Returns a size and the number of the call modulo 128. If a rank calls send_recv while the others call a
  /// collective, MPI joins this rank's next collective to the collective of the others. The numbers of these two calls
  /// then differ.
  ranked_number ranked_size(mpi_call const& call, std::size_t size) const {
    return ranked(size << 7 | static_cast<std::size_t>(call.tag / 3 % 128));
  }

  timeout_duration timeout() const { return timeout_; }
  auto lock() { return std::unique_lock(mutex_); }
  bool is_usable() const { return broken_.empty() && is_mpi_running(); }

  void require_usable() {
    if (!broken_.empty()) throw communication_error(broken_);
    if (!is_mpi_running()) fail(sentence("mpi_communicator: calls must end before MPI_Finalize: MPI has ended"));
  }
  void check(int code, char const* call) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    MPI_Error_string(code, text, &length);
    std::replace(text, text + length, '\n', ' ');
    fail(sentence("mpi_communicator: ", call, ": ", text));
  }
  [[noreturn]] void fail(std::string const& text) {
    broken_ = text;
    throw communication_error(text);
  }

  std::unique_ptr<mpi_call> take(call_label const& label) {
    auto const held = lock();
    require_usable();
    require_one_thread(label);
    if (idle_.empty()) idle_.push_back(std::make_unique<mpi_call>());
    auto call = std::move(idle_.back());
    idle_.pop_back();
    call->label = label;
    call->tag = static_cast<int>(3 * (calls_++ % 10000));  // equal on all ranks: all make the same calls
    agreeing_.push_back(call.get());
    ++pending_;
    return call;
  }
  /// Keeps the memory of a finished call for later calls. The memory of a failed call is never freed, since MPI may
  /// still use it.
  void give_back(std::unique_ptr<mpi_call> call) {
    auto const held = lock();
    --pending_;
    if (!is_usable()) return static_cast<void>(call.release());
    call->clear();
    idle_.push_back(std::move(call));
    if (pending_ == 0 && !misuse_.empty()) end_misuse();
  }

  /// Begins the comparison of all ranks' labels and sizes. Returns MPI's error code.
  int compare(mpi_call& call, std::size_t size) {
    auto const own = std::array{ranked(static_cast<std::uint64_t>(call.label.packed())), ranked_size(call, size)};
    for (std::size_t i = 0; i < 2; ++i) call.sent[i] = own[i].packed(), call.sent[i + 2] = own[i].negated().packed();
    return MPI_Iallreduce(call.sent.data(), call.received.data(), 4, MPI_INT64_T, MPI_MAX, comm_,
                          &call.agreement[0].request);
  }
  /// Checks the results of completed comparisons, in the order of the calls. If ranks differ, all ranks that take part
  /// in the call throw. A later message may then belong to another call. MPI_Test is not called for such a message,
  /// because MPI would pass its error to the error handler of MPI_COMM_WORLD.
  void agree() {
    require_usable();
    while (!agreeing_.empty()) {
      auto& call = *agreeing_.front();
      if (!has_compared(call)) return require_partners(call);
      call.has_agreed = true;
      agreeing_.erase(agreeing_.begin());
    }
  }
  std::vector<mpi_call*> const& agreeing() const { return agreeing_; }
  bool is_done(MPI_Request& request) {
    int done = 0;
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done;
  }

 private:
  static constexpr int failure_tag = 30'000;  ///< above the tags of calls

  /// Throws if another rank has failed, or calls send_recv and so takes no part in this collective.
  void require_partners(mpi_call const& call) {
    if (++polls_ % 64 != 0) return;  // MPI_Iprobe takes longer than a comparison that is nearly complete
    auto theirs = std::array<std::int64_t, 2>();
    if (auto const peer = receive(failure_tag, theirs))
      fail(sentence("mpi_communicator: ", call.label.name(), " cannot end: see the error of rank ", *peer));
    for (int const tag : {call.tag + 1, call.tag + 2}) {
      if (call.agreement[1].peer != MPI_PROC_NULL || !receive(tag, theirs)) continue;
      tell_failure();
      require_equal(call, 0, ranked_number::unpacked(theirs[0]), ranked_number::unpacked(call.sent[0]));
    }
  }
  /// Receives a message if one has arrived, and returns its sender.
  std::optional<int> receive(int tag, std::array<std::int64_t, 2>& to) {
    int has_arrived = 0;
    MPI_Status status;
    check(MPI_Iprobe(MPI_ANY_SOURCE, tag, comm_, &has_arrived, &status), "MPI_Iprobe");
    if (!has_arrived) return {};
    check(MPI_Recv(to.data(), 2, MPI_INT64_T, status.MPI_SOURCE, tag, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
    return status.MPI_SOURCE;
  }
  /// Sends a message to all other ranks, so that their pending or next call throws. These ranks may receive the message
  /// much later, so its memory is never freed.
  void tell_failure() {
    auto& call = *new mpi_call;
    for (int rank = 0; rank < size_; ++rank)
      if (rank != static_cast<int>(rank_))
        MPI_Isend(call.sent.data(), 2, MPI_INT64_T, rank, failure_tag, comm_, &call.agreement[0].request);
  }
  void require_one_thread(call_label const& label) {
    auto const thread = std::this_thread::get_id();
    if (pending_ > 0 && thread != thread_) {
      misuse_ = sentence("mpi_communicator: ", calls_at_once(label));
      throw communication_error(misuse_);
    }
    thread_ = thread;
  }
  /// Ends the use of the communicator. The pending calls of the first thread have ended before, as on the other ranks.
  void end_misuse() {
    broken_ = misuse_;
    tell_failure();
  }
  /// Whether all comparisons of a call are complete. Throws if one of them has found a difference.
  bool has_compared(mpi_call& call) {
    auto const received = [&](std::size_t i) { return ranked_number::unpacked(call.received[i]); };
    auto const expected = [&](std::size_t i) { return ranked_number::unpacked(call.expected[i]); };
    auto const has_partners = call.agreement[1].peer != MPI_PROC_NULL;
    bool are_done = true;
    for (std::size_t at = 0; at < (has_partners ? 4 : 2); at += 2) {
      auto const is_here = is_done(call.agreement[at / 2].request);
      for (std::size_t i = at; is_here && i < at + 2; ++i)
        require_equal(call, i % 2, received(i), has_partners ? expected(i) : received(i + 2).negated());
      are_done = are_done && is_here;
    }
    return are_done;
  }
  /// Compares labels if `of` is 0, and sizes if `of` is 1.
  void require_equal(mpi_call const& call, std::size_t of, ranked_number a, ranked_number b) {
    if (a.number == b.number) return;
    auto const call_number = [&](std::size_t i) {
      return std::abs(ranked_number::unpacked(call.received[i]).number) % 128;
    };
    // Ranks in send_recv do not take part in this comparison.
    if (call.agreement[1].peer == MPI_PROC_NULL && call_number(1) != call_number(3)) tell_failure();
    auto const size = [](ranked_number n) { return static_cast<std::size_t>(n.number >> 7); };
    if (of == 1 && size(a) == size(b))
      fail(sentence("mpi_communicator: ", call.label.name(), ": ranks ", a.rank, " and ", b.rank,
                    " made different calls before: all ranks must make the same calls in the same order"));
    fail(sentence("mpi_communicator: ",
                  of == 0 ? mixed_calls(a.rank, call_label::unpacked(a.number), b.rank, call_label::unpacked(b.number))
                          : unequal_sizes(call.label.name(), a.rank, size(a), b.rank, size(b))));
  }

  timeout_duration timeout_;
  std::mutex mutex_;
  std::string broken_;
  std::vector<std::unique_ptr<mpi_call>> idle_;
  std::vector<mpi_call*> agreeing_;  ///< the pending calls that the ranks have not compared, in the order of the calls
  std::size_t pending_ = 0;
  std::uint32_t calls_ = 0, polls_ = 0;
  std::thread::id thread_;  ///< the thread of the last call
  std::string misuse_;      ///< the error of a call during another thread's call
  MPI_Comm comm_ = MPI_COMM_NULL;
  unsigned rank_ = 0;
  int size_ = 0;
};

}  // namespace detail

/// A pending call of an mpi_communicator. The call consists of one or more MPI calls. The call ends in `wait()`, in a
/// `test()` that returns true, or in the destructor, which waits. A failed call is abandoned, and its memory is never
/// freed, since MPI may still use it.
///
///   requires    the call ends before its communicator is destroyed; only the thread that uses the communicator uses
///               the request
///   errors      wait() and test() throw communication_error; the destructor throws nothing
class mpi_request {
 public:
  mpi_request(detail::mpi_link& link, detail::call_label const& label) : link_(&link), call_(link.take(label)) {}
  mpi_request(mpi_request&&) noexcept = default;
  mpi_request& operator=(mpi_request&&) = delete;
  ~mpi_request() {
    if (!call_) return;
    try {
      end();
    } catch (communication_error const&) {  // the communicator's next call throws the error again
    }
    link_->give_back(std::move(call_));
  }

  template <class E>
  void wait(E const&) {
    end();
  }
  template <class E>
  bool test(E const&) {
    return poll();
  }

  /// Waits on the host. Between polls, the thread first does nothing, later yields, and finally sleeps.
  void end() {
    for (unsigned tries = 0; !poll(); ++tries) {
      if (tries >= patient) {
        std::this_thread::sleep_for(nap);
      } else if (tries >= hasty) {
        std::this_thread::yield();
      }
    }
  }

  /// Returns the MPI_Request for the next MPI call. `peer` is the rank for which the MPI call waits. By default, the
  /// MPI call waits for all ranks.
  MPI_Request* next(int peer = MPI_PROC_NULL) {
    call_->messages.push_back({MPI_REQUEST_NULL, peer});
    return &call_->messages.back().request;
  }
  void check(int code) { link_->check(code, name()); }
  /// Returns memory that is valid for as long as MPI may use it.
  std::byte* memory(std::size_t bytes) {
    call_->memory.resize(bytes);
    return call_->memory.data();
  }
  /// The MPI count and data type that select the first n bytes of each piece, where pieces are `stride` bytes apart.
  std::pair<int, MPI_Datatype> strided(int n, std::size_t stride) {
    if (static_cast<std::size_t>(n) == stride) return {n, MPI_BYTE};
    auto bytes = MPI_DATATYPE_NULL;
    check(MPI_Type_contiguous(n, MPI_BYTE, &bytes));
    auto& type = call_->types.emplace_back(MPI_DATATYPE_NULL);
    check(MPI_Type_create_resized(bytes, 0, static_cast<MPI_Aint>(stride), &type));
    check(MPI_Type_commit(&type));
    check(MPI_Type_free(&bytes));
    return {1, type};
  }
  detail::mpi_call& call() { return *call_; }
  char const* name() const { return call_->label.name(); }

 private:
  using clock = std::chrono::steady_clock;

  bool poll() {
    auto const held = link_->lock();
    link_->agree();
    if (call_->has_agreed) {
      while (done_ < call_->messages.size() && link_->is_done(call_->messages[done_].request)) ++done_;
      if (done_ == call_->messages.size()) return true;
    }
    auto const now = clock::now();
    if (begin_ == clock::time_point()) begin_ = now;
    if (now - begin_ > link_->timeout()) require_ended();
    return false;
  }

  /// Throws if a request is pending. If this process was suspended for longer than the timeout, the requests may have
  /// completed during that time. This function then does not throw, and the next poll detects the completion.
  void require_ended() {
    auto waits = false;
    auto missing = std::vector<unsigned>();
    auto const look = [&](detail::mpi_call::message const& m) {
      if (has_ended(m.request)) return;
      waits = true;
      if (m.peer != MPI_PROC_NULL) missing.push_back(static_cast<unsigned>(m.peer));
    };
    for (auto* const call : link_->agreeing()) std::ranges::for_each(call->agreement, look);
    if (call_->has_agreed) std::ranges::for_each(call_->messages, look);
    std::ranges::sort(missing);
    missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
    if (waits)
      link_->fail(detail::sentence("mpi_communicator: ", name(), " did not end within ", link_->timeout().count(),
                                   " s: ", detail::gone_or_stuck(missing)));
  }
  /// Whether a request has completed. MPI_Test replaces a completed request by MPI_REQUEST_NULL, for which the result
  /// is also true.
  bool has_ended(MPI_Request request) {
    int done = 0;
    check(MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE));
    return done;
  }

  static constexpr unsigned hasty = 100, patient = 10000;
  static constexpr auto nap = std::chrono::microseconds(50);

  detail::mpi_link* link_;
  std::unique_ptr<detail::mpi_call> call_;
  std::size_t done_ = 0;
  clock::time_point begin_;
};

}}  // namespace pith::PITH_ABI
