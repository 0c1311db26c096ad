// tests/fuzz/state_schedules.hpp — bytes that gradiveq saved, in each of its phases.
#pragma once

#include <pith/control/gradiveq.hpp>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "edit.hpp"
#include "spoiled_group.hpp"
#include "state_exchanges.hpp"
#include "state_vectors.hpp"

namespace fuzz {

/// The state of a schedule of one convolution in parts: 25 bytes, a basis, how many samples, they and their sums, and the
/// words.
struct schedule_format {
  static parts open(std::vector<std::byte> const& saved) {
    auto const [words, states] = pith::detail::open_states("fuzz", pith::span<std::byte const>(saved));
    auto from = pith::detail::byte_reader("fuzz", states);
    auto of = parts();
    of.push_back(taken(from, 25));
    for (auto const size : {1u, 0u, 4u, 8u}) {
      auto const count = size == 0 ? 8 : from.take<std::uint64_t>() * size;
      of.push_back(taken(from, count));
    }
    of.push_back(bytes_of(words));
    return of;
  }
  static std::vector<std::byte> seal(parts const& of) {
    auto to = pith::detail::byte_writer();
    append(to, of[0]);
    to.put_all(of[1]);
    append(to, of[2]);
    to.put(std::uint64_t{of[3].size() / 4});
    append(to, of[3]);
    to.put(std::uint64_t{of[4].size() / 8});
    append(to, of[4]);
    return pith::detail::save_states(words_of(of[5]), to.bytes);
  }

 private:
  static std::vector<std::byte> taken(pith::detail::byte_reader& from, std::uint64_t count) {
    auto bytes = std::vector<std::byte>();
    while (bytes.size() < count) bytes.push_back(from.take<std::byte>());
    return bytes;
  }
  static void append(pith::detail::byte_writer& to, std::vector<std::byte> const& bytes) {
    to.bytes.insert(to.bytes.end(), bytes.begin(), bytes.end());
  }
};

/// An exchange and its schedule, and what this saved after each of its first steps.
class saved_schedule {
 public:
  saved_schedule() {
    for (unsigned i = 0; i < 9; ++i) {
      saved_.push_back(schedule_.export_state());
      step(i);
    }
  }

  /// What is refused changes nothing; what is accepted is what is saved next. A fit of samples that were forged may fail.
  void import(input& from) {
    auto const& before = saved_[from.take_below(saved_.size())];
    schedule_.import_state(pith::span<std::byte const>(before));
    auto const codec = exchange_.codecs()[0].name();
    auto const bytes = edited(before, from);
    if (!accepts([&] { schedule_.import_state(pith::span<std::byte const>(bytes)); })) {
      require(schedule_.export_state() == before, "a refused state changed a schedule");
      return require(exchange_.codecs()[0].name() == codec, "a refused state changed codecs");
    }
    require(schedule_.export_state() == bytes, "a state is not the one that was imported");
    try {
      for (unsigned i = 9; i < 15; ++i) step(i);
    } catch (std::invalid_argument const&) {
    } catch (std::runtime_error const&) {
    }
  }

 private:
  using exchange = pith::gradient_exchange<float, pith::seq_executor, spoiled_group>;
  using schedule = pith::gradiveq<float, pith::seq_executor, spoiled_group>;

  void step(unsigned number) {
    auto g = gradient<float>(number);
    schedule_.all_reduce_mean(pith::span<float>(g));
  }
  static std::vector<std::byte> edited(std::vector<std::byte> const& saved, input& from) {
    auto of = schedule_format::open(saved);
    for (auto edits = from.take_below(8); edits > 0; --edits) {
      auto const part = from.take_below(of.size());
      part == 1 ? edit_some_basis(of[1], from) : resize_or_edit(of[part], from);
    }
    return schedule_format::seal(of);
  }

  /// That of the convolution, or one of other slices, or of another order.
  static void edit_some_basis(std::vector<std::byte>& bytes, input& from) {
    static auto const shorter = support::basis_of(96, 8, pith::slice_order::oihw(4, 6, 4)).save();
    static auto const plain = support::basis_of(96, 24, {}).save();
    auto const which = from.take_below(4);
    if (which == 1) bytes = shorter;
    if (which == 2) bytes = plain;
    edit_basis(bytes, from);
  }

  exchange exchange_ = {pith::seq, whole_group(), tensors, pith::parse<float>("identity"), {.seed = 5}};
  schedule schedule_ = {pith::seq,
                        whole_group(),
                        exchange_,
                        {{0, {4, 6, 2, 2}, 24}},
                        {.warm_up = 1, .samples = 3, .compressed = 4, .first_losses = 1}};
  std::vector<std::vector<std::byte>> saved_;
};

inline void import_schedule(input& from) {
  static auto schedule = saved_schedule();
  schedule.import(from);
}

}  // namespace fuzz
