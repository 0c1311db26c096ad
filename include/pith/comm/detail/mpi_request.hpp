// pith/comm/detail/mpi_request.hpp — pending MPI calls, with the check of sizes between ranks and the timeout.
#pragma once

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
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace pith::inline PITH_ABI {

namespace detail {

/// The memory that MPI reads and writes during a call. Later calls reuse the memory, so a step allocates nothing.
struct mpi_call {
  struct message {
    MPI_Request request = MPI_REQUEST_NULL;
    int peer = MPI_PROC_NULL;  ///< the partner of a point-to-point message
  };
  std::vector<message> messages;
  std::vector<MPI_Datatype> types;
  std::vector<std::byte> memory;

  /// The messages that compare the sizes of ranks. When they have completed, the sizes are equal if `received` ==
  /// `expected`.
  std::array<message, 2> agreement;
  std::array<std::int64_t, 2> sent, expected, received;

  void clear() {
    for (auto& type : types) MPI_Type_free(&type);
    types.clear(), messages.clear();
    agreement = {};
  }
};

/// State that a communicator shares with its requests: the timeout and the first error. After an error, every call
/// throws this error.
class mpi_link {
 public:
  explicit mpi_link(timeout_duration timeout) : timeout_(timeout) { require_timeout("mpi_communicator", timeout); }

  timeout_duration timeout() const { return timeout_; }
  bool is_broken() const { return !broken_.empty(); }

  void require_usable() const {
    if (is_broken()) throw communication_error(broken_);
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

  std::unique_ptr<mpi_call> take() {
    if (idle_.empty()) return std::make_unique<mpi_call>();
    auto call = std::move(idle_.back());
    idle_.pop_back();
    return call;
  }
  /// Keeps the memory of a finished call for later calls. The memory of a failed call is never freed, since MPI may
  /// still use it.
  void give_back(std::unique_ptr<mpi_call> call) {
    if (is_broken()) return static_cast<void>(call.release());
    call->clear();
    idle_.push_back(std::move(call));
  }

 private:
  timeout_duration timeout_;
  std::string broken_;
  std::vector<std::unique_ptr<mpi_call>> idle_;
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
  mpi_request(detail::mpi_link& link, char const* name) : link_(&link), name_(name), call_(link.take()) {}
  mpi_request(mpi_request&&) noexcept = default;
  mpi_request& operator=(mpi_request&&) = delete;
  ~mpi_request() {
    if (!call_) return;
    try {
      if (!link_->is_broken()) end();
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
  void check(int code) { link_->check(code, name_); }
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
  char const* name() const { return name_; }

 private:
  using clock = std::chrono::steady_clock;

  bool poll() {
    link_->require_usable();
    agree();
    while (done_ < call_->messages.size() && is_done(call_->messages[done_].request)) ++done_;
    if (done_ == call_->messages.size() && has_agreed_) return true;
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
    std::ranges::for_each(call_->messages, look);
    std::ranges::for_each(call_->agreement, look);
    std::ranges::sort(missing);
    missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
    if (waits)
      link_->fail(detail::sentence("mpi_communicator: ", name_, " did not end within ", link_->timeout().count(),
                                   " s: ", detail::gone_or_stuck(missing)));
  }
  /// Whether a request has completed. MPI_Test replaces a completed request by MPI_REQUEST_NULL, for which the result
  /// is also true.
  bool has_ended(MPI_Request request) {
    int done = 0;
    check(MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE));
    return done;
  }

  /// Returns if the messages that compare the ranks' sizes are pending. Otherwise throws if the sizes differ. All ranks
  /// that take part in the call throw, so that no rank waits for missing bytes.
  void agree() {
    auto& [first, second] = call_->agreement;
    if (has_agreed_ || !is_done(first.request) || !is_done(second.request)) return;
    has_agreed_ = true;
    auto const& [own, other] = std::tie(call_->expected, call_->received);
    auto const at = own[0] == other[0] ? std::size_t{1} : 0;
    if (own == other) return;
    link_->fail(detail::sentence("mpi_communicator: ", name_, ": ranks must pass equal sizes, got ", std::abs(own[at]),
                                 " on this rank and ", std::abs(other[at]), " on another"));
  }
  bool is_done(MPI_Request& request) {
    int done = 0;
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    return done;
  }

  static constexpr unsigned hasty = 100, patient = 10000;
  static constexpr auto nap = std::chrono::microseconds(50);

  detail::mpi_link* link_;
  char const* name_;
  std::unique_ptr<detail::mpi_call> call_;
  std::size_t done_ = 0;
  bool has_agreed_ = false;
  clock::time_point begin_;
};

}  // namespace pith::inline PITH_ABI
