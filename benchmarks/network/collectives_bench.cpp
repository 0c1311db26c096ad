// benchmarks/network/collectives_bench.cpp — times of mpi_communicator's calls over MPI's blocking ones.
//
//   mpirun -n 4 collectives_bench [ROUNDS [MOST_KIB]]
//
// Prints rows of a Markdown table, medians over the rounds of the slowest rank's time: KiB; MPI_Allreduce in ms, and
// relative to it all_reduce, reproducible_sums, and reproducible_sums over pairwise, of float, and the first two for
// the same bytes of bfloat16; MPI_Allgather in ms, and relative to it all_gather and pairwise; the same for
// MPI_Alltoall.
#include <pith/comm/mpi.hpp>
#include <pith/comm/pairwise.hpp>
#include <pith/comm/reproducible_sums.hpp>
#include <pith/exec/seq.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <vector>

namespace {

using pith::bfloat16;
using pith::seq;

/// The median over rounds, in milliseconds.
template <class F>
double milliseconds(unsigned rounds, F const& call) {
  auto times = std::vector<double>();
  for (unsigned i = 0; i < rounds; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    auto mine = MPI_Wtime();
    call();
    mine = MPI_Wtime() - mine;
    auto slowest = mine;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    times.push_back(slowest * 1e3);
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[rounds / 2];
}

class bench {
 public:
  bench(unsigned rounds, std::size_t bytes)
      : rounds_(rounds), piece_(bytes / comm_.size()), x_(bytes / sizeof(float)), from_(bytes), all_(bytes) {}

  void print() {
    auto const sum = time([&] { MPI_Allreduce(MPI_IN_PLACE, x_.data(), int(x_.size()), MPI_FLOAT, MPI_SUM, world()); }),
               gather = time([&] {
                 MPI_Allgather(from_.data(), int(piece_), MPI_BYTE, all_.data(), int(piece_), MPI_BYTE, world());
               }),
               pieces = time([&] {
                 MPI_Alltoall(from_.data(), int(piece_), MPI_BYTE, all_.data(), int(piece_), MPI_BYTE, world());
               });
    auto const sums = {summed<float>(comm_), summed<float>(ordered_), summed<float>(ordered_pairs_),
                       summed<bfloat16>(comm_), summed<bfloat16>(ordered_)};
    auto const gathers = {gathered(comm_), gathered(pairs_)}, exchanges = {exchanged(comm_), exchanged(pairs_)};
    if (comm_.rank() > 0) return;
    fmt::print("| {} | {:.3g} |{} {:.3g} |{} {:.3g} |{}\n", all_.size() / 1024, sum, ratios(sums, sum), gather,
               ratios(gathers, gather), pieces, ratios(exchanges, pieces));
    std::fflush(stdout);
  }

 private:
  static MPI_Comm world() { return MPI_COMM_WORLD; }
  template <class F>
  double time(F const& call) {
    std::fill(x_.begin(), x_.end(), 1.0f);  // sums of sums overflow
    return milliseconds(rounds_, call);
  }
  static std::string ratios(std::initializer_list<double> times, double one) {
    auto cells = std::string();
    for (auto const t : times) cells += fmt::format(" {:.2f} |", t / one);
    return cells;
  }
  template <class T, class Comm>
  double summed(Comm& comm) {
    auto const x = pith::span<T>(reinterpret_cast<T*>(x_.data()), all_.size() / sizeof(T));
    return time([&] { comm.all_reduce(seq, x, pith::reduction::sum).wait(seq); });
  }
  template <class Comm>
  double gathered(Comm& comm) {
    return time([&] { comm.all_gather(seq, sent(piece_), received()).wait(seq); });
  }
  template <class Comm>
  double exchanged(Comm& comm) {
    return time([&] { comm.all_to_all(seq, sent(all_.size()), received()).wait(seq); });
  }
  pith::span<std::byte const> sent(std::size_t bytes) const { return {from_.data(), bytes}; }
  pith::span<std::byte> received() { return {all_.data(), piece_ * comm_.size()}; }

  pith::mpi_communicator comm_ = pith::mpi_communicator(MPI_COMM_WORLD);
  pith::reproducible_sums<pith::mpi_communicator> ordered_{MPI_COMM_WORLD};
  pith::pairwise<pith::mpi_communicator> pairs_{MPI_COMM_WORLD};
  pith::reproducible_sums<pith::pairwise<pith::mpi_communicator>> ordered_pairs_{MPI_COMM_WORLD};
  unsigned rounds_;
  std::size_t piece_;
  std::vector<float> x_;
  std::vector<std::byte> from_, all_;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  auto const rounds = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 9;
  auto const most = argc > 2 ? static_cast<std::size_t>(std::atoi(argv[2])) : 16384;
  for (std::size_t kib = 16; kib <= most; kib *= 4) bench(std::max(rounds, 1u), kib * 1024).print();
  MPI_Finalize();
}
