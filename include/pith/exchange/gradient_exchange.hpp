// pith/exchange/gradient_exchange.hpp — the exchange of a model's gradients, during the backward pass or in one call.
#pragma once

#include <pith/codec/any_codec.hpp>
#include <pith/codec/codec_state.hpp>
#include <pith/codec/detail/saved_state.hpp>
#include <pith/codec/detail/saving.hpp>
#include <pith/comm/detail/call_label.hpp>
#include <pith/exchange/codec_policy.hpp>
#include <pith/exchange/detail/agreement.hpp>
#include <pith/exchange/detail/compression_loss.hpp>
#include <pith/exchange/detail/exchange_engine.hpp>
#include <pith/exchange/detail/exchange_phase.hpp>
#include <pith/exchange/detail/exchange_words.hpp>
#include <pith/exchange/detail/report_sums.hpp>
#include <pith/exchange/detail/state_order.hpp>
#include <pith/exchange/exchange_options.hpp>
#include <pith/exchange/exchange_report.hpp>
#include <pith/exchange/messages.hpp>
#include <pith/exchange/traffic.hpp>
#include <pith/exec/self_test.hpp>

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

namespace pith { inline namespace PITH_ABI {

/// Replaces a model's gradients by their decoded means over the ranks, once per step. An exchange consists of rounds
/// (codec/rounds.hpp): each rank produces payloads, transfers move them, and each rank absorbs the received payloads. A
/// tensor bucket is a group of tensors whose payloads travel together, with one transfer per round and kind of
/// collective.
///
///   exchange.begin(gradients);   // begins a step; `gradients` contains all tensors one after another
///   exchange.ready(i);           // gradient i has been written; a bucket whose gradients are all ready is sent
///   exchange.wait();             // marks the other gradients as ready; returns when all gradients are means
///   exchange.all_reduce_mean(gradients);   // begin, ready and wait in one call
///   exchange.change(codecs);     // between steps: sets other codecs or rates
///
///   requires    equal tensors, codecs and options on all ranks. From ready(i) until wait() or abandon() returns,
///               gradient i must exist, and only the exchange may access it. If wait() throws, both hold until the
///               exchange is destroyed. Only one thread at a time may use the exchange. On a host, the first ready() of
///               a step starts a thread that calls the communicator. The communicator must accept calls from that
///               thread. With MPI, such calls need MPI_THREAD_MULTIPLE, or MPI_THREAD_SERIALIZED if no other thread
///               calls MPI during a step. On a device, ready() and wait() only enqueue work on the executor's stream.
///               So the kernels that write gradients or read means must be ordered on this stream
///   state       the codecs' states; export_state saves them, import_state restores them
///   complexity  allocates at most two buffers for the payloads that the largest tensor bucket sends, and at most two
///               buffers (four with gather::exact) for the payloads that this bucket receives from all ranks. For means
///               of half and bfloat16, also allocates one part of each bucket's payloads. The constructor, change() and
///               fit_buckets() allocate; a step does not, except that on a device, it may need more memory for arguments
///               of kernels than the steps before (exec/lanes.hpp). The number of transfers does not depend on the
///               number of tensors in a bucket. With power_sgd, for example, a bucket needs one all-reduce for all
///               factors P and all uncompressed tensors, and one all-reduce for all factors Q
///   errors      the constructor throws agreement_error on all ranks if tensors, codecs or options differ. If a rank
///               could not build its exchange, that rank throws its own error, and the other ranks throw
///               agreement_error. After a step that threw, the gradients have unspecified values, and the states of
///               different tensors or ranks may be of different steps. begin() then throws until import_state() has
///               restored a state. Memory that the transport may still use is never freed
///   owns        the codecs, the states and the buffers. The communicator and options.trace must outlive this object
template <real In, executor E, class Comm>
class gradient_exchange {
 public:
  using codec_type = any_codec<In, E>;

  /// `policy(tensor)` returns the codec of a tensor. The exchange does not store the policy.
  template <detail::codec_policy_for<In, E> Policy>
  gradient_exchange(E const& exec, Comm& comm, std::vector<tensor_spec> tensors, Policy const& policy,
                    exchange_options const& options = {})
      : exec_(exec), gather_mode_(options.gather_mode), is_weighted_(options.is_weighted), seed_(options.seed) {
    explain_communicator<Comm, E>();
    detail::require(comm.size() <= shared_rank, "gradient_exchange: comm must have at most ", shared_rank,
                    " ranks, got ", comm.size());
    auto failure = std::exception_ptr();
    try {
      if (options.self_test) detail::self_test_once(exec);
      engine_.reset(new engine(exec, comm, std::move(tensors), policy, options));
      require_weighable(codecs());
    } catch (...) {
      failure = std::current_exception();  // require_agreement passes the failure to the other ranks
    }
    auto const words = failure ? std::vector<std::string>() : detail::described(this->tensors(), codecs());
    auto const by = detail::calling({detail::caller::constructor});
    auto const mine = detail::agreement_on<In, E>(words, options);
    auto const number = detail::require_agreement(exec_, comm, mine, words, failure);
    engine_->pipeline.set_number(static_cast<std::uint32_t>(number));
    engine_->pipeline.connect();
    lost_.assign(this->tensors().size(), {});
  }

  /// Makes an exchange with one codec for all tensors.
  gradient_exchange(E const& exec, Comm& comm, std::vector<tensor_spec> tensors, codec_type const& codec,
                    exchange_options const& options = {})
      : gradient_exchange(
            exec, comm, std::move(tensors), [&codec](tensor_spec const&) { return codec; }, options) {}

  std::vector<tensor_spec> const& tensors() const { return model().given(); }
  std::vector<codec_type> const& codecs() const { return model().codecs(); }

  /// The number of elements in all tensors together.
  std::uint64_t size() const { return model().size(); }
  std::size_t buckets() const { return engine_->pipeline.buckets(); }
  /// The index of the tensor bucket that contains a tensor.
  std::size_t bucket_of(std::size_t tensor) const {
    require_tensor("bucket_of", tensor);
    return engine_->ready.bucket_of(tensor);
  }

  /// The number of bytes that this rank passes to its communicator in a step. If the number varies from step to step,
  /// returns the number for the last step. Before the first step, returns the largest possible number. During a step
  /// and after a failed step, returns the same number as before this step.
  pith::traffic traffic() const {
    if (phase_ != phase::idle) return sent_before_;
    auto all = engine_->pipeline.traffic();
    all.gathered = engine_->pipeline.gathered_bytes();
    return all;
  }
  /// The number of bytes per step that this rank passes to its communicator for transfers within one subgroup. For each
  /// all-gather, the largest possible size is counted. Call traffic(among) between steps.
  pith::traffic traffic(subgroup among) const {
    require_between_steps("traffic");
    return engine_->pipeline.traffic(among);
  }

  /// Replaces the gradients by their decoded means over the ranks. `gradients` contains all tensors one after another.
  /// With exchange_options::is_weighted, the mean is sum(weight x gradient) / sum(weight).
  void all_reduce_mean(span_on<E, In> gradients, double weight = 1) {
    begin(gradients, weight);
    wait();
  }

  /// Begins a step. The backward pass then writes all tensors to `gradients`, one after another.
  void begin(span_on<E, In> gradients, double weight = 1) {
    require_begin(gradients.size(), weight);
    detail::require_values("gradient_exchange::begin", "gradients", size(), gradients);
    begin(weight);
    model().bind(gradients);
  }
  /// Begins a step. The caller then passes each gradient to ready(tensor, gradient).
  void begin(double weight = 1) {
    require_begin(size(), weight);
    sent_before_ = traffic();  // after ready(), another thread may change the number
    model().unbind();
    engine_->ready.begin();
    engine_->pipeline.begin_step(weight);
    phase_ = phase::ready;
    ++begun_;
  }

  /// The number of steps that have begun, with those that were skipped.
  std::uint64_t begun() const { return begun_; }
  /// True after a failed step, until import_state() is called. A step fails if one of its rounds throws, or if it is
  /// abandoned after its first round has begun. If change() or fit_buckets() lacks memory on this rank, the exchange has
  /// also failed. export_state() then returns the states after the last step, without exchange_options::is_recoverable.
  bool has_failed() const { return phase_ == phase::failed; }
  /// Throws std::invalid_argument during a step. The message contains `call`.
  void require_between_steps(char const* call) const { detail::require_between_steps(phase_, call); }
  /// Throws std::invalid_argument between steps and after a failed step.
  void require_step(char const* call) const { detail::require_step(phase_, call); }
  /// Throws std::invalid_argument during a step and after a failed step.
  void require_idle(char const* call) const { detail::require_idle(phase_, call); }
  /// Throws if `begin()` would throw for `elements` gradient elements. Changes nothing.
  void require_begin(std::uint64_t elements, double weight) const {
    require_idle("begin");
    detail::require_size("gradient_exchange::begin", "gradients", size(), elements);
    require_weight(weight);
    if (gather_mode_ != gather::padded) detail::require_no_capture(exec_, gather_mode_);
  }

  /// Marks the gradient of a tensor as written. Until `wait()` returns, only the exchange may access the gradient. If
  /// only the main thread may call the communicator, `ready()` throws std::invalid_argument and changes nothing.
  void ready(std::size_t tensor) {
    require_ready(tensor);
    guarded([&] { engine_->add(tensor); });
  }
  /// Sets the address of a tensor's gradient, and marks this gradient as written.
  void ready(std::size_t tensor, span_on<E, In> gradient) {
    require_ready(tensor, gradient);
    model().bind(tensor, gradient.data());
    guarded([&] { engine_->add(tensor); });
  }

  /// Throw if `ready()` with these arguments would throw. Change nothing.
  void require_ready(std::size_t tensor) const {
    require_missing(tensor);
    detail::require(model().is_bound(tensor),
                    "gradient_exchange::ready: begin() was called without gradients: call ready(", tensor,
                    ", gradient)");
  }
  void require_ready(std::size_t tensor, span_on<E, In> gradient) const {
    require_missing(tensor);
    detail::require_values("gradient_exchange::ready", "gradient", tensors()[tensor].dims.n, gradient);
  }

  /// Ends the step. `wait()` marks all remaining gradients as ready, and returns when all gradients are means.
  void wait() {
    detail::require_step(phase_, "wait");
    auto const begun = clock::now();
    for (std::size_t i = 0; i < tensors().size(); ++i) {
      detail::require(model().is_bound(i), "gradient_exchange: wait() needs the gradient of tensor ", i, ", \"",
                      tensors()[i].name, "\": call ready(", i, ", gradient) first");
    }
    guarded([this] { engine_->finish(); });
    phase_ = phase::idle;
    is_measured_ = true;
    wait_seconds_ = std::chrono::duration<double>(clock::now() - begun).count();
  }

  /// Ends a step without an exchange. All ranks must skip the same step. Gradients and states do not change. If all
  /// gradients of tensor bucket 0 are ready, their exchange has begun, and `skip()` throws. Between steps, `skip()` has
  /// no effect.
  void skip() {
    if (phase_ == phase::idle) return;
    detail::require_step(phase_, "skip");
    detail::require(
        buckets() == 0 || !engine_->ready.has(0),
        "gradient_exchange: skip() must be called before a whole bucket is ready: the exchange of one has begun");
    guarded([this] { engine_->cancel(); });
    phase_ = phase::idle;
  }

  /// Gives up a step that this rank cannot complete, for instance after the backward pass threw. `abandon()` waits for
  /// this rank's pending transfers. If a round of the step has begun, the step fails on this rank, as if `wait()` had
  /// thrown. Otherwise, this rank skips the step. On the other ranks, the step fails when the communicator's timeout
  /// expires.
  void abandon() {
    if (phase_ != phase::ready) return;
    try {
      guarded([this] { engine_->cancel(); });
      engine_->pipeline.drain();
      phase_ = engine_->pipeline.has_begun() ? phase::failed : phase::idle;
    } catch (...) {  // guarded() has marked the step as failed
    }
  }

  /// Multiplies all residuals by a factor. Call rescale() after a change of the loss scale or the learning rate.
  void rescale(double factor) {
    require_idle("rescale");
    detail::require(std::isfinite(static_cast<accum<In>>(factor)),
                    "gradient_exchange::rescale: factor must be finite in the type of residuals, got ", factor);
    auto const environment = detail::default_float_environment();
    model().rescale(exec_, factor);
  }

  /// Sets one codec per tensor, for the next step and all later steps. All ranks call `change()` between steps, with
  /// equal codecs. If the new codec of a tensor is the old codec `old`, or is `old.at(rate)`, the state is kept.
  /// Otherwise the new codec starts with a new state, except for its feedback. `ok_top_k` and `g_top_k` start with a
  /// new state at every new rate. The feedback of the new codec takes over the residual. Without feedback, the next step
  /// adds the residual to the gradient. For float and double, the residual of an element is lost if this sum is NaN or
  /// infinite. No other residual is lost. docs/exchange.md lists the states that each policy takes over.
  ///
  ///   complexity  two small all-gathers and a new schedule. Allocates the new states, and larger buffers if needed
  ///   errors      agreement_error on all ranks if codecs differ between ranks. If a codec does not fit its tensor,
  ///               each rank that passed this codec throws std::invalid_argument, and the other ranks throw
  ///               agreement_error. The same holds if the new codec would lose a residual. After these errors, the
  ///               exchange keeps the old codecs
  void change(std::vector<codec_type> codecs) {
    require_idle("change");
    auto const by = calling(detail::caller::change);
    change_to(std::move(codecs), true);
  }
  /// Sets the codecs without a check between ranks, for a rank that can no longer communicate. The rank may then call
  /// export_state(), but must not begin a step.
  void change_alone(std::vector<codec_type> codecs) {
    require_idle("change_alone");
    require_codecs("change_alone", codecs);
    auto const environment = detail::default_float_environment();
    auto next = engine_->pipeline.prepare(std::move(codecs));
    model().require_kept(next);
    engine_->pipeline.apply(std::move(next));
  }

  /// Computes new tensor buckets from two measurements of the last step: the time at which each gradient was ready, and
  /// the duration of each bucket's transfers. The tensors are ordered by the time at which their gradients became ready
  /// on the slowest rank. The new buckets respect the limit exchange_options::bucket_bytes, and let the last transfer
  /// end as early as possible. If the communicator's order of additions does not depend on the message size, the old
  /// and the new buckets give bitwise equal means. All ranks call fit_buckets() between steps, for example after the
  /// second step. In the last step before this call, `begin()` must have been called before the backward pass, and
  /// `ready()` during the backward pass. On a device, the measured times are the times at which the host enqueues the
  /// work.
  ///
  ///   complexity  three small all-gathers and a new schedule. Allocates if the largest bucket has grown
  ///   errors      agreement_error or communication_error on all ranks if messages were damaged. After this error, the
  ///               exchange keeps the old buckets
  void fit_buckets() {
    require_idle("fit_buckets");
    detail::require(
        is_measured_,
        "gradient_exchange: fit_buckets() must be called after a step with these buckets and codecs: none has ended");
    auto const by = calling(detail::caller::fit_buckets);
    auto layout = engine_->pipeline.fit(replicated_times());
    require_agreement(detail::described(tensors(), layout));
    guarded([&] { engine_->set_layout(std::move(layout)); });
    is_measured_ = false;
  }

  /// The bytes and seconds of the last step on this rank, and the errors that measure_errors() measured. Call report()
  /// between steps. Until a step with the current buckets and codecs has ended, the seconds of encoding, transfers and
  /// decoding are 0.
  exchange_report report() const {
    require_between_steps("report");
    auto all = exchange_report();
    auto const wire = engine_->pipeline.wire_bytes();
    auto const& groups = model().groups();
    for (std::size_t i = 0; i < wire.size(); ++i)
      all.tensors.push_back(report_of(i, wire[groups.leader(i)] * groups.share(i)));
    detail::share_out(all.tensors, engine_->pipeline.seconds());
    all.total = detail::total_of(all.tensors);
    all.buckets = buckets();
    all.wait_seconds = wait_seconds_;
    return all;
  }
  /// Measures the error |g - D(C(g))| / |g| of each codec on this rank's gradients, and stores it for `report()`.
  /// `gradients` contains all tensors one after another. Each measurement starts with a new state: the residual is
  /// zero, and `power_sgd` has no warm start. Gradients and states of the exchange do not change. Call measure_errors()
  /// between steps.
  ///
  ///   complexity  encodes and decodes all tensors once more, one by one; allocates and waits for the executor
  void measure_errors(span_on<E, In const> gradients) {
    require_between_steps("measure_errors");
    detail::require_size("gradient_exchange::measure_errors", "gradients", size(), gradients.size());
    model().bind({const_cast<In*>(gradients.data()), gradients.size()});  // is only read
    model().join(exec_);
    for (std::size_t i = 0; i < tensors().size(); ++i) {
      if (model().groups().leader(i) != i) continue;
      auto const x = model().gradient(i);
      lost_[i] = detail::loss_of<In>(exec_, codecs()[i], model().specs()[i].dims, model().owner(i),
                                     span_on<E, In const>(x.data, x.capacity));
    }
  }

  /// Beginning with the next step, every step writes |g|^2 of each tensor to `squares`. This array has one double per
  /// tensor, lies in the executor's memory, and must outlive the steps. Call measure_gradients() between steps.
  void measure_gradients(double* squares) {
    require_between_steps("measure_gradients");
    model().measure_into(squares);
  }
  /// The energies that a tensor's codec measures (codec/measured.hpp), in the executor's memory; null if the codec
  /// measures no energies. The pointer is valid until the next change of codecs.
  double const* energies(std::size_t tensor) const {
    require_tensor("energies", tensor);
    return model().energies(model().groups().leader(tensor));
  }

  /// Returns pith::fed_back for a tensor: a host copy of this rank's feedback state, such as a residual. Call
  /// fed_back() between steps.
  std::vector<accum<In>> fed_back(std::size_t tensor) const {
    require_idle("fed_back");
    require_tensor("fed_back", tensor);
    auto const holder = model().groups().leader(tensor);
    return model().groups().part_of(tensor, pith::fed_back<In>(exec_, codecs()[holder], model().state(holder)));
  }

  /// Serialises all states of this rank, with a description and a checksum, in the format of docs/state_format.md.
  /// exchange_options::is_recoverable permits two further calls. After a failed step, export_state() returns the state
  /// after the last complete step. With `steps_back = 1`, export_state() returns the state before the last complete
  /// step. One step back suffices: after a failure, any two ranks' numbers of complete steps differ by at most one.
  std::vector<std::byte> export_state(unsigned steps_back = 0) const {
    require_between_steps("export_state");
    if (steps_back > 0 || has_lost_step()) return export_copy(steps_back);
    auto saved = detail::field_saver<E>(exec_);
    model().fields(saved);
    auto now = model().prepare(exec_, codecs());
    return detail::save_states(state_words(now), saved.bytes);
  }

  /// Restores a state that `export_state` returned. All ranks call import_state(). The exporting exchange may have had
  /// its tensors in another order, another gather mode, other buckets, another executor, or another minor version of
  /// the library. Each tensor gets the state of the tensor with the same name. For a different number of ranks, first
  /// convert the states with reshard(). With gather::predicted, the next step sends payloads at full capacity. The next
  /// step outside the capture of a graph compares the ranks' step counters and codecs, in two small all-gathers.
  ///
  ///   errors      std::invalid_argument, before any change, if the bytes are not a state or are damaged, or if the
  ///               state is of another rank, number of ranks, seed, element type, tensor or codec, or of 2^63 steps
  ///               or more. If it throws on some ranks, all ranks must import states again before the next step;
  ///               import_state(bytes, codecs) throws on all ranks. If the ranks imported states of different steps, the
  ///               next step throws agreement_error on all ranks
  void import_state(span<std::byte const> bytes) {
    auto const saved = opened(bytes, codecs());
    engine_->complete_plan();
    model().owe(exec_, saved.owes);
    auto loaded = detail::field_loader<E>(exec_, saved.values().data());
    model().fields(loaded);
    exec_.wait();
    model().forget();
    if (auto& copies = engine_->pipeline.copies()) copies->forget(), copies->fit(exec_, model());
    engine_->pipeline.note_import();
    phase_ = phase::idle;
  }
  /// Sets `codecs` as `change()` does, and restores a state that was exported with these codecs. All ranks call
  /// import_state(). If the state of one rank is wrong, that rank throws std::invalid_argument, and the other ranks
  /// throw agreement_error. All ranks are then unchanged.
  void import_state(span<std::byte const> bytes, std::vector<codec_type> codecs) {
    require_between_steps("import_state");
    auto const by = calling(detail::caller::import_state);
    detail::require_success(exec_, engine_->pipeline.comm(), importing, detail::could_not_load,
                            [&] { require_state(bytes, codecs); });
    change_to(std::move(codecs), false);
    import_state(bytes);
  }
  /// Throws if import_state(bytes, codecs) would throw. Changes nothing.
  void require_state(span<std::byte const> bytes, std::vector<codec_type> const& codecs) const {
    opened(bytes, codecs);
  }

 private:
  using clock = std::chrono::steady_clock;
  using engine = detail::exchange_engine<In, E, Comm>;
  using phase = detail::exchange_phase;
  using model_change = typename detail::exchanged_tensors<In, E>::change;

  static constexpr auto* importing = "gradient_exchange::import_state";

  auto& model() const { return engine_->pipeline.model(); }
  /// Sets the label of a function's calls. The communicator compares the labels of the ranks.
  detail::calling calling(detail::caller::function from) const {
    return detail::calling({from, engine_->pipeline.number()});
  }

  /// A saved state that this exchange can import, and the tensors that have an undelivered residual in it.
  struct opened_state {
    span<std::byte const> saved;                   ///< the values, in the order of the saving exchange's tensors
    std::optional<detail::ordered_state> ordered;  ///< the state in the order of this exchange's tensors, if it differs
    std::vector<bool> owes;

    span<std::byte const> values() const { return ordered ? ordered->parts().states : saved; }
  };
  opened_state opened(span<std::byte const> bytes, std::vector<codec_type> const& codecs) const {
    require_between_steps("import_state");
    detail::require_size(importing, "codecs", tensors().size(), codecs.size(), " entries");
    auto next = model().prepare(exec_, codecs);
    auto const whole = detail::open_states(importing, bytes);
    auto ordered = detail::in_order_of(importing, tensors(), whole);
    auto const saved = ordered ? ordered->parts() : whole;
    next.owes.assign(tensors().size(), false);
    next.owes = detail::owing_in(saved.words, state_words(next));
    detail::require_words(importing, state_words(next), saved.words);
    auto size = detail::field_counter();
    auto firsts = std::vector<std::size_t>();
    for (std::size_t i = 0; i < tensors().size(); ++i) {
      firsts.push_back(size.bytes);
      model().fields(i, next, size);
    }
    detail::require_size(importing, "states", size.bytes, saved.states.size(), " bytes");
    for (auto const first : firsts) detail::require_steps(importing, detail::steps_in(saved.states.data() + first));
    return {whole.states, std::move(ordered), next.owes};
  }

  /// Sets the codecs. `keeps_feedback` is false if the caller then imports all states, so that residuals may be lost.
  void change_to(std::vector<codec_type> codecs, bool keeps_feedback) {
    auto const environment = detail::default_float_environment();
    auto next = std::optional<model_change>();
    auto words = std::vector<std::string>();
    auto failure = std::exception_ptr();
    try {
      require_codecs("change", codecs);
      next.emplace(engine_->pipeline.prepare(std::move(codecs)));
      if (keeps_feedback) model().require_kept(*next);
      words = detail::described(tensors(), next->codecs);
    } catch (...) {
      failure = std::current_exception();
    }
    require_agreement(words, failure);
    guarded([&] {
      engine_->pipeline.apply(*std::move(next));
      engine_->pipeline.connect();
    });
    lost_.assign(tensors().size(), {});
    is_measured_ = false;
  }

  void require_agreement(std::vector<std::string> const& words, std::exception_ptr const& failure = nullptr) const {
    auto mine = detail::agreement();
    mine.describe(words);
    detail::require_agreement(exec_, engine_->pipeline.comm(), mine, words, failure);
  }

  /// The report of a tensor, without the seconds that are measured per tensor bucket.
  tensor_report report_of(std::size_t tensor, double wire_bytes) const {
    auto const& spec = tensors()[tensor];
    auto const ranks = engine_->pipeline.comm().size();
    auto const dense = detail::messages_of(transport::all_reduce_sum, static_cast<double>(spec.dims.n * sizeof(In)),
                                           ranks, subgroup());
    auto row = tensor_report();
    row.name = spec.name;
    row.bucket = bucket_of(tensor);
    row.elements = spec.dims.n;
    row.dense_bytes = dense.count * dense.bytes;
    row.wire_bytes = wire_bytes;
    row.ready_seconds = std::chrono::duration<double>(engine_->ready.times()[tensor]).count();
    auto const holder = model().groups().leader(tensor);
    auto const share = model().groups().share(tensor);
    row.lost = detail::scaled(lost_[holder], share);
    row.kept = detail::scaled(kept_of(holder), share);
    return row;
  }
  /// The energies that the codec measured at its first rate.
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
  /// Calls f. If f throws, marks the step as failed.
  template <class F>
  void guarded(F const& f) {
    try {
      f();
    } catch (...) {
      phase_ = phase::failed;
      throw;
    }
  }

  /// Whether a step has failed. After a change() that lacked memory, the states are still those of the last step.
  bool has_lost_step() const { return has_failed() && engine_->pipeline.is_planned(); }
  std::vector<std::byte> export_copy(unsigned steps_back) const {
    auto const& copies = engine_->pipeline.copies();
    auto const since = has_lost_step() ? 0u : 1u;  // number of steps completed after the last copy
    detail::require(copies.has_value() || !has_lost_step(),
                    "gradient_exchange: export_state() is refused after a step that threw: set ",
                    "exchange_options::is_recoverable, or call import_state() first");
    auto const most = since + (copies ? copies->size() : 0);
    detail::require(steps_back < most, "gradient_exchange::export_state: steps_back must be below ", most, ", got ",
                    steps_back);
    auto const which = steps_back - since;
    auto then = model().prepare(exec_, copies->codecs(which));
    then.owes = copies->owes(which);
    return detail::save_states(state_words(then), copies->states(exec_, which));
  }

  void require_tensor(char const* call, std::size_t tensor) const {
    detail::require(tensor < tensors().size(), "gradient_exchange::", call, ": tensor must be below ", tensors().size(),
                    ", got ", tensor);
  }
  void require_missing(std::size_t tensor) const {
    detail::require_step(phase_, "ready");
    require_tensor("ready", tensor);
    engine_->ready.require_missing(tensor);
    engine_->require_thread();
  }
  void require_codecs(char const* call, std::vector<codec_type> const& codecs) const {
    detail::require(codecs.size() == tensors().size(), "gradient_exchange::", call, ": codecs must have ",
                    tensors().size(), " entries, got ", codecs.size());
    require_weighable(codecs);
  }
  void require_weighable(std::vector<codec_type> const& codecs) const {
    for (std::size_t i = 0; is_weighted_ && i < codecs.size(); ++i) {
      detail::require(!codecs[i].capabilities_for(model().specs()[i].dims).votes,
                      "gradient_exchange: the codec of tensor \"", tensors()[i].name,
                      "\" must compute a mean if is_weighted is set, got ", codecs[i].name(),
                      ", which computes a majority");
    }
  }
  void require_weight(double weight) const {
    detail::require(is_weighted_ || weight == 1, "gradient_exchange::begin: weight must be 1, got ", weight,
                    ": set exchange_options::is_weighted on all ranks");
    detail::require(std::isfinite(weight) && weight >= 0,
                    "gradient_exchange::begin: weight must be finite and at least 0, got ", weight);
  }

  /// The description that the states will have after a change of codecs.
  std::string state_words(model_change& next) const {
    return detail::state_words<In>(model(), next, engine_->pipeline.comm().rank(), seed_);
  }

  E exec_;
  gather gather_mode_;
  bool is_weighted_;
  std::uint64_t seed_;
  phase phase_ = phase::idle;
  bool is_measured_ = false;  ///< true after a step with the current buckets and codecs
  double wait_seconds_ = 0;
  std::uint64_t begun_ = 0;
  pith::traffic sent_before_;          ///< the result of traffic() before the current or failed step
  std::vector<measured_energy> lost_;  ///< measured loss of each tensor
  std::unique_ptr<engine, typename engine::end> engine_;
};

/// Makes a gradient_exchange for elements of type In, with a codec policy or one codec.
template <real In, executor E, class Comm, class Policy>
auto make_exchange(E const& exec, Comm& comm, std::vector<tensor_spec> tensors, Policy const& policy,
                   exchange_options const& options = {}) {
  explain_codec_policy<Policy, In, E>();
  if constexpr (detail::codec_or_policy<Policy, In, E>)
    return gradient_exchange<In, E, Comm>(exec, comm, std::move(tensors), policy, options);
}

}}  // namespace pith::PITH_ABI
