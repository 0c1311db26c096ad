// pith/exec/detail/cuda_lanes.hpp — lanes on a CUDA stream: equal kernels of several lanes become one launch.
#pragma once

#include <pith/exec/cuda_executor.hpp>
#include <pith/exec/lanes.hpp>

#include <memory>

namespace pith { inline namespace PITH_ABI {

namespace detail {

class lane_recorder;  // exec/detail/cuda_recorder.cuh, for nvcc alone

}  // namespace detail

template <>
class lanes<cuda_executor> {
 public:
  static constexpr bool are_recorded = true;

  class recording {
   public:
    recording(cuda_executor const& exec, detail::cuda_recorder& recorder)
        : recorder_(recorder), exec_(exec.stream(), recorder) {
      recorder.begin(exec);
    }
    cuda_executor const& next_lane() const {
      recorder_.begin_lane();
      return exec_;
    }
    void run() const { recorder_.launch(); }

   private:
    detail::cuda_recorder& recorder_;
    cuda_executor exec_;
  };

  template <class Recorder = detail::lane_recorder>
  recording record(cuda_executor const& exec) {
    if (!recorder_) recorder_ = std::make_unique<Recorder>();
    return {exec, *recorder_};
  }

 private:
  std::unique_ptr<detail::cuda_recorder> recorder_;
};

}}  // namespace pith::PITH_ABI
