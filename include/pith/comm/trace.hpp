// pith/comm/trace.hpp — when an exchange encoded, moved and decoded what: spans of time for a trace viewer.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <utility>
#include <vector>

namespace pith::inline v0 {

/// Spans of time that an exchange notes, for chrome://tracing or Perfetto. One belongs to one exchange; it is read
/// between steps.
///
///   keeps    room for `most` spans; further ones are counted only
///   cost     two readings of a clock a span, no allocation; a transfer ends when the exchange learns that it has
class exchange_trace {
 public:
  using clock = std::chrono::steady_clock;
  enum class work : std::uint8_t { encode, transfer, decode };

  struct entry {
    work what;
    std::size_t bucket;
    unsigned round;
    clock::time_point begin, end;
  };

  explicit exchange_trace(std::size_t most = std::size_t{1} << 16) { entries_.reserve(most); }

  void note(entry const& e) {
    if (entries_.size() == entries_.capacity()) {
      ++dropped_;
    } else {
      entries_.push_back(e);
    }
  }

  std::vector<entry> const& entries() const { return entries_; }
  /// The spans that there was no room for.
  std::size_t dropped() const { return dropped_; }

  /// Writes Chrome's trace format, in which the rank is a process, its codecs are one thread and its transfers another.
  void write(std::ostream& out, unsigned rank = 0) const {
    out << "{\"traceEvents\":[\n";
    write_thread(out, rank, 0, "codecs");
    write_thread(out << ",\n", rank, 1, "transfers");
    for (auto const& e : entries_) write_entry(out << ",\n", rank, e);
    out << "\n]}\n";
  }

 private:
  static constexpr char const* name(work what) {
    switch (what) {
      case work::encode: return "encode";
      case work::transfer: return "transfer";
      default: return "decode";
    }
  }
  static void write_thread(std::ostream& out, unsigned rank, int thread, char const* called) {
    out << R"({"name":"thread_name","ph":"M","pid":)" << rank << R"(,"tid":)" << thread << R"(,"args":{"name":")"
        << called << "\"}}";
  }
  void write_entry(std::ostream& out, unsigned rank, entry const& e) const {
    out << R"({"name":")" << name(e.what) << R"(","ph":"X","pid":)" << rank << R"(,"tid":)"
        << (e.what == work::transfer ? 1 : 0) << R"(,"ts":)";
    write_microseconds(out, e.begin - began_);
    write_microseconds(out << R"(,"dur":)", e.end - e.begin);
    out << R"(,"args":{"bucket":)" << e.bucket << R"(,"round":)" << e.round << "}}";
  }
  /// With three digits behind the point, whatever the stream's format.
  static void write_microseconds(std::ostream& out, clock::duration span) {
    auto const ns = std::chrono::duration_cast<std::chrono::nanoseconds>(span).count();
    out << ns / 1000 << '.' << ns / 100 % 10 << ns / 10 % 10 << ns % 10;
  }

  clock::time_point began_ = clock::now();
  std::vector<entry> entries_;
  std::size_t dropped_ = 0;
};

namespace detail {

/// Notes the time of its life, if there is a trace.
class [[nodiscard]] traced {
 public:
  traced(exchange_trace* trace, exchange_trace::work what, std::size_t bucket, unsigned round)
      : trace_(trace), entry_{what, bucket, round, {}, {}} {
    if (trace_ != nullptr) entry_.begin = exchange_trace::clock::now();
  }
  traced(traced&& other) noexcept : trace_(std::exchange(other.trace_, nullptr)), entry_(other.entry_) {}
  traced& operator=(traced&& other) noexcept {
    std::swap(trace_, other.trace_);
    std::swap(entry_, other.entry_);
    return *this;
  }
  ~traced() { end(); }

  void end() {
    if (trace_ == nullptr) return;
    entry_.end = exchange_trace::clock::now();
    std::exchange(trace_, nullptr)->note(entry_);
  }

 private:
  exchange_trace* trace_;
  exchange_trace::entry entry_;
};

}  // namespace detail
}  // namespace pith::inline v0
