// pith/comm/trace.hpp — a trace of an exchange's encoding, transfers and decoding, for a trace viewer.
#pragma once

#include <pith/config.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

/// The time spans in which an exchange encodes, transfers and decodes. chrome://tracing and Perfetto can display them.
///
///   requires    the trace outlives its exchange and is read only between steps
///   state       capacity for `most` spans. Further spans are counted but not recorded
///   complexity  two clock reads per span; only the constructor and json() allocate. A transfer's span ends when the
///               exchange detects the transfer's completion. On a device, the times are the times at which the host
///               enqueues the work
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

  /// Deletes all spans, so that later spans can be recorded. Call clear() between steps.
  void clear() {
    entries_.clear();
    dropped_ = 0;
  }

  /// The time at which the time axis of json() begins.
  clock::time_point began() const { return began_; }
  std::vector<entry> const& entries() const { return entries_; }
  /// The number of spans that were not recorded, since the trace was full.
  std::size_t dropped() const { return dropped_; }

  /// The recorded spans in Chrome's trace format. The process id is the rank, and the process has the threads "codecs"
  /// and "transfers".
  std::string json(unsigned rank = 0) const {
    auto const process = ",\"pid\":" + std::to_string(rank) + ",\"tid\":";
    auto text = "{\"traceEvents\":[\n" + thread(process, "0", "codecs") + ",\n" + thread(process, "1", "transfers");
    for (auto const& e : entries_) text += ",\n" + event(process, e);
    return text + "\n]}\n";
  }

 private:
  static constexpr char const* name(work what) {
    switch (what) {
      case work::encode: return "encode";
      case work::transfer: return "transfer";
      default: return "decode";
    }
  }
  static std::string thread(std::string const& process, char const* number, char const* called) {
    return R"({"name":"thread_name","ph":"M")" + process + number + R"(,"args":{"name":")" + called + "\"}}";
  }
  std::string event(std::string const& process, entry const& e) const {
    return R"({"name":")" + std::string(name(e.what)) + R"(","ph":"X")" + process +
           (e.what == work::transfer ? "1" : "0") + R"(,"ts":)" + microseconds(e.begin - began_) + R"(,"dur":)" +
           microseconds(e.end - e.begin) + R"(,"args":{"bucket":)" + std::to_string(e.bucket) + R"(,"round":)" +
           std::to_string(e.round) + "}}";
  }
  /// Microseconds as text with three decimal places.
  static std::string microseconds(clock::duration span) {
    auto const ns = std::chrono::duration_cast<std::chrono::nanoseconds>(span).count();
    return std::to_string(ns / 1000) + "." + std::to_string(1000 + ns % 1000).substr(1);
  }

  clock::time_point began_ = clock::now();
  std::vector<entry> entries_;
  std::size_t dropped_ = 0;
};

namespace detail {

/// The seconds that one step spends on a tensor bucket.
struct bucket_seconds {
  double encode = 0, transfer = 0, decode = 0;
};

/// Adds up a step's time spans per tensor bucket, and records them in an optional trace.
class span_log {
 public:
  explicit span_log(exchange_trace* trace) : trace_(trace) {}

  void set_layout(std::size_t buckets) { seconds_.assign(buckets, {}); }
  void begin_step() {
    for (auto& s : seconds_) s = {};
  }
  void note(exchange_trace::entry const& e) {
    of(e.what, seconds_[e.bucket]) += std::chrono::duration<double>(e.end - e.begin).count();
    if (trace_ != nullptr) trace_->note(e);
  }
  std::vector<bucket_seconds> const& seconds() const { return seconds_; }

 private:
  static double& of(exchange_trace::work what, bucket_seconds& s) {
    switch (what) {
      case exchange_trace::work::encode: return s.encode;
      case exchange_trace::work::transfer: return s.transfer;
      default: return s.decode;
    }
  }

  exchange_trace* trace_;
  std::vector<bucket_seconds> seconds_;
};

/// Records the time from the constructor to `end()` or the destructor in a log. If `log` is null, records nothing.
class traced {
 public:
  [[nodiscard]] traced(span_log* log, exchange_trace::work what, std::size_t bucket, unsigned round)
      : log_(log), entry_{what, bucket, round, {}, {}} {
    if (log_ != nullptr) entry_.begin = exchange_trace::clock::now();
  }
  traced(traced&& other) noexcept : log_(std::exchange(other.log_, nullptr)), entry_(other.entry_) {}
  traced& operator=(traced&& other) noexcept {
    std::swap(log_, other.log_);
    std::swap(entry_, other.entry_);
    return *this;
  }
  ~traced() { end(); }

  void end() {
    if (log_ == nullptr) return;
    entry_.end = exchange_trace::clock::now();
    std::exchange(log_, nullptr)->note(entry_);
  }

 private:
  span_log* log_;
  exchange_trace::entry entry_;
};

}  // namespace detail
}}  // namespace pith::PITH_ABI
