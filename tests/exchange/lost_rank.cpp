// tests/exchange/lost_rank.cpp — trains, loses a rank, and resumes in a new job: run by lost_rank_test.py.
//
//   lost_rank STATES SAID TIMEOUT CODEC                     trains from the last step that all ranks have in STATES
//   lost_rank STATES SAID TIMEOUT CODEC FAULT RANK STEP US  ... until a rank is lost, so long after a step began:
//                                                           kill, exit, throw, stop (which may end)
//
// A rank writes one line per step to SAID/rank.RANK, and its state to STATES in every third step.
#include <pith/comm/mpi.hpp>
#include <pith/comm/reproducible_sums.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>
#include <pith/parse.hpp>

#include <support/parsed.hpp>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace fs = std::filesystem;
using communicator = pith::reproducible_sums<pith::mpi_communicator>;
using exchange = pith::gradient_exchange<float, pith::seq_executor, communicator>;
using clock = std::chrono::steady_clock;

constexpr unsigned steps = 12, steps_between_states = 3;
std::vector<pith::tensor_spec> const tensors = {
    {"weight", {96 * 64, 96}}, {"bias", {96}}, {"none", {0}}, {"head", {1001, 7}}};

struct arguments {
  fs::path states, said;
  double timeout;
  std::string codec, fault;
  unsigned rank = 0, step = 0;
  std::chrono::microseconds after{};
};

/// Weights after so many steps, and the exchange's state.
struct checkpoint {
  std::vector<float> weights;
  std::vector<std::byte> state;
};

class store {
 public:
  store(fs::path folder, unsigned rank, unsigned ranks) : folder_(std::move(folder)), rank_(rank), ranks_(ranks) {}

  void save(unsigned step, checkpoint const& c) const {
    auto const part = folder_ / ("part." + std::to_string(rank_));
    auto file = std::ofstream(part, std::ios::binary);
    file.write(reinterpret_cast<char const*>(c.weights.data()),
               static_cast<std::streamsize>(c.weights.size() * sizeof(float)));
    file.write(reinterpret_cast<char const*>(c.state.data()), static_cast<std::streamsize>(c.state.size()));
    file.close();
    fs::rename(part, path(step, rank_));
  }
  checkpoint load(unsigned step, std::size_t weights) const {
    auto file = std::ifstream(path(step, rank_), std::ios::binary);
    auto const all = std::string(std::istreambuf_iterator<char>(file), {});
    auto const* const bytes = reinterpret_cast<std::byte const*>(all.data());
    auto c = checkpoint{std::vector<float>(weights), {bytes + weights * sizeof(float), bytes + all.size()}};
    std::memcpy(c.weights.data(), bytes, weights * sizeof(float));
    return c;
  }
  /// The last step that all ranks have saved, or 0.
  unsigned last() const {
    auto step = steps;
    while (step > 0 && !all_have(step)) --step;
    return step;
  }

 private:
  fs::path path(unsigned step, unsigned rank) const {
    return folder_ / ("state." + std::to_string(step) + "." + std::to_string(rank));
  }
  bool all_have(unsigned step) const {
    for (unsigned r = 0; r < ranks_; ++r) {
      if (!fs::exists(path(step, r))) return false;
    }
    return true;
  }

  fs::path folder_;
  unsigned rank_, ranks_;
};

/// Strikes this process from a thread of its own, at some moment of a step.
class fault {
 public:
  fault(arguments const& a, unsigned rank) : a_(a), is_mine_(!a.fault.empty() && rank == a.rank) {}

  void begin(unsigned step) {
    if (!is_mine_ || step != a_.step) return;
    thread_ = std::jthread([this] {
      std::this_thread::sleep_for(a_.after);
      strike();
    });
  }
  /// Where backward is at work.
  void pass() const {
    if (has_thrown_) throw std::runtime_error("backward threw");
  }
  /// A fault that is yet to come comes.
  void end() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  void strike() {
    if (a_.fault == "throw") has_thrown_ = true;
    if (a_.fault == "exit") _exit(3);
    if (a_.fault == "kill") kill(getpid(), SIGKILL);
    if (a_.fault != "stop") return;
    std::ofstream(a_.said / "stopped") << getpid() << std::endl;
    kill(getpid(), SIGSTOP);
  }

  arguments const& a_;
  bool is_mine_;
  std::atomic<bool> has_thrown_ = false;
  std::jthread thread_;
};

/// Of this rank's data, as backward would write it from the last tensor to the first.
void write_gradient(std::vector<float> const& weights, std::size_t first, std::size_t n, unsigned rank, unsigned step,
                    std::vector<float>& to) {
  for (auto i = first; i < first + n; ++i)
    to[i] = weights[i] - static_cast<float>((i * 37 + rank * 11 + step * 5) % 33) / 16;
}

class job {
 public:
  job(arguments const& a, communicator& comm, exchange& ex)
      : comm_(comm),
        ex_(ex),
        store_(a.states, comm.rank(), comm.size()),
        fault_(a, comm.rank()),
        said_(a.said / ("rank." + std::to_string(comm.rank()))),
        weights_(ex.size()),
        gradient_(ex.size()) {}

  void run() {
    resume();
    try {
      while (step_ < steps) train();
      fault_.end();
      said_ << "ended " << pith::digest().operator<<(text(weights_)).value() << std::endl;
    } catch (std::exception const& error) {
      auto const took = std::chrono::duration<double>(clock::now() - begin_).count();
      said_ << "error " << took << ' ' << error.what() << std::endl;
      ex_.abandon();
    }
    save_last();  // at the end as well: another rank may have failed in the last step
  }

 private:
  static std::string_view text(std::vector<float> const& x) {
    return {reinterpret_cast<char const*>(x.data()), x.size() * sizeof(float)};
  }

  void resume() {
    step_ = store_.last();
    said_ << "begins " << step_ << std::endl;
    if (step_ == 0) return;
    auto const c = store_.load(step_, ex_.size());
    weights_ = c.weights;
    ex_.import_state(c.state);
  }
  void train() {
    begin_ = clock::now();
    fault_.begin(step_);
    ex_.begin(gradient_);
    for (auto i = tensors.size(), end = ex_.size(); i-- > 0;) {
      end -= tensors[i].dims.n;
      write_gradient(weights_, end, tensors[i].dims.n, comm_.rank(), step_, gradient_);
      fault_.pass();
      ex_.ready(i);
    }
    ex_.wait();
    before_ = weights_;
    for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i] -= gradient_[i] / 8;
    ++step_;
    said_ << "step " << step_ << ' ' << pith::digest().operator<<(text(gradient_)).value() << std::endl;
    if (step_ % steps_between_states == 0) store_.save(step_, {weights_, ex_.export_state()});
  }
  /// What this rank can go on from: after its last step, or after the one before that.
  void save_last() {
    store_.save(step_, {weights_, ex_.export_state()});
    if (!before_.empty()) store_.save(step_ - 1, {before_, ex_.export_state(1)});
  }

  communicator& comm_;
  exchange& ex_;
  store store_;
  fault fault_;
  std::ofstream said_;
  std::vector<float> weights_, before_, gradient_;
  unsigned step_ = 0;
  clock::time_point begin_ = clock::now();
};

arguments read(int argc, char** argv) {
  auto a = arguments{argv[1], argv[2], std::atof(argv[3]), argv[4], {}};
  if (argc < 9) return a;
  a.fault = argv[5];
  a.rank = static_cast<unsigned>(std::atoi(argv[6])), a.step = static_cast<unsigned>(std::atoi(argv[7]));
  a.after = std::chrono::microseconds(std::atoi(argv[8]));
  return a;
}

}  // namespace

int main(int argc, char** argv) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  auto const a = read(argc, argv);
  {
    auto comm = communicator(MPI_COMM_WORLD, pith::mpi_options{.timeout = pith::timeout_duration(a.timeout)});
    auto ex = exchange(pith::seq, comm, tensors, pith::parse<float>(a.codec),
                       pith::exchange_options{.seed = 7, .bucket_bytes = 16384, .is_recoverable = true});
    job(a, comm, ex).run();
  }
  std::_Exit(0);  // MPI_Finalize would wait for a rank that is gone
}
