// pith/comm/mpi.hpp — ranks of an MPI communicator, host memory.
#pragma once

#include <pith/comm/arguments.hpp>
#include <pith/comm/communicator.hpp>
#include <pith/core/error.hpp>

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace pith::inline v0 {

namespace detail {

/// What an MPI communicator shares with its requests: how long they may take, and the first error, which ends its use.
class mpi_link {
 public:
  using duration = std::chrono::duration<double>;

  explicit mpi_link(duration timeout) : timeout_(timeout) {
    require(timeout.count() > 0, "mpi: the timeout must be longer than 0 s, got ", timeout.count(), " s");
  }

  duration timeout() const { return timeout_; }
  bool is_broken() const { return !broken_.empty(); }

  void require_usable() const {
    if (is_broken()) throw communication_error(broken_);
  }
  void check(int code, char const* call) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    MPI_Error_string(code, text, &length);
    fail(sentence("mpi: ", call, ": ", text));
  }
  [[noreturn]] void fail(std::string const& text) {
    broken_ = text;
    throw communication_error(text);
  }

 private:
  duration timeout_;
  std::string broken_;
};

/// MPI 3.1 has no 16-bit floats: an operation on MPI_UINT16_T adds them.
template <class T, reduction How>
void reduce_narrow(void* in, void* inout, int* length, MPI_Datatype*) {
  auto const* const a = static_cast<T const*>(in);
  auto* const b = static_cast<T*>(inout);
  for (int i = 0; i < *length; ++i) {
    auto const x = static_cast<float>(a[i]), y = static_cast<float>(b[i]);
    b[i] = T(How == reduction::sum ? x + y : (x > y ? x : y));
  }
}

template <class T>
MPI_Datatype mpi_type() {
  if constexpr (std::same_as<T, float>) return MPI_FLOAT;
  if constexpr (std::same_as<T, double>) return MPI_DOUBLE;
  if constexpr (std::same_as<T, std::int32_t>) return MPI_INT32_T;
  if constexpr (std::same_as<T, std::int8_t>) return MPI_INT8_T;
  return MPI_UINT16_T;
}

/// `count` of `type` are a number of bytes, which may be more than an int says: then they are one of a type of its own.
class mpi_bytes {
 public:
  mpi_bytes(mpi_link& link, std::size_t bytes, std::size_t most) {
    if (bytes > most) {
      make_type(link, bytes, most);
    } else {
      count_ = static_cast<int>(bytes);
    }
  }
  mpi_bytes(mpi_bytes&& other) noexcept : count_(other.count_), type_(std::exchange(other.type_, MPI_BYTE)) {}
  mpi_bytes& operator=(mpi_bytes&&) = delete;
  ~mpi_bytes() {
    if (type_ != MPI_BYTE) MPI_Type_free(&type_);
  }

  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  /// Chunks of `most` bytes, and what is left of them.
  void make_type(mpi_link& link, std::size_t bytes, std::size_t most) {
    MPI_Datatype chunk = MPI_DATATYPE_NULL, chunks = MPI_DATATYPE_NULL;
    auto const whole = bytes / most;
    link.check(MPI_Type_contiguous(static_cast<int>(most), MPI_BYTE, &chunk), "MPI_Type_contiguous");
    link.check(MPI_Type_contiguous(static_cast<int>(whole), chunk, &chunks), "MPI_Type_contiguous");
    int const counts[] = {1, static_cast<int>(bytes % most)};
    MPI_Aint const places[] = {0, static_cast<MPI_Aint>(whole * most)};
    MPI_Datatype const types[] = {chunks, MPI_BYTE};
    link.check(MPI_Type_create_struct(2, counts, places, types, &type_), "MPI_Type_create_struct");
    link.check(MPI_Type_commit(&type_), "MPI_Type_commit");
    for (auto* part : {&chunk, &chunks}) MPI_Type_free(part);
  }

  int count_ = 1;
  MPI_Datatype type_ = MPI_BYTE;
};

}  // namespace detail

/// A nonblocking call, of which MPI may make several. It ends in wait(), in a test() that says true, or with its life,
/// before that of its communicator. One that failed is abandoned: MPI may touch its memory as long as it runs.
class mpi_request {
 public:
  mpi_request(detail::mpi_link& link, char const* call) : link_(&link), call_(call) {}
  mpi_request(mpi_request&& other) noexcept = default;
  mpi_request& operator=(mpi_request&&) = delete;
  ~mpi_request() {
    try {
      if (!link_->is_broken()) wait();
    } catch (communication_error const&) {  // which the communicator's next call throws again
    }
  }

  template <class E>
  void wait(E const&) {
    wait();
  }
  template <class E>
  bool test(E const&) {
    return is_done();
  }

  /// Where the next call of MPI, made by check(), puts its request; `bytes` are to come from rank `from`.
  MPI_Request* next() { return receive(0, no_bytes); }
  MPI_Request* receive(unsigned from, std::size_t bytes) {
    parts_.push_back({MPI_REQUEST_NULL, from, bytes});
    return &parts_.back().request;
  }
  void check(int code) { link_->check(code, call_); }

  /// Lives as long as the request.
  detail::mpi_bytes const& bytes(std::size_t n, std::size_t most) { return types_.emplace_back(*link_, n, most); }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr auto no_bytes = ~std::size_t{0};

  struct part {
    MPI_Request request;
    unsigned from;
    std::size_t bytes;
  };

  /// Short messages arrive while it does not yet yield.
  void wait() {
    auto const begin = clock::now();
    for (unsigned tries = 0; !is_done(); ++tries) {
      if (tries < 16) continue;
      if (clock::now() - begin > link_->timeout()) {
        link_->fail(detail::sentence("mpi: ", call_, " did not end within ", link_->timeout().count(),
                                     " s: a rank is gone or stuck"));
      }
      std::this_thread::yield();
    }
  }

  bool is_done() {
    link_->require_usable();
    while (done_ < parts_.size() && is_done(parts_[done_])) ++done_;
    return done_ == parts_.size();
  }
  bool is_done(part& p) {
    int done = 0;
    MPI_Status status;
    check(MPI_Test(&p.request, &done, &status));
    if (done && p.bytes != no_bytes) expect(p, status);
    return done;
  }
  void expect(part const& p, MPI_Status const& status) {
    MPI_Count got = 0;
    check(MPI_Get_elements_x(&status, MPI_BYTE, &got));
    if (static_cast<std::size_t>(got) == p.bytes) return;
    link_->fail(detail::sentence("mpi: ", call_, " expects ", p.bytes, " bytes from rank ", p.from, ", got ", got));
  }

  detail::mpi_link* link_;
  char const* call_;
  std::vector<part> parts_;
  std::vector<detail::mpi_bytes> types_;
  std::size_t done_ = 0;
};

/// The ranks of a duplicate of `comm`, whose errors are thrown as communication_error. Needs MPI_Init before and
/// MPI_Finalize after its life; executors of host memory. MPICH ends the program on an error that it meets in a request,
/// unless MPI_COMM_WORLD has MPI_ERRORS_RETURN.
///
/// A call that takes longer than `timeout` throws: a rank is gone or stuck. So does every later call, at once, since
/// nobody knows where the ranks are; MPI may still write to the call's memory, and MPI_Finalize may not return.
/// `most` elements go into one call of MPI; more are sent in pieces, or as a type of their own.
class mpi_communicator {
 public:
  using duration = std::chrono::duration<double>;

  explicit mpi_communicator(MPI_Comm comm, duration timeout = std::chrono::minutes(30), std::size_t most = INT_MAX)
      : mpi_communicator(own{duplicate(comm, timeout)}, timeout, most) {}
  mpi_communicator(mpi_communicator const&) = delete;
  mpi_communicator& operator=(mpi_communicator const&) = delete;
  ~mpi_communicator() {
    if (link_.is_broken()) return;  // MPI_Comm_free may wait for all ranks
    for (auto* op : {&half_.sum, &half_.max, &bfloat16_.sum, &bfloat16_.max}) MPI_Op_free(op);
    MPI_Comm_free(&comm_);
  }

  unsigned rank() const { return static_cast<unsigned>(rank_); }
  unsigned size() const { return static_cast<unsigned>(size_); }

  template <host_executor E>
  mpi_request all_gather(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    arguments().all_gather(mine.size(), all.size());
    auto request = begin(exec, "all_gather");
    auto const& n = request.bytes(mine.size(), most_);
    request.check(
        MPI_Iallgather(mine.data(), n.count(), n.type(), all.data(), n.count(), n.type(), comm_, request.next()));
    return request;
  }

  /// Point to point: MPI says the places of its own call in ints.
  template <host_executor E>
  mpi_request all_gather_v(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all,
                           span<std::size_t const> sizes) {
    arguments().all_gather_v(mine.size(), all.size(), sizes);
    auto request = begin(exec, "all_gather_v");
    receive_pieces(request, all, sizes);
    for (unsigned i = 0; i < size(); ++i) send(request, mine, (rank() + i) % size());
    return request;
  }

  template <host_executor E>
  mpi_request all_to_all(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    arguments().all_to_all(mine.size(), all.size());
    auto request = begin(exec, "all_to_all");
    auto const& n = request.bytes(mine.size() / size(), most_);
    request.check(
        MPI_Ialltoall(mine.data(), n.count(), n.type(), all.data(), n.count(), n.type(), comm_, request.next()));
    return request;
  }

  template <host_executor E>
  mpi_request all_to_all_v(E const& exec, span_on<E, std::byte const> mine, span<std::size_t const> sizes_to,
                           span_on<E, std::byte> all, span<std::size_t const> sizes_from) {
    arguments().all_to_all_v(mine.size(), sizes_to, all.size(), sizes_from);
    auto request = begin(exec, "all_to_all_v");
    receive_pieces(request, all, sizes_from);
    std::size_t offset = 0;
    for (unsigned r = 0; r < size(); offset += sizes_to[r++]) send(request, mine.subspan(offset, sizes_to[r]), r);
    return request;
  }

  template <host_executor E>
  mpi_request send_recv(E const& exec, span_on<E, std::byte const> mine, unsigned to, span_on<E, std::byte> theirs,
                        unsigned from) {
    arguments().send_recv(mine.size(), to, theirs.size(), from);
    auto request = begin(exec, "send_recv");
    receive(request, theirs, from);
    send(request, mine, to);
    return request;
  }

  template <host_executor E, class T>
  mpi_request all_reduce(E const& exec, span<T, host_space> x, reduction how) {
    auto request = begin(exec, "all_reduce");
    for (std::size_t i = 0; i < x.size(); i += most_) {
      auto const n = static_cast<int>(std::min(most_, x.size() - i));
      request.check(MPI_Iallreduce(MPI_IN_PLACE, x.data() + i, n, detail::mpi_type<T>(), operation<T>(how), comm_,
                                   request.next()));
    }
    return request;
  }

  /// A reduction to each rank: MPI's own call takes no pieces that lie apart.
  template <host_executor E, class T>
  mpi_request reduce_scatter(E const& exec, span<std::type_identity_t<T> const, host_space> mine,
                             span<T, host_space> part, reduction how) {
    arguments().reduce_scatter(mine.size(), part.size());
    auto request = begin(exec, "reduce_scatter");
    for (int root = 0; root < size_; ++root) {
      auto const* const from = mine.data() + static_cast<std::size_t>(root) * part.size();
      for (std::size_t i = 0; i < part.size(); i += most_) {
        auto const n = static_cast<int>(std::min(most_, part.size() - i));
        request.check(MPI_Ireduce(from + i, part.data() + i, n, detail::mpi_type<T>(), operation<T>(how), root, comm_,
                                  request.next()));
      }
    }
    return request;
  }

  template <host_executor E>
  mpi_request broadcast(E const& exec, span_on<E, std::byte> x, unsigned root) {
    arguments().peer("broadcast", root);
    auto request = begin(exec, "broadcast");
    auto const& n = request.bytes(x.size(), most_);
    request.check(MPI_Ibcast(x.data(), n.count(), n.type(), static_cast<int>(root), comm_, request.next()));
    return request;
  }

  mpi_communicator split(unsigned color) {
    detail::require(color <= INT_MAX, "mpi: split takes colours up to 2^31 - 1, got ", color);
    meet(link_, comm_);
    MPI_Comm part = MPI_COMM_NULL;
    link_.check(MPI_Comm_split(comm_, static_cast<int>(color), rank_, &part), "MPI_Comm_split");
    return mpi_communicator(own{part}, link_.timeout(), most_);
  }

 private:
  /// A communicator that is no one else's.
  struct own {
    MPI_Comm comm;
  };

  mpi_communicator(own made, duration timeout, std::size_t most) : link_(timeout), most_(most), comm_(made.comm) {
    detail::require(most >= 1 && most <= INT_MAX, "mpi: a call of MPI takes 1 to 2^31 - 1 elements, got ", most);
    link_.check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    link_.check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    link_.check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    narrow<half>(half_);
    narrow<bfloat16>(bfloat16_);
  }

  static MPI_Comm duplicate(MPI_Comm comm, duration timeout) {
    auto link = detail::mpi_link(timeout);
    meet(link, comm);
    MPI_Comm made = MPI_COMM_NULL;
    link.check(MPI_Comm_dup(comm, &made), "MPI_Comm_dup");
    return made;
  }

  /// Making a communicator has no deadline: all ranks must be there before.
  static void meet(detail::mpi_link& link, MPI_Comm comm) {
    link.require_usable();
    auto request = mpi_request(link, "making a communicator");
    request.check(MPI_Ibarrier(comm, request.next()));
    request.wait(0);
  }

  detail::collective_arguments arguments() const { return {"mpi", rank(), size()}; }

  /// MPI reads host memory at once, so what the executor was asked for must be done.
  template <class E>
  mpi_request begin(E const& exec, char const* call) {
    link_.require_usable();
    exec.wait();
    return {link_, call};
  }

  void send(mpi_request& request, span<std::byte const> mine, unsigned to) {
    if (mine.empty()) return;
    auto const& n = request.bytes(mine.size(), most_);
    request.check(MPI_Isend(mine.data(), n.count(), n.type(), static_cast<int>(to), 0, comm_, request.next()));
  }
  void receive(mpi_request& request, span<std::byte> theirs, unsigned from) {
    if (theirs.empty()) return;
    auto const& n = request.bytes(theirs.size(), most_);
    request.check(MPI_Irecv(theirs.data(), n.count(), n.type(), static_cast<int>(from), 0, comm_,
                            request.receive(from, theirs.size())));
  }
  void receive_pieces(mpi_request& request, span<std::byte> all, span<std::size_t const> sizes) {
    std::size_t offset = 0;
    for (unsigned r = 0; r < size(); offset += sizes[r++]) receive(request, all.subspan(offset, sizes[r]), r);
  }

  struct operations {
    MPI_Op sum = MPI_SUM, max = MPI_MAX;
  };
  template <class T>
  void narrow(operations& ops) {
    link_.check(MPI_Op_create(&detail::reduce_narrow<T, reduction::sum>, 1, &ops.sum), "MPI_Op_create");
    link_.check(MPI_Op_create(&detail::reduce_narrow<T, reduction::max>, 1, &ops.max), "MPI_Op_create");
  }
  template <class T>
  MPI_Op operation(reduction how) const {
    auto const ops = std::same_as<T, half> ? half_ : std::same_as<T, bfloat16> ? bfloat16_ : operations();
    return how == reduction::sum ? ops.sum : ops.max;
  }

  detail::mpi_link link_;
  std::size_t most_;
  operations half_, bfloat16_;
  MPI_Comm comm_;
  int rank_ = 0, size_ = 0;
};

static_assert(exchanges<mpi_communicator, detail::archetype> &&
              communicates_in_full<mpi_communicator, detail::archetype>);

}  // namespace pith::inline v0
