// benchmarks/gradiveq/aggregation_bench.cpp — means of convolutions: summed along a basis, or by decoding rings.
//
//   mpirun -n 4 aggregation_bench
//   benchmarks/network/cluster.sh run 4 100mbit build/host/benchmarks/aggregation_bench --seconds 5
//
// A step of gradient_exchange over several 256 x 256 x 3 x 3 gradients, one per bucket, so that transfers overlap with
// encoding and decoding of other buckets. Slices of 1,024 have 32 directions in common, and the basis has 128: all
// methods but float send an eighth. Times are medians of the slowest rank's; the error is relative to the mean.
#include "difference.hpp"

#include <pith/adaptor/identity.hpp>
#include <pith/collective/ring.hpp>
#include <pith/comm/mpi.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/vector_quantize/pca.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t kernel = 256 * 256 * 3 * 3, slice = 1024, directions = 32;

struct options {
  std::size_t layers = 4;
  double seconds = 2;
};

using codec = pith::any_codec<float, pith::seq_executor>;
struct method {
  char const* name;
  codec c;
};

std::vector<float> normal(std::size_t n, unsigned seed) {
  auto random = std::mt19937(seed);
  auto draw = std::normal_distribution<float>();
  auto x = std::vector<float>(n);
  for (auto& v : x) v = draw(random);
  return x;
}

/// Slices that are combinations of the same directions, with a little noise.
std::vector<float> gradient(std::size_t n, unsigned seed) {
  auto const common = normal(directions * slice, 1), weights = normal(n / slice * directions, 2 * seed);
  auto x = normal(n, 2 * seed + 1);
  for (std::size_t i = 0; i < n; ++i) {
    x[i] *= 0.1f;
    for (std::size_t k = 0; k < directions; ++k)
      x[i] += weights[i / slice * directions + k] * common[k * slice + i % slice];
  }
  return x;
}

/// Every rank learns the same basis, from the same gradients.
pith::pca_basis learnt() {
  auto samples = pith::slice_samples<float>(40 * slice, slice);
  for (unsigned t = 0; t < 10; ++t) samples.add(pith::span<float const>(gradient(40 * slice, 1000 + t)));
  return pith::pca_basis::fit(samples, {.components = slice / 8, .about = pith::centring::shared});
}

double all_reduced(double x, MPI_Op op) {
  MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_DOUBLE, op, MPI_COMM_WORLD);
  return x;
}

std::vector<float> mean_of(std::vector<float> own, unsigned ranks) {
  MPI_Allreduce(MPI_IN_PLACE, own.data(), static_cast<int>(own.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  for (auto& v : own) v /= static_cast<float>(ranks);
  return own;
}

template <class F>
double seconds_of(F const& step) {
  MPI_Barrier(MPI_COMM_WORLD);
  auto const start = std::chrono::steady_clock::now();
  step();
  return all_reduced(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), MPI_MAX);
}

void measure(pith::mpi_communicator& comm, method const& m, std::vector<float> const& own, options const& o) {
  auto const tensors = std::vector<pith::tensor_spec>(o.layers, {"conv", {kernel, 256}});
  auto exchange = pith::make_exchange<float>(pith::seq, comm, tensors, m.c, {.bucket_bytes = kernel * sizeof(float)});
  auto x = own;
  exchange.all_reduce_mean(x);
  auto const error = gradiveq::relative_difference(x, mean_of(own, comm.size()));
  auto times = std::vector<double>();
  for (double left = o.seconds; left > 0 || times.size() < 3; left -= times.back()) {
    x = own;
    times.push_back(seconds_of([&] { exchange.all_reduce_mean(x); }));
  }
  std::ranges::sort(times);
  auto const moved = exchange.traffic();
  auto const bytes = moved.summed + moved.gathered + moved.passed;
  if (comm.rank() == 0) {
    fmt::print("{:<24}{:>8.1f} ms{:>12.0f} kB{:>12.2e}{:>6}\n", m.name, 1e3 * times[times.size() / 2],
               static_cast<double>(bytes) / 1e3, error, times.size());
    std::fflush(stdout);
  }
}

void measure_all(options const& o) {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  auto const own = gradient(o.layers * kernel, comm.rank());
  auto const basis = std::make_shared<pith::pca_basis const>(learnt());
  auto const methods = {method{"float, summed", pith::identity()}, method{"pca, summed", pith::pca(basis)},
                        method{"pca, ring", pith::ring(pith::pca(basis))},
                        method{"qsgd<4>, ring", pith::ring(pith::qsgd<4>())}};
  if (comm.rank() == 0) {
    fmt::print("{} ranks, {} tensors of {} elements, of MPI_COMM_WORLD\n", comm.size(), o.layers, kernel);
    fmt::print("{:<24}{:>11}{:>15}{:>12}{:>6}\n", "method", "step", "handed a step", "error", "steps");
  }
  for (auto const& m : methods) measure(comm, m, own, o);
}

int run(int argc, char** argv) {
  auto app = CLI::App("Steps that exchange convolutions' gradients.", "aggregation_bench");
  auto o = options();
  app.add_option("--layers", o.layers, "how many tensors")->capture_default_str();
  app.add_option("--seconds", o.seconds, "for each method, at least three steps")->capture_default_str();
  try {
    app.parse(argc, argv);
    measure_all(o);
    return 0;
  } catch (CLI::ParseError const& error) {
    return app.exit(error) == 0 ? 0 : 1;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "aggregation_bench: %s\n", error.what());
  }
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  auto const status = run(argc, argv);
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  MPI_Finalize();
}
