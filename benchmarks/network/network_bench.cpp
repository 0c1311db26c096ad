// benchmarks/network/network_bench.cpp — steps of an exchange over links, as comma-separated values; run.sh runs it.
//
//   mpirun -n 4 network_bench --rate 100 --interface eth0 --workload 4096 --workload LSTM
#include "measure.hpp"

#include <pith/comm/mpi.hpp>
#include <pith/comm/pairwise.hpp>
#include <pith/comm/reproducible_sums.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <range/v3/algorithm/contains.hpp>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct options {
  double rate = 0, seconds = 3;
  bool is_pairwise = false;
  std::string interface;
  std::vector<std::string> workloads = {"256"}, methods;
};

void print_header() {
  fmt::print(
      "rate_mbit,ranks,workload,elements,family,exchange,codec,steps,step_s,plain_s,encode_s,decode_s,"
      "reported_bytes,sent_bytes,plain_sent_bytes\n");
}

void print_row(options const& o, unsigned ranks, std::string const& workload, std::uint64_t n, network::method const& m,
               network::measured const& r) {
  fmt::print("{:g},{},{},{},{},{},\"{}\",{},{:.6g},{:.6g},{:.6g},{:.6g},{:.0f},{:.0f},{:.0f}\n", o.rate, ranks,
             workload, n, m.family, m.exchange, m.codec, r.steps, r.step, r.plain, r.encode, r.decode, r.handed, r.sent,
             r.plain_sent);
  std::fflush(stdout);
}

bool is_wanted(options const& o, network::method const& m) {
  return o.methods.empty() || ranges::contains(o.methods, std::string_view(m.family));
}

pith::any_communicator communicator(options const& o) {
  using pairs = pith::reproducible_sums<pith::pairwise<pith::mpi_communicator>>;
  if (o.is_pairwise) return pith::any_communicator::owning([] { return pairs(MPI_COMM_WORLD); });
  return pith::any_communicator::owning([] { return pith::mpi_communicator(MPI_COMM_WORLD); });
}

void measure_all(options const& o) {
  auto comm = communicator(o);
  auto const link = network::interface(o.interface);
  if (comm.rank() == 0) print_header();
  for (auto const& workload : o.workloads) {
    auto const tensors = network::workload(workload);
    auto const n = network::elements(tensors);
    auto const values = network::gradient_of(n, comm.rank());
    for (auto const& m : network::methods) {
      if (!is_wanted(o, m)) continue;
      auto const r = network::measure(comm, link, tensors, m.codec, values, o.seconds);
      if (comm.rank() == 0) print_row(o, comm.size(), workload, n, m, r);
    }
  }
}

int run(int argc, char** argv) {
  auto app =
      CLI::App("Steps of an exchange over the links of this machine, as comma-separated values.", "network_bench");
  auto o = options();
  app.add_option("--rate", o.rate, "the links' rate in Mbit/s, for the table; 0: no limit");
  app.add_flag("--pairwise", o.is_pairwise, "measure reproducible_sums<pairwise<mpi_communicator>>");
  app.add_option("--interface", o.interface, "the interface whose bytes are counted");
  app.add_option("--workload", o.workloads, "KiB of a tensor, or ResNet-20, VGG-11 or LSTM; repeatable")
      ->allow_extra_args(false);
  app.add_option("--method", o.methods, "only methods of this family; repeatable")->allow_extra_args(false);
  app.add_option("--seconds", o.seconds, "for each method and workload, at least three steps")->capture_default_str();
  try {
    app.parse(argc, argv);
    measure_all(o);
    return 0;
  } catch (CLI::ParseError const& error) {
    return app.exit(error) == 0 ? 0 : 1;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "network_bench: %s\n", error.what());
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
