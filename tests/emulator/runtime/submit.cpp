// tests/emulator/runtime/submit.cpp — work for a stream in CUDA's order, or for the graph that is captured from it.
#include "runtime/submit.hpp"

#include "runtime/device.hpp"
#include "runtime/graph.hpp"
#include "runtime/schedule.hpp"

#include <algorithm>
#include <vector>

namespace emulator {

namespace {

std::vector<place> ends_before(CUstream_st const& stream) {
  auto const& legacy = device_of(stream.device).legacy;
  auto ends = std::vector<place>();
  for (auto const* s : schedule::of_process().streams_of(stream.device)) {
    if (s != &stream && s->is_blocking && (s == &legacy || &stream == &legacy)) ends.push_back(s->end());
  }
  return ends;
}

void order_with_legacy(CUstream_st& stream) {
  if (!stream.is_blocking) return;
  auto const is_reached = [ends = ends_before(stream)] { return std::ranges::all_of(ends, &place::is_reached); };
  if (!is_reached()) schedule::of_process().give(stream, is_reached);
}

}  // namespace

cudaError_t submit(cudaStream_t handle, work run) {
  auto& stream = stream_of(handle);
  if (stream.captured) {
    stream.last_nodes = {stream.captured->graph->add(std::move(run), stream.last_nodes)};
    return cudaSuccess;
  }
  order_with_legacy(stream);
  schedule::of_process().give(stream, std::move(run));
  return device_of(stream.device).fault;
}

}  // namespace emulator
