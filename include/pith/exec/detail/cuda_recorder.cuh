// pith/exec/detail/cuda_recorder.cuh — recorded kernels of lanes, and their launches on a CUDA stream.
#pragma once

#include <pith/core/buffer.hpp>
#include <pith/exec/cuda.cuh>
#include <pith/exec/detail/launch_list.hpp>
#include <pith/exec/detail/side_stream.hpp>

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

/// Pinned memory of the host. An enqueued copy reads it later.
class pinned_memory {
 public:
  explicit pinned_memory(std::size_t bytes) : size_(bytes), is_read_(made_event()) {
    void* memory = nullptr;
    check_cuda(cudaMallocHost(&memory, bytes), "cudaMallocHost");
    memory_.reset(static_cast<std::byte*>(memory));
  }

  std::size_t size() const { return size_; }
  /// True if the last copy has read the memory.
  bool is_free() const { return is_done(is_read_.get()); }
  /// Enqueues a copy of `from` to the device. The memory must be free.
  void upload(cuda_executor const& exec, std::byte* to, std::vector<std::byte> const& from) const {
    std::copy(from.begin(), from.end(), memory_.get());
    exec.upload(to, memory_.get(), from.size());
    check_cuda(cudaEventRecord(is_read_.get(), exec.stream()), "cudaEventRecord");
  }

 private:
  struct free_memory {
    void operator()(std::byte* memory) const { static_cast<void>(cudaFreeHost(memory)); }
  };

  std::size_t size_;
  event_owner is_read_;
  std::unique_ptr<std::byte, free_memory> memory_;
};

/// Tables in device memory. Each run uploads its tables. A graph has tables of its own, which are uploaded during the
/// capture, on another stream. No memory is freed before the end, because freeing memory waits for the device.
class device_tables {
 public:
  /// The tables after this call replace those before this call, except those of graphs.
  void begin() { used_ = 0; }

  /// Returns the device's copy of `tables`.
  std::byte const* put(cuda_executor const& exec, std::vector<std::byte> const& tables) {
    if (tables.empty()) return nullptr;
    auto const relaxed = relaxed_capture();
    if (exec.is_capturing()) return put_for_graph(tables);
    auto const at = used_;
    used_ += tables.size();
    if (memory_.size() < used_) grow(exec);
    free_source(tables.size()).upload(exec, memory_.data() + at, tables);
    return memory_.data() + at;
  }

 private:
  std::byte const* put_for_graph(std::vector<std::byte> const& tables) {
    auto const side = side_stream();
    auto const exec = on(side.get());
    auto const& memory = of_graphs_.emplace_back(exec, tables.size());
    exec.upload(memory.data(), tables.data(), tables.size());
    exec.wait();
    return memory.data();
  }
  /// Earlier launches use the memory from before.
  void grow(cuda_executor const& exec) {
    outgrown_.push_back(std::move(memory_));
    memory_ = buffer<std::byte, cuda_executor>(exec, used_ + used_ / 2);
  }
  /// There are as many sources as uploads that the stream has not reached, so no call waits for the stream.
  pinned_memory const& free_source(std::size_t bytes) {
    auto const fits = [=](pinned_memory const& source) { return source.size() >= bytes && source.is_free(); };
    auto const found = std::find_if(sources_.begin(), sources_.end(), fits);
    return found != sources_.end() ? *found : sources_.emplace_back(2 * bytes);
  }

  std::vector<pinned_memory> sources_;
  buffer<std::byte, cuda_executor> memory_;
  std::size_t used_ = 0;
  std::vector<buffer<std::byte, cuda_executor>> of_graphs_, outgrown_;
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

  void add(body_kernels const& kernels, std::size_t shared_bytes, std::uint64_t blocks, void const* body,
           std::size_t bytes) override {
    list_.add(kernels, shared_bytes, blocks, body, bytes);
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
      if (l.lanes == 1) {
        detail::launch(exec_.stream(), l.kernels.one, l.blocks, l.shared_bytes, list_.bodies().data() + l.body);
      } else {
        auto const bodies = l.table + lane_table::bodies_offset(l.lanes);
        auto const table =
            lane_table{reinterpret_cast<std::uint32_t const*>(tables + l.table), tables + bodies, l.lanes};
        detail::launch(exec_.stream(), l.kernels.many, l.blocks, l.shared_bytes, &table);
      }
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
