// tests/emulator/runtime/schedule.cpp — all streams of the process: who goes on, on whose thread, and who waits.
#include "runtime/schedule.hpp"

#include <algorithm>
#include <numeric>

namespace emulator {

namespace {

thread_local bool inside_work = false;

}  // namespace

schedule& schedule::of_process() {
  static auto& all = *new schedule;  // outlives every static of the program
  return all;
}

bool schedule::is_in_work() { return inside_work; }

CUstream_st& schedule::add(int device, bool is_blocking) {
  return *streams_.emplace_back(std::make_unique<CUstream_st>(device, is_blocking));
}
void schedule::destroy(CUstream_st& stream) {
  stream.is_destroyed = true;
  forget_ended();
}
void schedule::forget_ended() {
  std::erase_if(streams_, [](auto const& s) { return s->is_destroyed && s->is_idle(); });
}
std::vector<CUstream_st*> schedule::streams() const {
  auto all = std::vector<CUstream_st*>();
  for (auto const& s : streams_) all.push_back(s.get());
  return all;
}
std::vector<CUstream_st*> schedule::streams_of(int device) const {
  auto all = streams();
  std::erase_if(all, [=](auto const* s) { return s->device != device; });
  return all;
}

void schedule::give(CUstream_st& stream, work piece) {
  stream.give(std::move(piece));
  while (!is_late_ && step()) {
  }
  wake_others();
}

bool schedule::step() {
  inside_work = true;
  auto const order = in_turn(streams_.size());
  auto const went_on = std::ranges::any_of(order, [&](std::size_t i) { return streams_[i]->go_on(); });
  inside_work = false;
  if (went_on) {
    forget_ended();
    wake_others();
  }
  return std::exchange(is_stirred_, false) || went_on;
}

std::vector<std::size_t> schedule::in_turn(std::size_t n) {
  auto order = std::vector<std::size_t>(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (turn_ == turn::newest) std::ranges::reverse(order);
  if (turn_ == turn::drawn) std::ranges::shuffle(order, random_);
  return order;
}

void schedule::take_turns(turn how, unsigned seed) {
  turn_ = how;
  random_.seed(seed);
}

void schedule::sleep() {
  auto held = std::unique_lock(mutex_, std::adopt_lock);
  changed_.wait(held);
  held.release();  // who called enter() unlocks it
}

}  // namespace emulator
