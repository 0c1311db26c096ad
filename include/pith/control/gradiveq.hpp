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
  std::uint64_t first_losses = 20;      ///< number of losses before the votes of a compressed phase, and in their mean
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
/// The members for steps are those of gradient_exchange. Do not call these members of the exchange itself.
///
/// In a compressed phase, every `loss_every`-th step measures the rank's local loss, |g - D(C(g))| / |g| over all
/// convolutions. Such a step exchanges no gradient before wait(). A rank votes for new samples if its local loss exceeds
/// `worse` times the mean of its first losses in this phase. If more than half of the ranks vote for new samples, a
/// sampling phase starts at once. A loss that is NaN or infinite, as that of a zero gradient, is no vote and not in the
/// mean.
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
///   state       on rank 0, in a sampling phase, `samples` copies of the convolutions' gradients, or of their first
///               slices, in accum<In>, and their sum in double. On all ranks, three copies of each basis matrix U in
///               double: for the basis, the exchange and the loss
///   complexity  when a sampling phase ends, rank 0 fits each basis (pca_basis), and the other ranks wait, so the
///               communicator's timeout must be longer than the fits. In a compressed phase, every `loss_every`-th step
///               encodes and decodes the convolution gradients once more, and sums one double over the ranks. Sampling
///               and a change of phase allocate memory
///   on NaN      means with NaN or infinity are not sampled. A tensor with fewer than 2 samples keeps the codec qsgd<4>
///   errors      the constructor and a change of phase throw on all ranks if one rank fails or differs: agreement_error
///               on the other ranks, but communication_error if rank 0 could not sample or fit. After a failed fit or
///               coding, a new sampling phase begins. After a step that threw, restore both states with
///               import_state(bytes, exchange_bytes)
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
        gradients_(exchange.tensors().size()),
        is_held_(exchange.tensors().size()),
        votes_(buffer<double, E>(exec, 1)) {
    auto const first = options.warm_up > 0 ? gradiveq_phase::warm_up : gradiveq_phase::sampling;
    auto codecs = agreed("gradiveq", [&] {
      check(options);
      add(convolutions);
      return codecs_for(first, bases());
    });
    require_equal_settings();
    apply(std::move(codecs));
    resume(first, 0, {});
  }

  gradiveq_phase phase() const { return phase_; }
  /// The number of steps since the current phase began.
  std::uint64_t steps() const { return steps_; }
  /// The basis of the i-th convolution; null before the first fit.
  shared_basis const& basis(std::size_t i) const { return kernels_[i].basis; }
  /// The local loss that was measured last on this rank; 0 before the first measurement and after import_state().
  double loss() const { return loss_; }

  /// Runs one step, as gradient_exchange::all_reduce_mean does.
  void all_reduce_mean(span_on<E, In> gradients, double weight = 1) {
    begin(gradients, weight);
    wait();
  }
  /// Begins a step. `gradients` contains all tensors, one after another.
  void begin(span_on<E, In> gradients, double weight = 1) {
    require_intact("begin");
    exchange_->begin(gradients, weight);
    note_begun(false);
    auto* at = gradients.data();
    for (std::size_t i = 0; i < gradients_.size(); at += exchange_->tensors()[i++].dims.n) gradients_[i] = at;
  }
  /// Begins a step. The caller then passes each gradient to ready(tensor, gradient).
  void begin(double weight = 1) {
    require_intact("begin");
    exchange_->begin(weight);
    note_begun(true);
  }
  /// Marks the gradient of a tensor as written. In a step that measures the loss, the exchange waits for wait().
  void ready(std::size_t tensor) {
    require_own_step("ready");
    if (!measures()) return exchange_->ready(tensor);
    exchange_->require_ready(tensor);
    hold(tensor);
  }
  /// Sets the address of a tensor's gradient, and marks this gradient as written.
  void ready(std::size_t tensor, span_on<E, In> gradient) {
    require_own_step("ready");
    if (measures()) {
      exchange_->require_ready(tensor, gradient);
      hold(tensor);
      is_separate_ = true;
    } else {
      exchange_->ready(tensor, gradient);
    }
    gradients_[tensor] = gradient.data();
  }
  /// Ends the step of the exchange and of the schedule. Throws as gradient_exchange::wait does.
  void wait() {
    require_own_step("wait");
    auto const lost = measures() ? std::optional(measure()) : std::nullopt;
    exchange_->wait();
    if (ends_phase(lost))
      begin_phase(phase_ == gradiveq_phase::sampling ? gradiveq_phase::compressed : gradiveq_phase::sampling);
  }
  /// End or give up a step, as the members of gradient_exchange do. The step is no step of the schedule.
  void skip() { exchange_->skip(); }
  void abandon() { exchange_->abandon(); }

  /// Serialises the state of this rank's schedule, without the state of the exchange.
  std::vector<std::byte> export_state() const {
    exchange_->require_between_steps("gradiveq::export_state");
    require_intact("export_state");
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
  /// Restores a state that `export_state` of an equal schedule returned, and the state of the exchange that was saved after
  /// the same step. All ranks call this function between steps, or after a step that threw. If a state of one rank is
  /// wrong, this rank throws std::invalid_argument, and the other ranks throw agreement_error. If the ranks' states were
  /// saved after different steps, all ranks throw agreement_error. After these errors, all ranks are unchanged.
  void import_state(span<std::byte const> bytes, span<std::byte const> exchange_bytes) {
    import_with(
        bytes,
        [&](std::vector<codec_type> const& codecs) {
          detail::require_order("gradiveq::import_state", exchange_->tensors(), exchange_bytes);
          exchange_->require_state(exchange_bytes, codecs);
        },
        [&](std::vector<codec_type> codecs) { exchange_->import_state(exchange_bytes, std::move(codecs)); });
  }
  /// Restores the schedule's state alone, between steps. Call import_state() of the exchange next, since this function sets
  /// the exchange's codecs.
  void import_state(span<std::byte const> bytes) {
    import_with(
        bytes, [&](std::vector<codec_type> const&) { exchange_->require_idle("gradiveq::import_state"); },
        [&](std::vector<codec_type> codecs) { exchange_->change(std::move(codecs)); });
  }

 private:
  struct kernel {
    std::size_t tensor;
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
    auto const most = phase == gradiveq_phase::compressed ? std::min(measured(steps), options_.first_losses) : 0;
    detail::require(
        first.count <= most && 0 <= first.sum && first.sum < HUGE_VAL && (first.count > 0 || first.sum == 0), call,
        ": there must be at most ", most, " first losses with a finite sum, got ", first.count, " with the sum ",
        first.sum);
    auto const sampled = phase == gradiveq_phase::sampling && comm_->rank() == 0 ? steps : 0;
    auto kernels = std::vector<kernel>();
    for (auto const& k : kernels_) {
      auto const basis = from.take_all<std::byte>();
      auto samples = slice_samples<accum<In>>(k.samples.n(), k.samples.slice(), k.samples.order(), options_.which);
      samples.load(from);
      detail::require(samples.count() <= sampled, call, ": tensor ", k.tensor, " must have at most ", sampled,
                      " samples, got ", samples.count());
      kernels.push_back({k.tensor, std::move(samples), basis.empty() ? nullptr : loaded(k, basis)});
    }
    from.expect_end();
    return {phase, steps, first, std::move(kernels)};
  }
  template <class Check, class Load>
  void import_with(span<std::byte const> bytes, Check const& check, Load const& load) {
    constexpr auto* call = "gradiveq::import_state";
    exchange_->require_between_steps(call);
    auto next = std::optional<progress>();
    auto codings = std::optional<phase_codecs>();
    detail::require_success(exec_, *comm_, call, detail::could_not_load, [&] {
      next.emplace(restore(call, bytes));
      codings.emplace(codecs_for(next->phase, bases_of(next->kernels)));
      check(codings->codecs);
    });
    detail::require_one_moment(exec_, *comm_, call, {static_cast<std::uint64_t>(next->phase), next->steps});
    load(std::move(codings->codecs));
    losses_ = std::move(codings->losses);
    kernels_ = std::move(next->kernels);
    resume(next->phase, next->steps, next->first);
    loss_ = 0;
    is_lost_ = false;
    unsampled_ = nullptr;
  }

  static void check(gradiveq_options const& o) {
    detail::require(o.samples >= 2, "gradiveq: samples must be at least 2, got ", o.samples);
    detail::require(o.compressed >= 1 && o.first_losses >= 1 && o.loss_every >= 1,
                    "gradiveq: compressed, first_losses and loss_every must be at least 1, got ", o.compressed, ", ",
                    o.first_losses, " and ", o.loss_every);
    detail::require(o.first_losses <= (o.compressed - 1) / o.loss_every, "gradiveq: first_losses must be at most ",
                    (o.compressed - 1) / o.loss_every, ", the losses before the last step of a compressed phase, got ",
                    o.first_losses);
    detail::require(0 < o.worse && o.worse < HUGE_VAL, "gradiveq: worse must be finite and above 0, got ", o.worse);
    detail::require(0 <= o.basis.lambda && o.basis.lambda < 1, "gradiveq: basis.lambda must be in [0, 1), got ",
                    o.basis.lambda);
  }

  void add(std::vector<gradiveq_tensor> const& convolutions) {
    auto is_listed = std::vector<bool>(exchange_->tensors().size());
    for (auto const& c : convolutions) {
      require_convolution(c);
      detail::require(!is_listed[c.tensor], "gradiveq: each tensor must be listed once, got tensor ", c.tensor,
                      " twice");
      is_listed[c.tensor] = true;
      auto const slice = c.slice > 0 ? c.slice : c.conv.usual_slice();
      kernels_.push_back({c.tensor, {c.conv.n(), slice, c.conv.order(), options_.which}, nullptr});
    }
  }
  void require_convolution(gradiveq_tensor const& c) const {
    auto const& tensors = exchange_->tensors();
    detail::require(c.tensor < tensors.size(), "gradiveq: tensor must be below ", tensors.size(), ", got ", c.tensor);
    auto const& [name, dims, kind] = tensors[c.tensor];
    detail::require(c.conv.n() == dims.n, "gradiveq: conv of tensor \"", name, "\" must have ", dims.n,
                    " elements, got ", c.conv.n());
    detail::require(c.slice <= dims.n, "gradiveq: slice of tensor \"", name, "\" must be at most ", dims.n, ", got ",
                    c.slice);
  }
  /// Compares the settings of the ranks.
  void require_equal_settings() const {
    auto const mine =
        detail::text("worse ", options_.worse, ", lambda ", options_.basis.lambda, ", components ",
                     options_.basis.components, ", about ", unsigned(options_.basis.about), ", ", settings());
    auto const all = detail::gather_on_host(exec_, *comm_, std::vector(1, (digest() << mine).value()));
    auto const rank = detail::first_difference(all, 1).first;
    if (rank != 0)
      throw agreement_error(detail::sentence("gradiveq: rank ", rank, " differs from rank 0: this rank has ", mine));
  }

  shape const& dims(kernel const& k) const { return exchange_->tensors()[k.tensor].dims; }

  void require_intact(char const* name) const {
    detail::require(!is_lost_, "gradiveq: ", name, "() is refused after a step that threw: call import_state() first");
  }
  /// Throws unless the schedule has begun the current step of the exchange.
  void require_own_step(char const* name) const {
    require_intact(name);
    exchange_->require_step(name);
    detail::require(begun_ == exchange_->begun(), "gradiveq: ", name,
                    "() must follow begin() of the schedule: this step was begun by gradient_exchange::begin()");
  }
  void note_begun(bool is_separate) {
    begun_ = exchange_->begun();
    is_separate_ = is_separate;
    gradients_.assign(gradients_.size(), nullptr);
    is_held_.assign(is_held_.size(), false);
  }
  /// Notes that wait() marks a tensor as ready.
  void hold(std::size_t tensor) {
    detail::require(!is_held_[tensor], "gradiveq::ready: tensor ", tensor, " must be marked once per step, got twice");
    is_held_[tensor] = true;
  }

  /// The number of measurements in the first `steps` steps of a compressed phase.
  std::uint64_t measured(std::uint64_t steps) const { return detail::blocks_for(steps, options_.loss_every); }
  /// Whether the current step measures the loss.
  bool measures() const { return phase_ == gradiveq_phase::compressed && steps_ % options_.loss_every == 0; }
  /// Measures the loss, and passes the gradients that the exchange lacks.
  double measure() {
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      auto const& [name, dims, kind] = exchange_->tensors()[i];
      detail::require(gradients_[i] != nullptr || dims.n == 0, "gradiveq: wait() needs the gradient of tensor ", i,
                      ", \"", name, "\": call ready(", i, ", gradient) first");
    }
    auto const lost = (*losses_)(gradients_.data(), measured(steps_));
    for (std::size_t i = 0; is_separate_ && i < gradients_.size(); ++i)
      exchange_->ready(i, {gradients_[i], exchange_->tensors()[i].dims.n});
    return lost;
  }

  std::uint64_t length() const { return length(phase_); }
  std::uint64_t length(gradiveq_phase phase) const {
    if (phase == gradiveq_phase::warm_up) return options_.warm_up;
    return phase == gradiveq_phase::sampling ? options_.samples : options_.compressed;
  }

  /// Notes that the exchange has ended a step. Returns whether the phase ends. If the votes cannot be counted, the schedule
  /// has lost this step.
  bool ends_phase(std::optional<double> lost) try {
    if (lost) note_loss(*lost);
    if (phase_ == gradiveq_phase::sampling) collect();
    auto const is_worse = lost && is_voting() && is_voted_worse();
    return ++steps_ >= length() || is_worse;
  } catch (...) {
    is_lost_ = true;
    throw;
  }
  void note_loss(double lost) {
    loss_ = lost;
    if (std::isfinite(loss_) && !is_voting()) first_.sum += loss_, ++first_.count;
  }

  /// Begins a phase. If that fails at the end of a sampling phase, all ranks begin a new sampling phase.
  void begin_phase(gradiveq_phase next) try {
    auto const of = next == gradiveq_phase::compressed ? shared_bases() : bases();
    apply(agreed("gradiveq", [&] { return codecs_for(next, of); }));
    for (std::size_t i = 0; i < kernels_.size(); ++i) kernels_[i].basis = of[i];
    forget_samples();
    resume(next, 0, {});
  } catch (...) {
    forget_samples();
    is_lost_ = phase_ != gradiveq_phase::sampling;
    resume(phase_, 0, {});
    throw;
  }
  void forget_samples() {
    for (auto& k : kernels_) k.samples.clear();
    unsampled_ = nullptr;
  }
  void resume(gradiveq_phase phase, std::uint64_t steps, first_losses const& first) {
    phase_ = phase;
    steps_ = steps;
    first_ = first;
  }

  using basis_list = std::vector<shared_basis>;
  static basis_list bases_of(std::vector<kernel> const& kernels) {
    auto all = basis_list();
    for (auto const& k : kernels) all.push_back(k.basis);
    return all;
  }
  basis_list bases() const { return bases_of(kernels_); }

  /// Returns f(), or throws on all ranks if f() throws on one.
  template <class F>
  auto agreed(char const* call, F const& f) const {
    auto result = std::optional<std::invoke_result_t<F const&>>();
    detail::require_success(exec_, *comm_, call, "could not set its codecs", [&] { result.emplace(f()); });
    return *std::move(result);
  }

  /// The codecs of a phase, and in a compressed phase the function that measures the loss.
  phase_codecs codecs_for(gradiveq_phase phase, basis_list const& bases) const {
    auto made = phase_codecs{exchange_->codecs(), {}};
    if (phase == gradiveq_phase::compressed) made.losses.emplace(exec_);
    for (std::size_t i = 0; i < kernels_.size(); ++i) {
      auto const& k = kernels_[i];
      made.codecs[k.tensor] = codec_of(phase, bases[i]);
      if (made.losses && bases[i]) made.losses->add(coding_(bases[i]), dims(k), k.tensor);
    }
    return made;
  }
  /// Sets the codecs. If the exchange refuses the codecs, nothing changes.
  void apply(phase_codecs made) {
    exchange_->change(std::move(made.codecs));
    losses_ = std::move(made.losses);
  }

  codec_type codec_of(gradiveq_phase phase, shared_basis const& basis) const {
    if (phase == gradiveq_phase::warm_up) return fed_back(identity());
    if (phase == gradiveq_phase::sampling || !basis) return fed_back(qsgd<4>());
    return fed_back(coding_(basis));
  }
  template <class S>
  codec_type fed_back(S stage) const {
    if (options_.feedback) return error_feedback(std::move(stage), unverified);
    return stage;
  }

  /// Adds the mean gradients to rank 0's samples. Skips tensors with NaN or infinity. An error, such as a lack of memory,
  /// ends the sampling; shared_bases() throws it.
  void collect() try {
    if (comm_->rank() != 0 || unsampled_) return;
    for (auto& k : kernels_) {
      auto mean = std::vector<In>(dims(k).n);
      exec_.download(mean.data(), gradients_[k.tensor], mean.size() * sizeof(In));
      if (std::ranges::all_of(mean, [](In v) { return is_finite(v); })) k.samples.add(span<In const>(mean));
    }
  } catch (...) {
    unsampled_ = std::current_exception();
  }

  /// Fits new bases on rank 0 and returns them in serialised form. The serialised basis is empty for a tensor with
  /// fewer than 2 samples.
  std::vector<std::vector<std::byte>> fitted() const {
    if (unsampled_) std::rethrow_exception(unsampled_);
    auto saved = std::vector<std::vector<std::byte>>(kernels_.size());
    for (std::size_t i = 0; i < saved.size(); ++i) {
      auto const& samples = kernels_[i].samples;
      if (samples.n() > 0 && samples.count() >= 2) saved[i] = pca_basis::fit(samples, options_.basis).save();
    }
    return saved;
  }

  /// Fits the bases on rank 0, broadcasts the bases, and returns them. If a fit throws, rank 0 broadcasts this failure
  /// instead.
  basis_list shared_bases() {
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
    auto bases = basis_list();
    for (std::size_t i = 0; i < kernels_.size(); ++i)
      bases.push_back(shared_basis_of(kernels_[i], std::move(saved[i]), sizes[i + 1]));
    return bases;
  }
  shared_basis shared_basis_of(kernel const& k, std::vector<std::byte> saved, std::uint64_t size) const {
    auto const slice = k.samples.slice(), most = slice * slice + k.samples.slices() * slice + slice + 16;
    if (size / sizeof(double) > most)
      throw communication_error(detail::sentence("gradiveq: a basis must have at most ", most, " numbers, got ",
                                                 size / sizeof(double), " from rank 0"));
    saved.resize(size);
    detail::broadcast_on_host(exec_, *comm_, saved);
    return size == 0 ? nullptr : loaded(k, saved);
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
    auto votes = is_worse && std::isfinite(loss_) ? 1.0 : 0.0;
    auto const sum = (*votes_).view();
    exec_.upload(sum.data(), &votes, sizeof votes);
    votes_.wait(exec_, [&] { return comm_->all_reduce(exec_, sum, reduction::sum); });
    exec_.download(&votes, sum.data(), sizeof votes);
    return 2 * votes > comm_->size();
  }

  /// A description of the schedule. `import_state` requires the same description in the imported state.
  std::string words() const {
    return detail::text("gradiveq\nrank ", comm_->rank(), " of ", comm_->size(), "\nelements of ", element_name<In>(),
                        '\n', settings());
  }
  std::string settings() const {
    using detail::text;
    auto words = text("warm_up ", options_.warm_up, ", samples ", options_.samples, ", compressed ",
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
  bool is_lost_ = false;          ///< a step or a change of phase has failed, so a state must be imported
  std::exception_ptr unsampled_;  ///< rank 0's error while it sampled
  std::uint64_t begun_ = 0;       ///< the number of the step that the schedule has begun
  bool is_separate_ = false;      ///< in this step, each gradient has its own address
  std::vector<In*> gradients_;    ///< those of this step, by tensor
  std::vector<bool> is_held_;     ///< the tensors that wait() marks as ready
  local_losses losses_;
  detail::lent<buffer<double, E>> votes_;
};

}}  // namespace pith::PITH_ABI
