// benchmarks/network/overlap_bench.cpp — overlap of an exchange of dense floats with backward, in several ways.
//
//   benchmarks/network/cluster.sh run 4 100mbit overlap_bench --ddp PATH/overlap_peer.py --master 10.83.0.1
//
// A step computes forward and backward for a given CPU time, and averages the gradients of a small GPT: 13.3 MB,
// almost half of them an embedding whose gradient comes last. The ways alternate, one step each; DDP runs in a separate
// process next to each rank. Prints rows of a Markdown table: medians of the slowest rank's times, and of their ratios
// to those of a blocking MPI_Allreduce in the same round.
#include "peer_process.hpp"

#include "../../examples/train/statistics.hpp"

#include <pith/comm/mpi.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>
#include <pith/pith.hpp>

#include <fmt/format.h>
#include <sys/resource.h>
#include <CLI/CLI.hpp>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/transform.hpp>
#include <range/v3/view/zip_with.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct options {
  unsigned steps = 30, warm_up = 4;
  double compute_ms = 300;
  std::string ddp, master;
};

/// 8,000 words of 192 values, and four layers.
std::vector<pith::tensor_spec> gpt() {
  auto all = std::vector<pith::tensor_spec>{{"embedding", {8000 * 192, 8000}}, {"positions", {64 * 192, 64}}};
  for (int i = 0; i < 4; ++i) {
    auto const layer = "layer" + std::to_string(i);
    all.push_back({layer + ".norm", {2 * 192}});
    all.push_back({layer + ".attention", {576 * 192, 576}});
    all.push_back({layer + ".projection", {192 * 192, 192}});
    all.push_back({layer + ".up", {768 * 192, 768}});
    all.push_back({layer + ".down", {192 * 768, 192}});
  }
  all.push_back({"norm", {2 * 192}});
  return all;
}

/// Computes for a given CPU time of this thread.
void burn(double seconds) {
  auto const now = [] {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
  };
  for (auto const end = now() + seconds; now() < end;) {
  }
}

double cpu_seconds() {
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  auto const seconds = [](timeval const& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// The seconds of the slowest rank in a step, and the CPU seconds of this rank.
struct taken {
  double seconds, cpu;
};

double slowest(double mine) {
  MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return mine;
}

using exchange = pith::gradient_exchange<float, pith::seq_executor, pith::mpi_communicator>;

/// The computation of a step, whose gradients are rank + 1.
class model {
 public:
  model(double compute_ms, float value) : tensors_(gpt()), value_(value) {
    std::size_t n = 0, computed = 0;
    for (auto const& t : tensors_) n += t.dims.n;
    computed = n - tensors_[0].dims.n;
    gradients_.resize(n);
    seconds_.push_back(0);  // an embedding's transfer takes time, its computation does not
    for (std::size_t i = 1; i < tensors_.size(); ++i)
      seconds_.push_back(compute_ms / 3e3 * static_cast<double>(tensors_[i].dims.n) / static_cast<double>(computed));
  }

  std::vector<pith::tensor_spec> const& tensors() const { return tensors_; }
  std::vector<float>& gradients() { return gradients_; }

  void forward() const {
    for (auto const s : seconds_) burn(s);
  }
  /// ready(i) as each gradient is written, from the last tensor to the first.
  template <class F>
  void backward(F const& ready) {
    auto end = gradients_.data() + gradients_.size();
    for (auto i = tensors_.size(); i-- > 0;) {
      burn(2 * seconds_[i]);
      end -= tensors_[i].dims.n;
      std::fill_n(end, tensors_[i].dims.n, value_);
      ready(i);
    }
  }
  void require_mean(float expected) const {
    if (std::ranges::any_of(gradients_, [&](float g) { return g != expected; }))
      throw std::runtime_error("a gradient is not the mean");
  }

 private:
  std::vector<pith::tensor_spec> tensors_;
  float value_;
  std::vector<float> gradients_;
  std::vector<double> seconds_;
};

void all_reduce_blocking(model& m, int ranks) {
  auto& g = m.gradients();
  MPI_Allreduce(MPI_IN_PLACE, g.data(), static_cast<int>(g.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  for (auto& x : g) x /= static_cast<float>(ranks);
}
void step_at_once(model& m, exchange& e) {
  m.forward();
  m.backward([](std::size_t) {});
  e.all_reduce_mean(m.gradients());
}
void step_overlapped(model& m, exchange& e) {
  m.forward();
  e.begin(m.gradients());
  m.backward([&](std::size_t i) { e.ready(i); });
  e.wait();
}

/// A way to average, and the times of its steps.
struct contender {
  std::string name;
  std::function<taken()> step;
  std::vector<taken> steps = {};
};

taken timed(std::function<void()> const& step) {
  auto const cpu = cpu_seconds(), begun = MPI_Wtime();
  step();
  auto const seconds = MPI_Wtime() - begun;
  return {slowest(seconds), cpu_seconds() - cpu};
}

taken step_of(network::peer_process& peer) {
  peer.ask("step");
  auto t = taken();
  auto const answer = peer.answer();
  if (std::sscanf(answer.c_str(), "%lf %lf", &t.seconds, &t.cpu) != 2)
    throw std::runtime_error("DDP's process ended with \"" + answer + "\"");
  t.seconds = slowest(t.seconds);
  return t;
}

double median_of(contender const& c, double taken::*what) {
  return train::median(c.steps | ranges::views::transform(what) | ranges::to<std::vector>());
}
double median_ratio(contender const& c, contender const& base) {
  auto const ratio = [](taken const& a, taken const& b) { return a.seconds / b.seconds; };
  return train::median(ranges::views::zip_with(ratio, c.steps, base.steps) | ranges::to<std::vector>());
}

void print(std::vector<contender> const& all, options const& o) {
  fmt::print(
      "| averaging | ms per step | beyond computing | over MPI_Allreduce | CPU ms of rank 0 |\n|---|---|---|---|---|\n");
  for (auto const& c : all) {
    auto const seconds = median_of(c, &taken::seconds);
    fmt::print("| {} | {:.0f} | {:.0f} | {:.2f} | {:.0f} |\n", c.name, seconds * 1e3,
               (seconds - median_of(all[0], &taken::seconds)) * 1e3, median_ratio(c, all[1]),
               median_of(c, &taken::cpu) * 1e3);
  }
  fmt::print("\n{} steps, {:g} ms of CPU for forward and backward, 13.3 MB\n", o.steps, o.compute_ms);
}

/// A round runs one step of each.
void race(std::vector<contender>& all, unsigned rounds) {
  for (unsigned i = 0; i < rounds; ++i) {
    for (auto& c : all) {
      MPI_Barrier(MPI_COMM_WORLD);
      c.steps.push_back(c.step());
    }
  }
}

/// Whether the DDP process is ready on all ranks.
bool is_ready(std::unique_ptr<network::peer_process> const& peer, int rank) {
  auto const answer = peer ? peer->answer() : "skipped: no --ddp";
  if (rank == 0 && answer != "ready") fmt::print("DDP {}\n\n", answer);
  return slowest(answer == "ready" ? 0 : 1) == 0;
}

void measure(options const& o, std::unique_ptr<network::peer_process> const& peer) {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  auto const ranks = static_cast<int>(comm.size());
  auto m = model(o.compute_ms, static_cast<float>(comm.rank() + 1));
  auto const make = [&](pith::exchange_options const& how = {}) {
    return exchange(pith::seq, comm, m.tensors(), pith::identity(), how);
  };
  auto at_once = make(), by_default = make(), fitted = make(), in_25_mib = make({.bucket_bytes = 25u << 20});
  auto all = std::vector<contender>();
  all.push_back({"none: computing alone", [&] { return timed([&] { m.forward(), m.backward([](auto) {}); }); }});
  all.push_back({"MPI_Allreduce",
                 [&] { return timed([&] { m.forward(), m.backward([](auto) {}), all_reduce_blocking(m, ranks); }); }});
  all.push_back({"`identity`, no overlap", [&] { return timed([&] { step_at_once(m, at_once); }); }});
  all.push_back({"`identity`, buckets of 25 MiB", [&] { return timed([&] { step_overlapped(m, in_25_mib); }); }});
  all.push_back({"`identity`", [&] { return timed([&] { step_overlapped(m, by_default); }); }});
  all.push_back({"`identity`, `fit_buckets()`", [&] { return timed([&] { step_overlapped(m, fitted); }); }});
  if (is_ready(peer, static_cast<int>(comm.rank()))) all.push_back({"DDP on gloo", [&] { return step_of(*peer); }});
  race(all, o.warm_up);
  fitted.fit_buckets();
  for (auto& c : all) c.steps.clear();
  race(all, o.steps);
  step_overlapped(m, fitted);
  m.require_mean(static_cast<float>(ranks + 1) / 2);
  if (comm.rank() == 0) print(all, o);
}

std::vector<std::string> command_of(options const& o) {
  auto command = std::vector<std::string>{o.ddp, std::to_string(o.compute_ms)};
  for (auto const& t : gpt()) command.push_back(std::to_string(t.dims.n));
  return command;
}

int run(int argc, char** argv) {
  auto app = CLI::App("Steps of dense floats, averaged in several ways that alternate.", "overlap_bench");
  auto o = options();
  app.add_option("--steps", o.steps, "steps of each way")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--compute", o.compute_ms, "milliseconds of CPU for forward and backward")->capture_default_str();
  app.add_option("--ddp", o.ddp, "overlap_peer.py, by a path with a slash, to include DDP");
  app.add_option("--master", o.master, "the address of rank 0, for DDP");
  try {
    app.parse(argc, argv);
    if (!o.master.empty()) setenv("MASTER_ADDR", o.master.c_str(), 1);
    auto peer = std::unique_ptr<network::peer_process>();  // forks, so before MPI begins
    if (!o.ddp.empty()) peer = std::make_unique<network::peer_process>(command_of(o));
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    measure(o, peer);
    MPI_Finalize();
    return 0;
  } catch (CLI::ParseError const& error) {
    return app.exit(error) == 0 ? 0 : 1;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "overlap_bench: %s\n", error.what());
  }
  std::_Exit(1);  // other ranks may wait in MPI, which mpirun ends
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv); }
