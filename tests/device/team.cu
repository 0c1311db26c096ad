// tests/device/team.cu — each collective of a device's team does what it does with one thread.
//
// A block repeats them in one fast memory, where another thread reads each result before the next one is written: so a
// barrier too few is a race. Sizes are of several rounds.
#include <pith/core/detail/last_block.hpp>
#include <pith/core/detail/summation.hpp>

#include <cstdint>
#include <numeric>
#include <vector>

#include "support/device.hpp"

using namespace support;

namespace {

constexpr std::uint32_t most = 4999, rows = 19, width = 128, random_groups = 300;
constexpr std::uint32_t blocks = 5, results = 6 * (most + 1);

struct shared {
  pith::detail::fast_array<float, most + 1> x;
  pith::detail::fast_array<std::uint32_t, most + pith::detail::kept_slack> list;
};

/// All collectives on `n` of a block's values; the first `skipped` are left out, so that the others are misaligned.
struct collectives {
  using memory = shared;

  float const* from;
  std::uint64_t const* step;
  std::uint32_t n, skipped;
  std::uint32_t* to;

  template <pith::team Team>
  PITH_HD void operator()(Team const& team, shared& fast, std::uint64_t block) const {
    auto* const x = fast.x.data() + skipped;
    auto* const list = fast.list.data();
    auto const* const own = from + block * (most + 1);
    auto* out = to + block * results;
    team.for_each(n + skipped, [=, first = fast.x.data()](std::uint32_t i) { first[i] = own[i]; });
    auto const least = pith::detail::magnitude_bits(0.5f);
    out = read(team, list, team.filter_magnitude(x, n, least, list), out);
    out = read(team, list, place(team, x, least, list), out);
    auto const emit = [=](std::uint32_t i, std::uint32_t place) { list[place] = i; };
    out = read(team, list,
               team.compact(
                   n, [=](std::uint32_t i) { return x[i] > 0.5f; }, emit),
               out);
    out = read(team, list, merge(team, x, list), out);
    team.random(draws(), block, random_groups, reinterpret_cast<std::uint16_t*>(list));
    out = read(team, list, 4 * random_groups, out);
    auto const words = (n + 31) / 32;
    team.for_each(1u, [=](std::uint32_t) { list[words - 1] = 0; });
    team.pack_signs(x, n, reinterpret_cast<std::uint8_t*>(list));
    out = read(team, list, words, out);
    double_each(team, x);
    read(team, reinterpret_cast<std::uint32_t const*>(x), n, out);
  }

 private:
  PITH_HD pith::draws draws() const {
    auto id = pith::encoding_id();
    id.seed = 77;
    id.step = step;
    return pith::draws(id);
  }

  /// Places that are refused, then places from 7 on.
  template <class Team>
  PITH_HD std::uint32_t place(Team const& team, float const* x, std::uint32_t least, std::uint32_t* list) const {
    if constexpr (Team::by_octets) {
      auto* const kept = list + most;
      auto const emit = [=](std::uint32_t i, std::uint32_t at) { list[at - 7] = i; };
      auto const place_from = [=, &team, own = *this](std::uint32_t first) {
        return team.filter_to_slots(
            x, own.n, least, [=](std::uint32_t all) { return *kept = all, first; }, emit);
      };
      return place_from(Team::nowhere) || !place_from(7) ? 0 : *kept;
    } else {
      return team.filter_magnitude(x, n, least, list);
    }
  }

  template <class Team>
  PITH_HD static std::uint32_t merge(Team const& team, float const* x, std::uint32_t* list) {
    auto* const lanes = reinterpret_cast<float*>(list);
    auto const lopsided = [](float a, float b) { return a - b / 2; };
    pith::detail::merge_rows(
        team, lanes, rows, pith::detail::constant<width>(), [=](std::uint32_t i) { return x[i]; }, lopsided);
    team.for_each(1u, [=](std::uint32_t) {
      for (std::uint32_t r = 1; r < rows; ++r) lanes[r] = lanes[r * width / 2];
    });
    return rows;
  }

  template <class Team>
  PITH_HD void double_each(Team const& team, float* x) const {
    team.for_each_run(n, pith::detail::is_vector_aligned(x), [=](std::uint32_t i, auto const& run) {
      auto const own = run.read(x + i);
      run.write(x + i, [&](std::uint32_t j) { return 2 * own[j]; });
    });
  }

  /// Their number, and the words from the last to the first, so that another thread reads than wrote.
  template <class Team>
  PITH_HD static std::uint32_t* read(Team const& team, std::uint32_t const* words, std::uint32_t count,
                                     std::uint32_t* out) {
    team.for_each(count, [=](std::uint32_t i) { out[1 + i] = words[count - 1 - i]; });
    team.for_each(1u, [=](std::uint32_t) { *out = count; });
    return out + 1 + count;
  }
};

/// Each block arrives at two words, one after the other, and writes how often it was the last.
struct arrive_twice {
  struct memory {};
  std::uint32_t* arrived;
  std::uint32_t* times;

  template <pith::team Team>
  PITH_HD void operator()(Team const& team, memory&, std::uint64_t block) const {
    auto const first = team.is_last(arrived, blocks), second = team.is_last(arrived + 1, blocks);
    auto* const own = times + block;
    team.for_each(1u, [=](std::uint32_t) { *own = (first ? 1u : 0u) + (second ? 1u : 0u); });
  }
};

/// A block writes many words; the last of all adds up those of all.
struct write_number {
  struct memory {};
  std::uint32_t* words;

  template <pith::team Team>
  PITH_HD void operator()(Team const& team, memory&, std::uint64_t block) const {
    auto* const own = words + block * 1000;
    team.for_each(1000u, [=](std::uint32_t i) { own[i] = static_cast<std::uint32_t>(block) * i; });
  }
};
struct add_numbers {
  struct memory {};
  std::uint32_t const* words;
  std::uint32_t* sums;

  template <pith::team Team>
  PITH_HD void operator()(Team const& team, memory&, std::uint64_t) const {
    auto const* const from = words;
    auto* const to = sums;
    team.for_each(1000u, [=](std::uint32_t i) {
      for (std::uint32_t b = 0; b < blocks; ++b) to[i] += from[b * 1000 + 999 - i];
    });
  }
};

template <pith::executor E>
std::vector<std::uint32_t> run_collectives(E const& exec, std::uint32_t n, std::uint32_t skipped) {
  auto const x = narrow<float>(normal_vector(blocks * (most + 1), 41));
  auto const from = pith::buffer<float, E>(exec, x.size());
  auto const to = pith::buffer<std::uint32_t, E>(exec, blocks * results);
  auto const step = pith::buffer<std::uint64_t, E>(exec, 1);
  auto const third = std::uint64_t{3};
  exec.upload(from.data(), x.data(), from.size_bytes());
  exec.upload(step.data(), &third, sizeof third);
  exec.fill(to.data(), std::byte{}, to.size_bytes());
  exec.for_each_block(blocks, collectives{from.data(), step.data(), n, skipped, to.data()});
  auto words = std::vector<std::uint32_t>(to.size());
  exec.download(words.data(), to.data(), to.size_bytes());
  return words;
}

/// Twice, since the word that counts those that arrive must be 0 again.
template <pith::executor E>
std::vector<std::uint32_t> run_last(E const& exec) {
  auto const words = pith::buffer<std::uint32_t, E>(exec, blocks * 1000);
  auto const sums = pith::buffer<std::uint32_t, E>(exec, 1001);
  exec.fill(sums.data(), std::byte{}, sums.size_bytes());
  for (int i = 0; i < 2; ++i) {
    pith::detail::for_each_block_then(exec, blocks, write_number{words.data()}, add_numbers{words.data(), sums.data()},
                                      sums.data() + 1000);
  }
  auto found = std::vector<std::uint32_t>(sums.size());
  exec.download(found.data(), sums.data(), sums.size_bytes());
  return found;
}

}  // namespace

TEST_CASE("each collective of a device team writes the words that one thread writes") {
  auto const stream = own_stream();
  for (std::uint32_t const n : {2500u, most}) {
    for (std::uint32_t const skipped : {0u, 1u}) {
      CAPTURE(n);
      CAPTURE(skipped);
      auto const count = n - skipped;
      CHECK(run_collectives(pith::on(stream.get()), count, skipped) == run_collectives(pith::seq, count, skipped));
    }
  }
}

TEST_CASE("the last block reads the writes of all blocks in each of two launches") {
  auto const stream = own_stream();
  CHECK(run_last(pith::on(stream.get())) == run_last(pith::seq));
}

TEST_CASE("one block is the last at each word") {
  auto const stream = own_stream();
  auto const exec = pith::on(stream.get());
  auto const words = pith::buffer<std::uint32_t, pith::cuda_executor>(exec, 2 + blocks);
  exec.fill(words.data(), std::byte{}, words.size_bytes());
  exec.for_each_block(blocks, arrive_twice{words.data(), words.data() + 2});
  auto found = std::vector<std::uint32_t>(words.size());
  exec.download(found.data(), words.data(), words.size_bytes());
  CHECK(std::accumulate(found.begin() + 2, found.end(), 0u) == 2);
  CHECK(found[0] + found[1] == 0);
}
