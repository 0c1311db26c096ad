// pith/exchange/gradient_exchange.hpp — the gradients of a model's tensors, exchanged while backward makes them or at once.
#pragma once

#include <pith/codec/any_codec.hpp>
#include <pith/codec/detail/saving.hpp>
#include <pith/codec/inspect.hpp>
#include <pith/exchange/codec_policy.hpp>
#include <pith/exchange/detail/agreement.hpp>
#include <pith/exchange/detail/compression_loss.hpp>
#include <pith/exchange/detail/exchange_engine.hpp>
#include <pith/exchange/detail/exchange_phase.hpp>
#include <pith/exchange/detail/exchange_words.hpp>
#include <pith/exchange/detail/saved_state.hpp>
#include <pith/exchange/exchange_options.hpp>
#include <pith/exchange/exchange_report.hpp>
#include <pith/exchange/messages.hpp>
#include <pith/exchange/traffic.hpp>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pith::inline v0 {

/// Owns everything that exchanging a model's gradients takes: a codec and its state for each tensor, memory, and the
/// plan by which a bucket's payloads travel together, one transfer a round and kind.
///
///   exchange.begin(gradients);   // a step: all tensors one after another
///   exchange.ready(i);           // as backward has written tensor i; a bucket leaves when all of it is ready
///   exchange.wait();             // the means of all; what was not said to be ready is ready now
///   exchange.all_reduce_mean(gradients);   // all of that in one call
///   exchange.change(codecs);     // between steps: other codecs, or the same ones at other rates
///
///   requires    equal tensors, codecs and options on all ranks (agreement_error on all of them when it is built, also
///               where one could not build it); gradients that stay where they are from ready() to the end of wait(),
///               or of the exchange if the step is given up. On a host ready() makes a thread once, which does the
///               exchange: a communicator that may be called from it (MPI_THREAD_MULTIPLE, or MPI_THREAD_SERIALIZED if
///               nobody else calls MPI in a step). On a device ready() and wait() enqueue: gradients are written, and
///               means are read, in the order of the executor's stream
///   state       the codecs' states; export_state saves them, import_state puts them back. A step that threw leaves
///               some ahead of others, and gradients of any values: no further one begins before import_state. What its
///               transport may still use stays in memory as long as the program runs
///   complexity  memory for two payloads of the largest bucket and `size()` gathered ones for each, with gather::exact
///               twice the latter; a step allocates nothing. The transfers of a bucket do not depend on the number of
///               its tensors: with power_sgd one sum of all P, and of what travels as it is, and one of all Q
template <real In, executor E, class Comm>
class gradient_exchange {
 public:
  using codec_type = any_codec<In, E>;

  /// `policy(tensor)` is the codec of a tensor.
  template <codec_policy_for<In, E> Policy>
  gradient_exchange(E const& exec, Comm& comm, std::vector<tensor_spec> tensors, Policy const& policy,
                    exchange_options const& options = {})
      : exec_(exec), how_(options.how), is_weighted_(options.is_weighted), seed_(options.seed) {
    explain_communicator<Comm, E>();
    auto failure = std::exception_ptr();
    try {
      engine_.reset(new engine(exec, comm, std::move(tensors), policy, options));
    } catch (...) {
      failure = std::current_exception();  // of which the others must hear
    }
    auto const words = failure ? std::vector<std::string>() : detail::described(this->tensors(), codecs());
    detail::require_agreement(exec_, comm, detail::agreement_on<In, E>(words, options), words, failure);
    engine_->pipeline.connect();
    lost_.assign(this->tensors().size(), {});
  }

  /// One codec for all tensors.
  gradient_exchange(E const& exec, Comm& comm, std::vector<tensor_spec> tensors, codec_type const& codec,
                    exchange_options const& options = {})
      : gradient_exchange(
            exec, comm, std::move(tensors), [&codec](tensor_spec const&) { return codec; }, options) {}

  /// The usual options.
  template <class What>
  gradient_exchange(E const& exec, Comm& comm, std::vector<tensor_spec> tensors, What const& codec_or_policy,
                    std::uint64_t seed, gather how = gather::padded)
      : gradient_exchange(exec, comm, std::move(tensors), codec_or_policy, exchange_options{.seed = seed, .how = how}) {
  }

  std::vector<tensor_spec> const& tensors() const { return model().specs(); }
  std::vector<codec_type> const& codecs() const { return model().codecs(); }

  /// The elements of all tensors.
  std::uint64_t size() const { return model().size(); }
  std::size_t buckets() const { return engine_->pipeline.buckets(); }
  /// The bucket that a tensor travels in.
  std::size_t bucket_of(std::size_t tensor) const {
    require_tensor("bucket_of", tensor);
    return engine_->ready.bucket_of(tensor);
  }

  /// The bytes that this rank hands to its communicator in a step. Where they vary they are those of the last step, and
  /// before the first one the most.
  pith::traffic traffic() const {
    auto all = engine_->pipeline.traffic();
    all.gathered = engine_->pipeline.gathered_bytes();
    return all;
  }
  /// Those of them that travel among a subgroup of the ranks; gathered ones at the most.
  pith::traffic traffic(subgroup among) const { return engine_->pipeline.traffic(among); }

  /// Replaces gradients, all tensors one after another, by their means over the ranks, as far as the codecs keep them.
  /// With exchange_options::is_weighted the means are those of sum(weight x gradient) / sum(weight).
  void all_reduce_mean(span_on<E, In> gradients, double weight = 1) {
    begin(gradients, weight);
    wait();
  }

  /// A step begins, of gradients that will be ready one by one in this memory, all tensors one after another.
  void begin(span_on<E, In> gradients, double weight = 1) {
    require_begin(gradients.size(), weight);
    begin(weight);
    model().lay(gradients);
  }
  /// A step begins, of gradients that ready(tensor, gradient) shows.
  void begin(double weight = 1) {
    require_begin(size(), weight);
    model().lay_none();
    engine_->ready.begin();
    engine_->pipeline.begin_step(weight);
    phase_ = phase::ready;
  }

  /// Whether a step threw, or was abandoned, and no state was imported since.
  bool has_failed() const { return phase_ == phase::failed; }
  /// Throws, in the name of a call, in a step.
  void require_between_steps(char const* call) const { detail::require_between_steps(phase_, call); }
  /// Throws, in the name of a call, in a step and after one that threw.
  void require_idle(char const* call) const { detail::require_idle(phase_, call); }
  /// Throws where begin() would refuse gradients of so many elements, and changes nothing.
  void require_begin(std::uint64_t elements, double weight) const {
    require_idle("begin");
    detail::require_size("gradient_exchange::begin", "gradients", size(), elements);
    require_weight(weight);
    if (how_ != gather::padded) detail::require_no_capture(exec_, how_);
  }

  /// The gradient of a tensor is written, and is the exchange's until wait() returns.
  void ready(std::size_t tensor) {
    require_missing(tensor);
    detail::require(model().is_laid(tensor),
                    "gradient_exchange::ready: begin() was called without gradients: call ready(", tensor,
                    ", gradient)");
    guarded([&] { engine_->add(tensor); });
  }
  /// The same of one that lies here.
  void ready(std::size_t tensor, span_on<E, In> gradient) {
    require_missing(tensor);
    detail::require_size("gradient_exchange::ready", "gradient", tensors()[tensor].dims.n, gradient.size());
    model().lay(tensor, gradient.data());
    guarded([&] { engine_->add(tensor); });
  }

  /// Ends the step: all gradients are means. What was not said to be ready is ready now.
  void wait() {
    detail::require_step(phase_, "wait");
    auto const begun = clock::now();
    for (std::size_t i = 0; i < tensors().size(); ++i) {
      detail::require(model().is_laid(i), "gradient_exchange: wait() needs the gradient of tensor ", i, ", \"",
                      tensors()[i].name, "\": call ready(", i, ", gradient) first");
    }
    guarded([this] { engine_->finish(); });
    phase_ = phase::idle;
    is_measured_ = true;
    wait_seconds_ = std::chrono::duration<double>(clock::now() - begun).count();
  }

  /// Leaves a step out, on all ranks: nothing is exchanged, gradients and states stay what they are, so what a codec
  /// remembers of gradients before is sent in the next step. Before begin(), or while no bucket is ready in whole.
  void skip() {
    if (phase_ == phase::idle) return;
    detail::require_step(phase_, "skip");
    detail::require(
        buckets() == 0 || !engine_->ready.has(0),
        "gradient_exchange: skip() must be called before a whole bucket is ready: the exchange of one has begun");
    guarded([this] { engine_->cancel(); });
    phase_ = phase::idle;
  }

  /// Gives up a step that this rank cannot complete, since backward threw, say: as if wait() had thrown. The step of the
  /// other ranks fails by their communicator's timeout; what is on its way from here is waited for as long.
  void abandon() {
    if (phase_ != phase::ready) return;
    try {
      guarded([this] { engine_->cancel(); });
      engine_->pipeline.drain();
      phase_ = engine_->pipeline.has_begun() ? phase::failed : phase::idle;
    } catch (...) {  // why is known: this rank's step has failed
    }
  }

  /// Multiplies all that is fed back by a factor: the loss scale or the learning rate changed.
  void rescale(double factor) {
    require_idle("rescale");
    detail::require(std::isfinite(factor), "gradient_exchange::rescale: factor must be finite, got ", factor);
    model().rescale(exec_, factor);
  }

  /// From the next step on tensors are exchanged by these codecs, one for each, the same on all ranks. Those that are
  /// codecs() stay as they are, and at() of one goes on with its states. Any other begins again, as do ok_top_k and
  /// g_top_k, but for what was fed back: it goes on in a codec that feeds back by the same policy, and is lost in others.
  /// Between steps, by all ranks.
  ///
  ///   complexity  a small all-gather and a new plan; memory for what was changed again, and where more is needed
  ///   errors      agreement_error on all ranks if codecs differ or one does not fit; then the old ones stay in force
  void change(std::vector<codec_type> codecs) {
    require_idle("change");
    change_to(std::move(codecs));
  }
  /// The same on a rank that has lost the others: nothing is agreed, and export_state may follow but no step.
  void change_alone(std::vector<codec_type> codecs) {
    require_idle("change_alone");
    engine_->pipeline.apply(engine_->pipeline.prepare(std::move(codecs)));
  }

  /// Lays out new buckets by what the last step measured: when each gradient was ready, and how long buckets
  /// travelled. Tensors then travel in the order in which their gradients are ready on the slowest rank, so that none
  /// waits for a later one, in buckets whose last transfer ends as early as the limits of bucket_bytes let it. No mean
  /// changes, as far as the communicator's sums do not depend on how long a transfer is. Between steps, by all ranks,
  /// after a step or two with begin() before backward and ready() within it.
  ///
  ///   complexity  two small gathers and a new plan; memory where a bucket has become larger
  ///   errors      agreement_error on all ranks where messages were damaged on some; then the old buckets stay. On a
  ///               device times are the host's, which enqueues
  void fit_buckets() {
    require_idle("fit_buckets");
    detail::require(
        is_measured_,
        "gradient_exchange: fit_buckets() must be called after a step with these buckets and codecs: none has ended");
    auto layout = engine_->pipeline.fit(replicated_times());
    require_agreement(detail::described(tensors(), layout));
    engine_->lay_out(std::move(layout));
    is_measured_ = false;
  }

  /// What the last step sent and took on this rank, and what measure_errors measured; between steps. Before a step with
  /// these buckets and codecs their seconds are 0.
  exchange_report report() const {
    require_between_steps("report");
    auto all = exchange_report();
    auto const wire = engine_->pipeline.wire_bytes();
    for (std::size_t i = 0; i < wire.size(); ++i) all.tensors.push_back(report_of(i, wire[i]));
    detail::share_out(all.tensors, engine_->pipeline.seconds());
    all.total = detail::total_of(all.tensors);
    all.buckets = buckets();
    all.wait_seconds = wait_seconds_;
    return all;
  }
  /// Measures for report() what each codec loses of these gradients of this rank, all tensors one after another, before a
  /// step: |g - C(g)| / |g| of a codec that has remembered nothing, so that feedback adds no residual and power_sgd has
  /// no warm start. Changes neither gradients nor states.
  ///
  ///   complexity  encodes and decodes all tensors once more, one by one; allocates, and waits for an executor
  void measure_errors(span_on<E, In const> gradients) {
    require_between_steps("measure_errors");
    detail::require_size("gradient_exchange::measure_errors", "gradients", size(), gradients.size());
    std::uint64_t first = 0;
    for (std::size_t i = 0; i < tensors().size(); first += tensors()[i++].dims.n)
      lost_[i] = detail::loss_of<In>(exec_, codecs()[i], tensors()[i].dims, model().whose(i),
                                     gradients.subspan(first, tensors()[i].dims.n));
  }

  /// What each step measures, in the executor's memory: of each tensor |g|^2, written to `squares` from the next step on,
  /// and what its codec keeps (core/measured.hpp; null if it never measures).
  void measure_gradients(double* squares) { model().measure_into(squares); }
  double const* energies(std::size_t tensor) const { return model().energies(tensor); }

  /// What feedback keeps of a tensor on this rank, on the host, between steps: pith::fed_back of its codec and state.
  std::vector<accum<In>> fed_back(std::size_t tensor) {
    require_idle("fed_back");
    require_tensor("fed_back", tensor);
    return pith::fed_back<In>(exec_, codecs()[tensor], model().state(tensor));
  }

  /// The bytes of all states of this rank, with words that describe them and a checksum: docs/state_format.md. With
  /// exchange_options::is_recoverable also those after the last complete step where a later one threw, and those of one
  /// step before: ranks that fail together end at most one step apart.
  std::vector<std::byte> export_state(unsigned steps_back = 0) const {
    require_between_steps("export_state");
    if (steps_back > 0 || phase_ == phase::failed) return export_copy(steps_back);
    auto saved = detail::field_saver<E>(exec_);
    model().fields(saved);
    return detail::save_states(state_words(model().prepare(exec_, codecs())), saved.bytes);
  }

  /// Puts back what export_state of an equal exchange returned, on all ranks; it may have gathered otherwise, in other
  /// buckets, by another executor or minor version; what another number of ranks returned goes through reshard first. With
  /// gather::predicted the next step has full capacity.
  ///
  ///   errors      std::invalid_argument, before anything is changed: bytes that are no state, are damaged, or are of
  ///               another rank, number of ranks, seed, element type, tensor or codec
  void import_state(span<std::byte const> bytes) {
    auto const states = require_state(bytes, codecs());
    auto loaded = detail::field_loader<E>(exec_, states.data());
    model().fields(loaded);
    exec_.wait();
    model().forget();
    if (auto& copies = engine_->pipeline.copies()) copies->forget();
    phase_ = phase::idle;
  }
  /// The same of a state that was exported when the codecs were these, which come into force: of all ranks, as change().
  void import_state(span<std::byte const> bytes, std::vector<codec_type> codecs) {
    require_state(bytes, codecs);
    change_to(std::move(codecs));
    import_state(bytes);
  }
  /// Throws as import_state does, if by then the codecs are these, and changes nothing. Returns the bytes of the states.
  span<std::byte const> require_state(span<std::byte const> bytes, std::vector<codec_type> const& codecs) const {
    require_between_steps("import_state");
    detail::require_size(importing, "codecs", tensors().size(), codecs.size(), " entries");
    auto const parts = detail::open_states(importing, bytes);
    auto next = model().prepare(exec_, codecs);
    auto size = detail::field_counter();
    for (std::size_t i = 0; i < tensors().size(); ++i) model().fields(i, next, size);
    detail::require_words(importing, state_words(std::move(next)), parts.words);
    detail::require_size(importing, "states", size.bytes, parts.states.size(), " bytes");
    return parts.states;
  }

 private:
  using clock = std::chrono::steady_clock;
  using engine = detail::exchange_engine<In, E, Comm>;
  using phase = detail::exchange_phase;
  using model_change = typename detail::exchanged_tensors<In, E>::change;

  static constexpr auto* importing = "gradient_exchange::import_state";

  auto& model() const { return engine_->pipeline.model(); }

  void change_to(std::vector<codec_type> codecs) {
    auto next = std::optional<model_change>();
    auto words = std::vector<std::string>();
    auto failure = std::exception_ptr();
    try {
      detail::require_size("gradient_exchange::change", "codecs", tensors().size(), codecs.size(), " entries");
      next.emplace(engine_->pipeline.prepare(std::move(codecs)));
      words = detail::described(tensors(), next->codecs);
    } catch (...) {
      failure = std::current_exception();
    }
    require_agreement(words, failure);
    engine_->pipeline.apply(*std::move(next));
    engine_->pipeline.connect();
    lost_.assign(tensors().size(), {});
    is_measured_ = false;
  }

  void require_agreement(std::vector<std::string> const& words, std::exception_ptr const& failure = nullptr) const {
    auto mine = detail::agreement();
    mine.describe(words);
    detail::require_agreement(exec_, engine_->pipeline.comm(), mine, words, failure);
  }

  /// But for the seconds of its bucket.
  tensor_report report_of(std::size_t tensor, double wire_bytes) const {
    auto const& [name, dims] = tensors()[tensor];
    auto const ranks = engine_->pipeline.comm().size();
    auto const dense = detail::messages_of(transport::sum, static_cast<double>(dims.n * sizeof(In)), ranks, subgroup());
    auto row = tensor_report();
    row.name = name;
    row.bucket = bucket_of(tensor);
    row.elements = dims.n;
    row.dense_bytes = dense.count * dense.bytes;
    row.wire_bytes = wire_bytes;
    row.ready_seconds = std::chrono::duration<double>(engine_->ready.times()[tensor]).count();
    row.lost = lost_[tensor];
    row.kept = kept_of(tensor);
    return row;
  }
  /// At the first rate that the codec measures.
  measured_energy kept_of(std::size_t tensor) const {
    double of[2];
    if (!is_measured_ || codecs()[tensor].measured_rates().empty()) return {};
    exec_.download(of, energies(tensor), sizeof of);
    return {of[0], of[1]};
  }

  std::vector<detail::tensor_times> replicated_times() const {
    auto mine = std::vector<detail::tensor_times>();
    auto const nanoseconds = [](double seconds) { return static_cast<std::int64_t>(seconds * 1e9); };
    for (auto const& t : report().tensors)
      mine.push_back({nanoseconds(t.ready_seconds), nanoseconds(t.transfer_seconds)});
    return detail::times_of_all(detail::gather_on_host(exec_, engine_->pipeline.comm(), mine), mine.size());
  }
  /// A step that throws has failed.
  template <class F>
  void guarded(F const& f) {
    try {
      f();
    } catch (...) {
      phase_ = phase::failed;
      throw;
    }
  }

  std::vector<std::byte> export_copy(unsigned steps_back) const {
    auto const& copies = engine_->pipeline.copies();
    auto const since = has_failed() ? 0u : 1u;  // steps that are complete since the last copy
    detail::require(copies.has_value() || !has_failed(),
                    "gradient_exchange: export_state() is refused after a step that threw: set ",
                    "exchange_options::is_recoverable, or call import_state() first");
    auto const most = since + (copies ? copies->size() : 0);
    detail::require(steps_back < most, "gradient_exchange::export_state: steps_back must be below ", most, ", got ",
                    steps_back);
    auto const which = steps_back - since;
    return detail::save_states(state_words(model().prepare(exec_, copies->codecs(which))),
                               copies->states(exec_, which));
  }

  void require_tensor(char const* call, std::size_t tensor) const {
    detail::require(tensor < tensors().size(), "gradient_exchange::", call, ": tensor must be below ", tensors().size(),
                    ", got ", tensor);
  }
  void require_missing(std::size_t tensor) const {
    detail::require_step(phase_, "ready");
    require_tensor("ready", tensor);
    engine_->ready.require_missing(tensor);
  }
  void require_weight(double weight) const {
    detail::require(is_weighted_ || weight == 1, "gradient_exchange::begin: weight must be 1, got ", weight,
                    ": set exchange_options::is_weighted on all ranks");
    detail::require(std::isfinite(weight) && weight >= 0,
                    "gradient_exchange::begin: weight must be finite and at least 0, got ", weight);
  }

  /// States as they are after a change to other codecs, or to the same.
  std::string state_words(model_change next) const {
    return detail::state_words<In>(model(), next, engine_->pipeline.comm().rank(), seed_);
  }

  E exec_;
  gather how_;
  bool is_weighted_;
  std::uint64_t seed_;
  phase phase_ = phase::idle;
  bool is_measured_ = false;  ///< a step with these buckets and codecs
  double wait_seconds_ = 0;
  std::vector<measured_energy> lost_;  ///< of each tensor
  std::unique_ptr<engine, typename engine::end> engine_;
};

/// A gradient_exchange of values of `In`: with a policy or one codec, and options.
template <real In, executor E, class Comm, class Policy>
auto make_exchange(E const& exec, Comm& comm, std::vector<tensor_spec> tensors, Policy const& policy,
                   exchange_options const& options = {}) {
  explain_codec_policy<Policy, In, E>();
  if constexpr (codec_or_policy<Policy, In, E>)
    return gradient_exchange<In, E, Comm>(exec, comm, std::move(tensors), policy, options);
}
template <real In, executor E, class Comm, class Policy>
auto make_exchange(E const& exec, Comm& comm, std::vector<tensor_spec> tensors, Policy const& policy,
                   std::uint64_t seed, gather how = gather::padded) {
  return make_exchange<In>(exec, comm, std::move(tensors), policy, exchange_options{.seed = seed, .how = how});
}

}  // namespace pith::inline v0
