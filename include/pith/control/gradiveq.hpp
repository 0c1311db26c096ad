// pith/control/gradiveq.hpp — GradiVeQ's schedule, which samples and compresses convolution gradients in turn.
#pragma once

#include <pith/adaptor/identity.hpp>
#include <pith/codec/detail/saved_state.hpp>
#include <pith/comm/detail/lent.hpp>
#include <pith/control/detail/local_loss.hpp>
#include <pith/core/detail/host_bytes.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/vector_quantize/pca.hpp>
#include <pith/vector_quantize/slice_order.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

enum class gradiveq_phase : std::uint8_t {
  warm_up,     ///< the gradients of convolutions are exchanged uncompressed
  sampling,    ///< the gradients of convolutions are encoded by qsgd<4>, and rank 0 collects their means
  compressed,  ///< the gradients of convolutions are encoded by pca, with the learned bases
};

/// A convolution whose gradient the exchange encodes by pca: the gradient's index among the exchange's tensors, the
/// shape of the convolution, and the number of elements per slice (vector_quantize/pca.hpp). A `slice` of 0 stands for
/// conv.usual_slice().
struct gradiveq_tensor {
  std::size_t tensor = 0;
  conv_shape conv = {};
  std::uint64_t slice = 0;
};

/// The lengths of the phases in steps, and further settings. All ranks must have equal options.
struct gradiveq_options {
  std::uint64_t warm_up = 2500, samples = 100, compressed = 400;
  pca_options basis = {};               ///< by default, lambda = 0.01, with one mean per slice
  sampled which = sampled::all_slices;  ///< the slices of a tensor that are sampled
  bool feedback = false;                ///< true: error feedback, whose residual is kept across phases
  double worse = 2;                     ///< a rank votes for new samples if its loss > worse x (mean of first losses)
  std::uint64_t first_losses = 20;      ///< number of losses in the mean of first losses of a compressed phase
  std::uint64_t loss_every = 1;         ///< steps between two measurements of the loss
};

namespace detail {

struct plain_pca {
  auto operator()(std::shared_ptr<pca_basis const> basis) const { return pca(std::move(basis)); }
};

/// Replaces `values` in host memory with rank 0's values. All ranks must make this call between steps.
template <class T, class Comm, executor E>
void broadcast_on_host(E const& exec, Comm& comm, std::vector<T>& values) {
  static_assert(calls_of<Comm, E>.broadcast,
                "pith: this communicator lacks broadcast(exec, span<std::byte>, unsigned), which gradiveq needs");
  auto sent = lent(buffer<T, E>(exec, values.size()));
  auto* const data = (*sent).data();
  auto const bytes = values.size() * sizeof(T);
  exec.upload(data, values.data(), bytes);
  sent.wait(exec,
            [&] { return comm.broadcast(exec, span_on<E, std::byte>(reinterpret_cast<std::byte*>(data), bytes), 0); });
  exec.download(values.data(), data, bytes);
}

}  // namespace detail

/// Sets the codecs of an exchange's convolution gradients, phase by phase. In the warm-up phase, these gradients are
/// sent uncompressed. In a sampling phase, `qsgd<4>` encodes them, and rank 0 collects their means. At the end of a
/// sampling phase, rank 0 fits one basis per convolution to these means, and broadcasts the bases. In a compressed
/// phase, `pca` encodes the gradients with these bases. Sampling and compressed phases alternate.
///
///   auto schedule = pith::gradiveq(pith::seq, comm, exchange, {{0, {64, 64, 3, 3}}, {4, {128, 64, 3, 3}}});
///   schedule.all_reduce_mean(gradients);   // in each step, in place of exchange.all_reduce_mean
///
///   schedule.begin(gradients);             // or with overlap: begins a step, as exchange.begin
///   schedule.ready(i);                     // during the backward pass, as exchange.ready
///   schedule.wait();                       // returns when all gradients are means
///
/// In a compressed phase, every `loss_every`-th step measures the rank's local loss, |g - D(C(g))| / |g| over all
/// convolutions. Such a step exchanges no gradient before wait(). A rank votes for new samples if its local loss exceeds
/// `worse` times the mean of its first losses in this phase. If more than half of the ranks vote for new samples, a
/// sampling phase starts at once.
///
/// `coding(basis)` returns the codec for a compressed phase: pca(basis), or a pipeline that begins with pca(basis). The
/// codec must be equal on all ranks. An example:
///
///   auto const ternary = [](auto basis) { return pith::pca(basis, pith::blas_product()) | pith::summed_terngrad(); };
///   auto schedule = pith::gradiveq(pith::seq, comm, exchange, convolutions, {.feedback = true}, ternary);
///
///   requires    an exchange and a communicator that outlive the schedule. The communicator has broadcast. A
///               convolution has as many elements as its tensor (std::invalid_argument). All ranks make the same calls;
///               one thread at a time
///   state       on rank 0, `samples` copies of the convolutions' gradients, or of their first slices, in accum<In>. On
///               all ranks, three copies of each basis matrix U in double: for the basis, the exchange and the loss
///   complexity  when a sampling phase ends, rank 0 fits each basis (pca_basis), and the other ranks wait. In a
///               compressed phase, every `loss_every`-th step encodes and decodes the convolution gradients once more,
///               and sums one double over the ranks. Sampling and a change of phase allocate memory
///   on NaN      means with NaN or infinity are not sampled. A tensor with fewer than 2 samples keeps the codec qsgd<4>
///   errors      if a fit throws on rank 0, the other ranks throw communication_error. import_state() checks the states
///               of all ranks before it changes anything
///   reference   Yu, Lin, Narra, Li, Li, Kim, Schwing, Annavaram and Avestimehr, GradiVeQ, NeurIPS 2018
template <real In, executor E, class Comm, class Coding = detail::plain_pca>
class gradiveq {
 public:
  using exchange_type = gradient_exchange<In, E, Comm>;
  using codec_type = any_codec<In, E>;
  using shared_basis = std::shared_ptr<pca_basis const>;

  gradiveq(E const& exec, Comm& comm, exchange_type& exchange, std::vector<gradiveq_tensor> const& convolutions,
           gradiveq_options const& options = {}, Coding coding = Coding())
      : exec_(exec),
        comm_(&comm),
        exchange_(&exchange),
        options_(options),
        coding_(std::move(coding)),
        votes_(buffer<double, E>(exec, 1)) {
    check(options);
    add(convolutions);
    enter(options.warm_up > 0 ? gradiveq_phase::warm_up : gradiveq_phase::sampling);
  }

  gradiveq_phase phase() const { return phase_; }
  /// The number of steps since the current phase began.
  std::uint64_t steps() const { return steps_; }
  /// The basis of the i-th convolution; null before the first fit.
  shared_basis const& basis(std::size_t i) const { return kernels_[i].basis; }
  /// The local loss that was measured last on this rank.
  double loss() const { return loss_; }

  /// Runs one step, as gradient_exchange::all_reduce_mean does.
  void all_reduce_mean(span_on<E, In> gradients, double weight = 1) {
    begin(gradients, weight);
    wait();
  }
  /// Begins a step. `gradients` contains all tensors, one after another.
  void begin(span_on<E, In> gradients, double weight = 1) {
    detail::require_size("gradiveq", "gradients", exchange_->size(), gradients.size());
    exchange_->begin(gradients, weight);
    gradients_ = gradients;
  }
  /// Marks the gradient of a tensor as written. In a step that measures the loss, has no effect.
  void ready(std::size_t tensor) {
    if (!measures()) exchange_->ready(tensor);
  }
  /// Ends the step of the exchange and of the schedule. Throws as gradient_exchange::wait does.
  void wait() {
    exchange_->require_step("gradiveq::wait");
    detail::require_size("gradiveq", "gradients", exchange_->size(), gradients_.size());
    auto const gradients = std::exchange(gradients_, {});
    if (measures()) measure(gradients);
    exchange_->wait();
    if (phase_ == gradiveq_phase::sampling) collect(gradients);
    auto const is_worse = measures() && is_voting() && is_voted_worse();
    if (++steps_ < length() && !is_worse) return;
    if (phase_ == gradiveq_phase::sampling) share_bases();
    enter(phase_ == gradiveq_phase::sampling ? gradiveq_phase::compressed : gradiveq_phase::sampling);
  }

  /// Serialises the state of this rank's schedule, without the state of the exchange.
  std::vector<std::byte> export_state() const {
    auto to = detail::byte_writer();
    to.put(phase_);
    to.put(steps_);
    to.put(first_);
    for (auto const& k : kernels_) {
      to.put_all(k.basis ? k.basis->save() : std::vector<std::byte>());
      k.samples.save(to);
    }
    return detail::save_states(words(), to.bytes);
  }
  /// Restores a state that `export_state` of an equal schedule returned. All ranks call this function before
  /// `import_state` of the exchange, since this function sets the exchange's codecs. If the state of one rank is wrong,
  /// this rank throws std::invalid_argument, and the other ranks throw agreement_error. If the ranks' states were
  /// saved after different steps, all ranks throw agreement_error. After these errors, all ranks are unchanged.
  void import_state(span<std::byte const> bytes) {
    auto const* const call = "gradiveq::import_state";
    exchange_->require_idle(call);
    auto next = std::optional<progress>();
    auto codings = std::optional<phase_codecs>();
    detail::require_success(exec_, *comm_, call, detail::could_not_load, [&] {
      next.emplace(restore(call, bytes));
      codings.emplace(codecs_for(next->phase, next->kernels));
    });
    detail::require_one_moment(exec_, *comm_, call, {static_cast<std::uint64_t>(next->phase), next->steps});
    apply(*std::move(codings));
    kernels_ = std::move(next->kernels);
    resume(next->phase, next->steps, next->first);
  }

 private:
  struct kernel {
    std::size_t tensor;
    std::uint64_t first;  ///< offset of the tensor among all gradients
    slice_samples<accum<In>> samples;
    shared_basis basis;
  };
  /// The sum of the first losses in a compressed phase, and the number of these losses.
  struct first_losses {
    double sum = 0;
    std::uint64_t count = 0;
  };

  using local_losses = std::optional<detail::local_loss<In, E, std::invoke_result_t<Coding const&, shared_basis>>>;
  struct phase_codecs {
    std::vector<codec_type> codecs;
    local_losses losses;
  };

  /// The contents of a saved state.
  struct progress {
    gradiveq_phase phase;
    std::uint64_t steps;
    first_losses first;
    std::vector<kernel> kernels;
  };
  progress restore(char const* call, span<std::byte const> bytes) const {
    auto from = detail::byte_reader(call, detail::matching_states(call, bytes, words()));
    auto const phase = from.take<gradiveq_phase>();
    auto const steps = from.take<std::uint64_t>();
    auto const first = from.take<first_losses>();
    detail::require(phase <= gradiveq_phase::compressed, call, ": phase must be at most 2, got ", unsigned(phase));
    char const* const names[] = {"warm_up", "sampling", "compressed"};
    detail::require(steps < length(phase), call, ": steps must be below ", length(phase), " in phase ",
                    names[unsigned(phase)], ", got ", steps);
    auto kernels = kernels_;
    for (auto& k : kernels) {
      auto const basis = from.take_all<std::byte>();
      k.basis = basis.empty() ? nullptr : loaded(k, basis);
      k.samples.load(from);
    }
    from.expect_end();
    return {phase, steps, first, std::move(kernels)};
  }

  static void check(gradiveq_options const& o) {
    detail::require(o.samples >= 2, "gradiveq: samples must be at least 2, got ", o.samples);
    detail::require(o.compressed >= 1 && o.first_losses >= 1 && o.loss_every >= 1,
                    "gradiveq: compressed, first_losses and loss_every must be at least 1, got ", o.compressed, ", ",
                    o.first_losses, " and ", o.loss_every);
    detail::require(0 < o.worse && o.worse < HUGE_VAL, "gradiveq: worse must be finite and above 0, got ", o.worse);
    detail::require(0 <= o.basis.lambda && o.basis.lambda < 1, "gradiveq: basis.lambda must be in [0, 1), got ",
                    o.basis.lambda);
  }

  /// Adds all convolutions. `firsts[i]` is the offset of tensor i among all gradients.
  void add(std::vector<gradiveq_tensor> const& convolutions) {
    auto firsts = std::vector<std::uint64_t>();
    std::uint64_t first = 0;
    for (auto const& t : exchange_->tensors()) firsts.push_back(std::exchange(first, first + t.dims.n));
    auto is_listed = std::vector<bool>(firsts.size());
    for (auto const& c : convolutions) {
      require_convolution(c);
      detail::require(!is_listed[c.tensor], "gradiveq: each tensor must be listed once, got tensor ", c.tensor,
                      " twice");
      is_listed[c.tensor] = true;
      auto const slice = c.slice > 0 ? c.slice : c.conv.usual_slice();
      kernels_.push_back({c.tensor, firsts[c.tensor], {c.conv.n(), slice, c.conv.order(), options_.which}, nullptr});
    }
  }
  void require_convolution(gradiveq_tensor const& c) const {
    auto const& tensors = exchange_->tensors();
    detail::require(c.tensor < tensors.size(), "gradiveq: tensor must be below ", tensors.size(), ", got ", c.tensor);
    detail::require(c.conv.n() == tensors[c.tensor].dims.n, "gradiveq: conv of tensor \"", tensors[c.tensor].name,
                    "\" must have ", tensors[c.tensor].dims.n, " elements, got ", c.conv.n());
  }

  shape const& dims(kernel const& k) const { return exchange_->tensors()[k.tensor].dims; }

  /// Whether the current step measures the loss.
  bool measures() const { return phase_ == gradiveq_phase::compressed && steps_ % options_.loss_every == 0; }
  void measure(span_on<E, In const> gradients) {
    loss_ = (*losses_)(gradients);
    if (std::isfinite(loss_) && !is_voting()) first_.sum += loss_, ++first_.count;
  }

  std::uint64_t length() const { return length(phase_); }
  std::uint64_t length(gradiveq_phase phase) const {
    if (phase == gradiveq_phase::warm_up) return options_.warm_up;
    return phase == gradiveq_phase::sampling ? options_.samples : options_.compressed;
  }

  void enter(gradiveq_phase phase) {
    apply(codecs_for(phase, kernels_));
    resume(phase, 0, {});
  }
  void resume(gradiveq_phase phase, std::uint64_t steps, first_losses const& first) {
    phase_ = phase;
    steps_ = steps;
    first_ = first;
  }

  /// The codecs of a phase, and in a compressed phase the function that measures the loss.
  phase_codecs codecs_for(gradiveq_phase phase, std::vector<kernel> const& kernels) const {
    auto made = phase_codecs{exchange_->codecs(), {}};
    if (phase == gradiveq_phase::compressed) made.losses.emplace(exec_);
    for (auto const& k : kernels) {
      made.codecs[k.tensor] = codec_of(phase, k);
      if (made.losses && k.basis) made.losses->add(coding_(k.basis), dims(k), k.first);
    }
    return made;
  }
  /// Sets the codecs. If the exchange refuses the codecs, nothing changes.
  void apply(phase_codecs made) {
    exchange_->change(std::move(made.codecs));
    losses_ = std::move(made.losses);
  }

  codec_type codec_of(gradiveq_phase phase, kernel const& k) const {
    if (phase == gradiveq_phase::warm_up) return fed_back(identity());
    if (phase == gradiveq_phase::sampling || !k.basis) return fed_back(qsgd<4>());
    return fed_back(coding_(k.basis));
  }
  template <class S>
  codec_type fed_back(S stage) const {
    if (options_.feedback) return error_feedback(std::move(stage), unverified);
    return stage;
  }

  /// Adds the mean gradients to rank 0's samples. Skips tensors with NaN or infinity.
  void collect(span_on<E, In const> means) {
    if (comm_->rank() != 0) return;
    for (auto& k : kernels_) {
      auto mean = std::vector<In>(dims(k).n);
      exec_.download(mean.data(), means.data() + k.first, mean.size() * sizeof(In));
      if (std::ranges::all_of(mean, [](In v) { return is_finite(v); })) k.samples.add(span<In const>(mean));
    }
  }

  /// Fits new bases on rank 0 and returns them in serialised form. The serialised basis is empty for a tensor with
  /// fewer than 2 samples.
  std::vector<std::vector<std::byte>> fitted() {
    auto saved = std::vector<std::vector<std::byte>>(kernels_.size());
    for (std::size_t i = 0; i < saved.size(); ++i) {
      auto& samples = kernels_[i].samples;
      if (samples.n() > 0 && samples.count() >= 2) saved[i] = pca_basis::fit(samples, options_.basis).save();
      samples.clear();
    }
    return saved;
  }

  /// Fits the bases on rank 0, and broadcasts the bases. If a fit throws, rank 0 broadcasts this failure instead.
  void share_bases() {
    auto failure = std::exception_ptr();
    auto saved = std::vector<std::vector<std::byte>>(kernels_.size());
    try {
      if (comm_->rank() == 0) saved = fitted();
    } catch (...) {
      failure = std::current_exception();
    }
    auto sizes = std::vector<std::uint64_t>(1, failure ? 1 : 0);
    for (auto const& bytes : saved) sizes.push_back(bytes.size());
    detail::broadcast_on_host(exec_, *comm_, sizes);
    if (failure) std::rethrow_exception(failure);
    if (sizes[0] != 0)
      throw communication_error("pith::gradiveq: rank 0 could not fit its bases: see the error on rank 0");
    for (std::size_t i = 0; i < kernels_.size(); ++i) take_basis(kernels_[i], std::move(saved[i]), sizes[i + 1]);
  }
  void take_basis(kernel& k, std::vector<std::byte> saved, std::uint64_t size) {
    auto const slice = k.samples.slice(), most = slice * slice + k.samples.slices() * slice + slice + 16;
    if (size / sizeof(double) > most)
      throw communication_error(detail::sentence("gradiveq: a basis must have at most ", most, " numbers, got ",
                                                 size / sizeof(double),
                                                 " from rank 0: pass equal convolutions on all ranks"));
    saved.resize(size);
    detail::broadcast_on_host(exec_, *comm_, saved);
    k.basis = size == 0 ? nullptr : loaded(k, saved);
  }
  static shared_basis loaded(kernel const& k, std::vector<std::byte> const& saved) {
    auto basis = std::make_shared<pca_basis const>(pca_basis::load(saved));
    detail::require(basis->slice() == k.samples.slice(), "gradiveq: the basis of tensor ", k.tensor,
                    " must have slices of ", k.samples.slice(), " elements, got ", basis->slice());
    detail::require(basis->order() == k.samples.order() && basis->fits(k.samples.n()), "gradiveq: the basis of tensor ",
                    k.tensor, " must fit its order and its ", k.samples.n(), " elements");
    return basis;
  }

  /// Whether the mean of first losses is complete. The result is equal on all ranks.
  bool is_voting() const { return steps_ / options_.loss_every >= options_.first_losses; }

  /// Whether more than half of the ranks vote for new samples. A rank votes if its loss in this step is above
  /// options_.worse x (mean of first losses). An all-reduce of one double counts the votes.
  bool is_voted_worse() {
    auto const is_worse = loss_ * static_cast<double>(first_.count) > options_.worse * first_.sum;
    auto votes = is_worse ? 1.0 : 0.0;
    auto const sum = (*votes_).view();
    exec_.upload(sum.data(), &votes, sizeof votes);
    votes_.wait(exec_, [&] { return comm_->all_reduce(exec_, sum, reduction::sum); });
    exec_.download(&votes, sum.data(), sizeof votes);
    return 2 * votes > comm_->size();
  }

  /// A description of the schedule. `import_state` requires the same description in the imported state.
  std::string words() const {
    using detail::text;
    auto words = text("gradiveq\nrank ", comm_->rank(), " of ", comm_->size(), "\nelements of ", element_name<In>(),
                      "\nwarm_up ", options_.warm_up, ", samples ", options_.samples, ", compressed ",
                      options_.compressed, ", feedback ", options_.feedback ? 1 : 0, ", first_losses ",
                      options_.first_losses, ", loss_every ", options_.loss_every, '\n');
    for (auto const& k : kernels_) {
      auto const& order = k.samples.order();
      words += text("convolution of tensor ", k.tensor, " of ", k.samples.n(), " in ", order.filters(), " filters of ",
                    order.depth(), " x ", order.window(), " by ", k.samples.kept_slices(), " slices of ",
                    k.samples.slice(), '\n');
    }
    return words;
  }

  E exec_;
  Comm* comm_;
  exchange_type* exchange_;
  gradiveq_options options_;
  [[no_unique_address]] Coding coding_;
  std::vector<kernel> kernels_;
  gradiveq_phase phase_ = gradiveq_phase::warm_up;
  std::uint64_t steps_ = 0;
  first_losses first_;
  double loss_ = 0;
  span_on<E, In> gradients_;  ///< those of the step that has begun
  local_losses losses_;
  detail::lent<buffer<double, E>> votes_;
};

}}  // namespace pith::PITH_ABI
