// tests/determinism/mixed_job.cpp — ranks of several compilers and instruction sets train one model: after a thousand
// compressed steps their weights are equal, bit by bit. It is one rank; its argument limits its instructions.
#include <pith/collective/ok_top_k.hpp>
#include <pith/collective/ring.hpp>
#include <pith/collective/two_shot.hpp>
#include <pith/comm/mpi.hpp>
#include <pith/core/digest.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/ef21.hpp>
#include <pith/feedback/momentum_correction.hpp>
#include <pith/feedback/two_sided.hpp>
#include <pith/lowrank/one_sided_power_sgd.hpp>
#include <pith/pith.hpp>
#include <pith/quantize/natural.hpp>
#include <pith/quantize/one_bit.hpp>
#include <pith/quantize/summed_terngrad.hpp>
#include <pith/sparsify/sidco.hpp>
#include <pith/transform/hadamard.hpp>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <random>
#include <string_view>
#include <vector>

namespace {

using any_codec = pith::any_codec<float, pith::seq_executor>;

std::vector<any_codec> codecs() {
  using namespace pith::options;
  using pith::error_feedback;
  return {pith::identity(),
          pith::cast<pith::half>(),
          pith::natural<8>(),
          pith::terngrad(unclipped, 512),
          pith::summed_terngrad(),
          pith::hadamard() | pith::qsgd<4>(),
          pith::two_shot(pith::qsgd<8>()),
          pith::ring(pith::qsgd<8>()),
          error_feedback(pith::scaled_sign()),
          error_feedback(pith::one_bit(column)),
          error_feedback(pith::top_k(0.05) | pith::qsgd<8>()),
          error_feedback(pith::sidco(0.05)),
          error_feedback(pith::random_k(0.1)),
          error_feedback(pith::ok_top_k(0.05)),
          error_feedback(pith::power_sgd(2)),
          error_feedback(pith::one_sided_power_sgd(2)),
          error_feedback(pith::top_k(0.05), pith::ef21()),
          error_feedback(pith::scaled_sign(), pith::momentum_correction(0.9)),
          error_feedback(pith::scaled_sign(), pith::two_sided(pith::scaled_sign(1000)))};
}

/// A linear map, which samples of it and of a rank's own inputs teach.
constexpr std::size_t inputs = 96, outputs = 64, weights = inputs * outputs, samples = 16;

/// Multiples of 2^-23 in [-1, 1).
std::vector<float> uniform(std::size_t n, std::mt19937_64& random) {
  auto x = std::vector<float>(n);
  for (auto& v : x) v = static_cast<float>(static_cast<std::int32_t>(random() >> 40) - (1 << 23)) * 0x1p-23f;
  return x;
}

float dot(float const* a, float const* b) {
  float sum = 0;
  for (std::size_t i = 0; i < inputs; ++i) sum += a[i] * b[i];
  return sum;
}

/// Half the squared error of the map w, the mean over samples x; overwrites `gradient`. Each rank rounds as it likes.
float gradient_of(float const* w, float const* teacher, std::vector<float> const& x, float* gradient) {
  float loss = 0;
  std::fill_n(gradient, weights, 0.0f);
  for (std::size_t at = 0; at < x.size(); at += inputs) {
    for (std::size_t o = 0; o < weights; o += inputs) {
      auto const error = dot(w + o, x.data() + at) - dot(teacher + o, x.data() + at);
      loss += error * error / (2 * samples);
      for (std::size_t i = 0; i < inputs; ++i) gradient[o + i] += error * x[at + i] / samples;
    }
  }
  return loss;
}

/// A map for each codec, all of them taught the same.
class model {
 public:
  model(pith::seq_executor exec, pith::mpi_communicator& comm)
      : exchange_(pith::make_exchange<float>(exec, comm, tensors(), codec_of, {.seed = 5})),
        random_(comm.rank() + 1),
        w_(exchange_.size()),
        gradients_(exchange_.size()) {
    auto shared = std::mt19937_64(41);
    teacher_ = uniform(weights, shared);
  }

  /// The losses of all maps before the step.
  std::vector<float> step() {
    auto losses = std::vector<float>();
    auto const x = uniform(samples * inputs, random_);
    for (std::size_t at = 0; at < w_.size(); at += weights)
      losses.push_back(gradient_of(w_.data() + at, teacher_.data(), x, gradients_.data() + at));
    exchange_.all_reduce_mean(gradients_);
    // The product is exact, so that ranks which fuse it into the difference round as the others do.
    for (std::size_t i = 0; i < w_.size(); ++i) w_[i] -= 0x1p-5f * gradients_[i];
    return losses;
  }

  /// One for each map.
  std::vector<std::uint64_t> digests() const {
    auto all = std::vector<std::uint64_t>();
    for (std::size_t at = 0; at < w_.size(); at += weights) {
      auto of = pith::digest();
      for (std::size_t i = at; i < at + weights; ++i) of << pith::detail::bits_as<std::uint32_t>(w_[i]);
      all.push_back(of.value());
    }
    return all;
  }
  std::vector<pith::tensor_spec> const& maps() const { return exchange_.tensors(); }

 private:
  static std::vector<pith::tensor_spec> tensors() {
    auto all = std::vector<pith::tensor_spec>();
    for (auto const& codec : codecs()) all.push_back({codec.name(), {weights, outputs}});
    return all;
  }
  static any_codec codec_of(pith::tensor_spec const& tensor) {
    auto const all = codecs();
    return *std::ranges::find(all, tensor.name, &any_codec::name);
  }

  pith::gradient_exchange<float, pith::seq_executor, pith::mpi_communicator> exchange_;
  std::mt19937_64 random_;
  std::vector<float> w_, gradients_, teacher_;
};

/// Whether all ranks have the same weights; prints the digests of maps that differ.
bool is_equal(model const& trained, unsigned rank, int steps) {
  auto const mine = trained.digests();
  auto least = mine, most = mine;
  auto const n = static_cast<int>(mine.size());
  MPI_Allreduce(mine.data(), least.data(), n, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(mine.data(), most.data(), n, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    auto const* const name = trained.maps()[i].name.c_str();
    if (least[i] != most[i]) std::printf("rank %u after %d steps: %016" PRIx64 " %s\n", rank, steps, mine[i], name);
  }
  return least == most;
}

bool has_fallen(pith::tensor_spec const& map, float first, float last) {
  std::printf("%-50s loss %.2f to %.2e\n", map.name.c_str(), first, last);
  return last < first / 2;
}

pith::isa level_of(std::string_view name) {
  return name == "baseline" ? pith::isa::baseline : name == "avx2" ? pith::isa::avx2 : pith::isa::avx512;
}

/// A thousand steps; whether weights stayed equal, and all losses fell.
bool passes(model& trained, unsigned rank) {
  auto const first = trained.step();
  auto last = first;
  for (int steps = 2; steps <= 1000; ++steps) {
    last = trained.step();
    if (steps % 50 == 0 && !is_equal(trained, rank, steps)) return false;
  }
  auto have_fallen = true;
  for (std::size_t i = 0; i < first.size() && rank == 0; ++i)
    have_fallen = has_fallen(trained.maps()[i], first[i], last[i]) && have_fallen;
  return have_fallen;
}

bool trains(pith::isa most) {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  auto trained = model(pith::seq_executor(std::min(most, pith::best_isa())), comm);
  return passes(trained, comm.rank());
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  auto const has_passed = trains(level_of(argc > 1 ? argv[1] : ""));
  MPI_Finalize();
  return has_passed ? 0 : 1;
}
