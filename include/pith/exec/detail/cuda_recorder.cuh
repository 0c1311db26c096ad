// pith/exec/detail/cuda_recorder.cuh — recorded kernels of lanes, and their launches on a CUDA stream.
#pragma once

#include <pith/core/buffer.hpp>
#include <pith/exec/cuda.cuh>
#include <pith/exec/detail/launch_list.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Block bodies that copy and fill bytes. Whole words are used if the addresses are aligned.
struct copy_block {
  struct memory {};
  static constexpr std::uint32_t span = 16384;

  std::byte* to;
  std::byte const* from;
  std::uint64_t bytes;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory&, std::uint64_t block) const {
    auto const first = block * span;
    auto const n = block_size(bytes, first, span);
    auto* const target = to + first;
    auto const* const source = from + first;
    auto const aligned = (reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) % 16 == 0;
    auto const words = aligned ? n / 16 : 0;
    team.for_each(words, [=](std::uint32_t i) {
      reinterpret_cast<uint4*>(target)[i] = reinterpret_cast<uint4 const*>(source)[i];
    });
    team.for_each(n - 16 * words, [=](std::uint32_t i) { target[16 * words + i] = source[16 * words + i]; });
  }
};
struct fill_block {
  struct memory {};
  static constexpr std::uint32_t span = 16384;

  std::byte* to;
  std::uint64_t bytes;
  std::uint32_t value;  ///< the byte, four times

  template <team Team>
  PITH_HD void operator()(Team const& team, memory&, std::uint64_t block) const {
    auto const first = block * span;
    auto const n = block_size(bytes, first, span);
    auto* const target = to + first;
    auto const words = reinterpret_cast<std::uintptr_t>(to) % 16 == 0 ? n / 16 : 0;
    auto const word = value;
    team.for_each(words, [=](std::uint32_t i) { reinterpret_cast<uint4*>(target)[i] = uint4{word, word, word, word}; });
    team.for_each(n - 16 * words, [=](std::uint32_t i) { target[16 * words + i] = static_cast<std::byte>(word); });
  }
};

/// While it exists, this thread may allocate memory during a capture.
class relaxed_capture {
 public:
  relaxed_capture() { check_cuda(cudaThreadExchangeStreamCaptureMode(&mode_), "cudaThreadExchangeStreamCaptureMode"); }
  relaxed_capture(relaxed_capture const&) = delete;
  relaxed_capture& operator=(relaxed_capture const&) = delete;
  ~relaxed_capture() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Pinned memory of the host.
struct free_pinned_bytes {
  void operator()(std::byte* memory) const { static_cast<void>(cudaFreeHost(memory)); }
};
using pinned_bytes = std::unique_ptr<std::byte, free_pinned_bytes>;

inline pinned_bytes pinned_copy(std::vector<std::byte> const& from) {
  void* memory = nullptr;
  check_cuda(cudaMallocHost(&memory, from.size()), "cudaMallocHost");
  auto made = pinned_bytes(static_cast<std::byte*>(memory));
  std::copy(from.begin(), from.end(), made.get());
  return made;
}

/// A copy of tables in device memory. A run usually has the tables of the run before, which are not uploaded again. A
/// captured graph uploads its tables in each replay, from memory that no later run changes, and may replay at any time.
/// So after a capture, each run uploads its tables.
class device_tables {
 public:
  /// The tables after this call replace those before this call.
  void begin() { used_ = 0; }

  /// Returns the device's copy of `tables`. Outside a capture, CUDA reads pageable memory before cudaMemcpyAsync
  /// returns.
  std::byte const* put(cuda_executor const& exec, std::vector<std::byte> const& tables) {
    if (tables.empty()) return nullptr;
    auto const is_capturing = exec.is_capturing();
    auto const relaxed = relaxed_capture();
    auto const at = used_;
    used_ += tables.size();
    if (memory_.size() < used_) grow(exec);
    if (is_capturing) captured_.push_back(pinned_copy(tables));
    if (!captured_.empty() || !holds(at, tables)) {
      exec.upload(memory_.data() + at, is_capturing ? captured_.back().get() : tables.data(), tables.size());
      held_.resize(std::max(held_.size(), used_));
      std::copy(tables.begin(), tables.end(), held_.begin() + static_cast<std::ptrdiff_t>(at));
    }
    return memory_.data() + at;
  }

 private:
  /// Graphs use the memory from before. It is not freed, because freeing memory waits.
  void grow(cuda_executor const& exec) {
    held_.clear();
    outgrown_.push_back(std::move(memory_));
    memory_ = buffer<std::byte, cuda_executor>(exec, used_ + used_ / 2);
  }
  bool holds(std::size_t at, std::vector<std::byte> const& tables) const {
    return used_ <= held_.size() &&
           std::equal(tables.begin(), tables.end(), held_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  buffer<std::byte, cuda_executor> memory_;
  std::size_t used_ = 0;
  std::vector<std::byte> held_;         ///< the content of memory_
  std::vector<pinned_bytes> captured_;  ///< the sources of captured uploads
  std::vector<buffer<std::byte, cuda_executor>> outgrown_;
};

/// Records the work of lanes, and launches equal kernels of several lanes together.
class lane_recorder final : public cuda_recorder {
 public:
  void begin(cuda_executor const& exec) override {
    exec_ = exec;
    tables_.begin();
    list_.clear();
  }
  void begin_lane() override { list_.begin_lane(); }

  void add(void const* kernel, std::size_t shared_bytes, std::uint64_t blocks, void const* body,
           std::size_t bytes) override {
    list_.add(kernel, shared_bytes, blocks, body, bytes);
  }
  void copy(void* to, void const* from, std::size_t bytes) override {
    auto const body = copy_block{static_cast<std::byte*>(to), static_cast<std::byte const*>(from), bytes};
    recording_executor().for_each_block(blocks_for(bytes, copy_block::span), body);
  }
  void fill(void* to, std::byte value, std::size_t bytes) override {
    auto const word = 0x01010101u * std::to_integer<std::uint32_t>(value);
    recording_executor().for_each_block(blocks_for(bytes, fill_block::span),
                                        fill_block{static_cast<std::byte*>(to), bytes, word});
  }
  void launch() override {
    if (list_.empty()) return;
    list_.merge(max_cuda_blocks);
    auto const* const tables = tables_.put(exec_, list_.tables());
    for (auto const& l : list_.launches()) {
      auto lanes = lane_table{nullptr, nullptr, l.lanes};
      if (l.lanes > 1) {
        lanes.first = reinterpret_cast<std::uint32_t const*>(tables + l.table);
        lanes.bodies = tables + l.table + lane_table::bodies_offset(l.lanes);
      }
      detail::launch(exec_.stream(), l.kernel, l.blocks, l.shared_bytes, list_.bodies().data() + l.body, lanes);
    }
    list_.clear();
  }

 private:
  cuda_executor recording_executor() { return {exec_.stream(), *this}; }

  cuda_executor exec_;
  launch_list list_;
  device_tables tables_;
};

}}}  // namespace pith::PITH_ABI::detail
