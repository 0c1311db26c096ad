// pith/comm/mpi_request.hpp — calls of MPI that are under way, and how long they may take.
#pragma once

#include <pith/core/error.hpp>
#include <pith/core/span.hpp>

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace pith::inline v0 {

class mpi_request;

namespace detail {

/// What an MPI communicator shares with its requests: which there are, how long they may take, and the first error,
/// which ends its use.
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

  void add(mpi_request& request) { requests_.push_back(&request); }
  void remove(mpi_request& request) { std::erase(requests_, &request); }
  void replace(mpi_request& moved, mpi_request& by) { std::replace(requests_.begin(), requests_.end(), &moved, &by); }
  void advance();

  /// Memory of an earlier request, if any, and back again.
  std::vector<std::byte> take_memory() {
    if (memory_.empty()) return {};
    auto memory = std::move(memory_.back());
    memory_.pop_back();
    return memory;
  }
  void keep_memory(std::vector<std::byte> memory) { memory_.push_back(std::move(memory)); }

 private:
  duration timeout_;
  std::string broken_;
  std::vector<mpi_request*> requests_;
  std::vector<std::vector<std::byte>> memory_;
};

}  // namespace detail

/// A call of a communicator, of which MPI may make several. It ends in wait(), in a test() that says true, or with its
/// life, before that of its communicator. One that failed is abandoned: MPI may touch its memory as long as it runs.
class mpi_request {
 public:
  mpi_request(detail::mpi_link& link, char const* call) : link_(&link), call_(call) { link_->add(*this); }
  mpi_request(mpi_request&& other) noexcept
      : link_(other.link_),
        call_(other.call_),
        parts_(std::move(other.parts_)),
        steps_(std::move(other.steps_)),
        memory_(std::move(other.memory_)),
        done_(std::exchange(other.done_, 0)),
        step_(std::exchange(other.step_, 0)),
        begin_(other.begin_) {
    link_->replace(other, *this);
  }
  mpi_request& operator=(mpi_request&&) = delete;
  ~mpi_request() {
    try {
      if (!link_->is_broken()) end();
    } catch (communication_error const&) {  // which the communicator's next call throws again
    }
    link_->remove(*this);
    end_memory();
  }

  template <class E>
  void wait(E const&) {
    end();
  }
  template <class E>
  bool test(E const&) {
    return poll();
  }

  /// Waits, in no executor's order.
  void end() {
    for (unsigned tries = 0; !poll(); ++tries) {
      if (tries >= 100) std::this_thread::yield();  // short messages arrive before
    }
  }

  /// Where the next call of MPI, made by check(), puts its request; `bytes` are to come from rank `from`.
  MPI_Request* next(unsigned from = 0, int bytes = MPI_UNDEFINED) {
    parts_.push_back({MPI_REQUEST_NULL, from, bytes});
    return &parts_.back().request;
  }
  void check(int code) { link_->check(code, call_); }
  /// A step that follows when all calls of MPI so far are done, and may make more.
  void then(std::function<void(mpi_request&)> step) { steps_.push_back(std::move(step)); }
  /// As far as it goes without waiting.
  void advance() { is_done(); }

  /// Memory that lives as long as the request; that of one that is abandoned for good, since MPI may still use it.
  template <class T>
  span<T> memory(std::size_t n) {
    memory_ = link_->take_memory();
    memory_.resize(n * sizeof(T));
    return {reinterpret_cast<T*>(memory_.data()), n};
  }

 private:
  using clock = std::chrono::steady_clock;

  struct part {
    MPI_Request request;
    unsigned from;
    int bytes;
  };

  void end_memory() noexcept {
    if (memory_.capacity() == 0) return;
    if (link_->is_broken()) {
      static_cast<void>(new std::vector<std::byte>(std::move(memory_)));
    } else {
      link_->keep_memory(std::move(memory_));
    }
  }

  bool poll() {
    link_->advance();
    if (is_done()) return true;
    auto const now = clock::now();
    if (begin_ == clock::time_point()) begin_ = now;
    if (now - begin_ > link_->timeout()) {
      link_->fail(detail::sentence("mpi: ", call_, " did not end within ", link_->timeout().count(),
                                   " s: a rank is gone or stuck"));
    }
    return false;
  }

  bool is_done() {
    link_->require_usable();
    while (are_parts_done()) {
      if (step_ == steps_.size()) return true;
      steps_[step_++](*this);
    }
    return false;
  }
  bool are_parts_done() {
    while (done_ < parts_.size() && is_done(parts_[done_])) ++done_;
    return done_ == parts_.size();
  }
  bool is_done(part& p) {
    int done = 0;
    MPI_Status status;
    check(MPI_Test(&p.request, &done, &status));
    if (done && p.bytes != MPI_UNDEFINED) expect(p, status);
    return done;
  }
  void expect(part const& p, MPI_Status const& status) {
    int got = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &got));
    if (got == p.bytes) return;
    link_->fail(detail::sentence("mpi: ", call_, " expects ", p.bytes, " bytes from rank ", p.from, ", got ", got));
  }

  detail::mpi_link* link_;
  char const* call_;
  std::vector<part> parts_;
  std::vector<std::function<void(mpi_request&)>> steps_;
  std::vector<std::byte> memory_;
  std::size_t done_ = 0, step_ = 0;
  clock::time_point begin_;
};

/// All go on while one is waited for, so that ranks may wait in any order.
inline void detail::mpi_link::advance() {
  for (auto* const request : requests_) request->advance();
}

}  // namespace pith::inline v0
