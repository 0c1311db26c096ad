// pith/control/adaptive_exchange.hpp — an exchange whose rates a controller chooses in each step.
#pragma once

#include <pith/comm/detail/lent.hpp>
#include <pith/control/rate_controller.hpp>
#include <pith/core/detail/late_copy.hpp>
#include <pith/exchange/detail/adaptive_state.hpp>
#include <pith/exchange/detail/state_order.hpp>
#include <pith/exchange/gradient_exchange.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Copies values from scattered addresses to an array.
struct collect_numbers {
  double const* const* from;
  double* to;
  PITH_HD void operator()(std::uint64_t i) const { to[i] = *from[i]; }
};

/// The measurements of a step, as one array of doubles: |g|^2 of each tensor, the energies that the codecs measured,
/// and the duration of the step on each rank in seconds. An all-reduce sums the arrays of all ranks, so a value that is
/// NaN on one rank becomes NaN on all ranks.
template <executor E>
class step_board {
 public:
  step_board() = default;
  step_board(E const& exec, std::size_t tensors, unsigned ranks)
      : tensors_(tensors),
        ranks_(ranks),
        numbers_(buffer<double, E>(exec, tensors * (1 + energies<E>::size) + ranks)),
        places_(exec, tensors * energies<E>::size),
        late_(words(numbers().size())),
        host_(numbers().size()) {}

  double* squares() const { return numbers().data(); }

  /// Sets the addresses from which `agree()` reads the energies, tensor by tensor.
  void place(E const& exec, std::vector<double const*> places) {
    from_ = std::move(places);
    exec.upload(places_.data(), from_.data(), from_.size() * sizeof(double const*));
  }

  /// Adds the arrays of all ranks, and starts the download of the result.
  template <class Comm>
  void agree(E const& exec, Comm& comm, double seconds) {
    auto* const energies = squares() + tensors_;
    auto* const times = energies + from_.size();
    seconds_ = seconds;
    exec.for_each_index(from_.size(), collect_numbers{places_.data(), energies});
    exec.fill(times, std::byte{}, ranks_ * sizeof(double));
    exec.upload(times + comm.rank(), &seconds_, sizeof seconds_);
    auto const used = tensors_ + from_.size() + ranks_;
    numbers_.wait(exec, [&] { return comm.all_reduce(exec, span_on<E, double>(squares(), used), reduction::sum); });
    late_.ask(exec, reinterpret_cast<std::uint32_t const*>(squares()));
  }
  /// Reads the downloaded result of `agree()`.
  void read(E const& exec) { std::memcpy(host_.data(), late_.read(exec), host_.size() * sizeof(double)); }

  span<double const> gradients() const { return {host_.data(), tensors_}; }
  double const* energies_of_all() const { return host_.data() + tensors_; }
  double slowest() const {
    auto const* const times = energies_of_all() + from_.size();
    return *std::max_element(times, times + ranks_);
  }

 private:
  buffer<double, E> const& numbers() const { return *numbers_; }
  static std::size_t words(std::size_t doubles) { return doubles * (sizeof(double) / sizeof(std::uint32_t)); }

  std::size_t tensors_ = 0, ranks_ = 0;
  std::vector<double const*> from_;  ///< a member, like seconds_, since an upload may read its source later
  double seconds_ = 0;
  lent<buffer<double, E>> numbers_;
  buffer<double const*, E> places_;
  late_copy<E> late_;
  std::vector<double> host_;
};

}  // namespace detail

/// A gradient_exchange whose rates are chosen by a controller (rate_controller.hpp). After step t, an all-reduce sums
/// the ranks' measurements of step t. From these sums, the controller chooses the rates of step t + 1, for all tensors
/// whose codec has a rate. The rates of a step cannot depend on measurements of the same step, since the first payloads
/// are sent before all gradients exist.
///
///   auto codec = pith::error_feedback(pith::rated(pith::top_k(0.1)));
///   auto exchange = pith::make_adaptive_exchange<float>(exec, comm, tensors, pith::matrices(codec), pith::gravac());
///   exchange.set_learning_rate(0.1);        // the learning rate from the next step on
///   exchange.all_reduce_mean(gradients);    // or begin, ready and wait, as in gradient_exchange
///
///   requires    the requirements of gradient_exchange; controllers with the same name and equal settings on all ranks
///   state       the state of gradient_exchange and the state of the controller. Measurements need ten doubles per
///               tensor
///   complexity  an all-reduce of up to ten doubles per tensor, plus one double per rank, after each step; one call of
///               gradient_exchange::change when rates change. A step with unchanged rates allocates nothing, unless the
///               controller allocates
///   errors      agreement_error on all ranks if the controllers' names differ between ranks; std::invalid_argument for
///               a wrong state. After a step that throws, the rules for a failed step of gradient_exchange apply
///   owns        the gradient_exchange and the controller. The communicator and options.trace must outlive the
///               adaptive_exchange
template <real In, executor E, class Comm, rate_controller R>
class adaptive_exchange {
 public:
  using exchange_type = gradient_exchange<In, E, Comm>;
  using codec_type = typename exchange_type::codec_type;

  template <detail::codec_policy_for<In, E> Policy>
  adaptive_exchange(E const& exec, Comm& comm, std::vector<tensor_spec> tensors, Policy const& policy, R controller,
                    exchange_options const& options = {})
      : exec_(exec),
        comm_(&comm),
        exchange_(exec, comm, std::move(tensors), policy, options),
        controller_(std::move(controller)),
        codecs_(exchange_.codecs()),
        measures_(codecs_.size()),
        choices_(codecs_.size()),
        board_(exec, codecs_.size(), comm.size()),
        is_recoverable_(options.is_recoverable) {
    explain_controller<R>();
    for (auto const& c : codecs_)
      detail::require(!c.is_flat(), "adaptive_exchange: each tensor must have a rate of its own, got ", c.name());
    for (std::size_t i = 0; i < codecs_.size(); ++i)
      measures_[i] = can_measure(codecs_[i]) && codecs_[i].may_be_lossy(exchange_.tensors()[i].dims);
    require_one_controller();
    require_rates();
    if (detail::declares<R, ext::gradient_norms>) exchange_.measure_gradients(board_.squares());
  }

  /// Makes an exchange with one codec for all tensors.
  adaptive_exchange(E const& exec, Comm& comm, std::vector<tensor_spec> tensors, codec_type const& codec, R controller,
                    exchange_options const& options = {})
      : adaptive_exchange(
            exec, comm, std::move(tensors), [&codec](tensor_spec const&) { return codec; }, std::move(controller),
            options) {}

  R const& controller() const { return controller_; }
  R& controller() { return controller_; }
  exchange_type const& exchange() const { return exchange_; }
  std::vector<codec_type> const& codecs() const { return exchange_.codecs(); }
  std::uint64_t size() const { return exchange_.size(); }

  /// The number of steps that have begun. Skipped steps do not count.
  std::uint64_t steps() const { return is_prepared_ ? step_ - 1 : step_; }

  /// Sets the learning rate of all later steps, which must be equal on all ranks. The controller receives it in the
  /// report of each of these steps, so a new learning rate affects the second step with it at the earliest.
  void set_learning_rate(double rate) {
    detail::require(0 <= rate && rate < HUGE_VAL,
                    "adaptive_exchange::set_learning_rate: rate must be finite and at least 0, got ", rate);
    learning_rate_ = rate;
  }

  void all_reduce_mean(span_on<E, In> gradients, double weight = 1) {
    begin(gradients, weight);
    wait();
  }
  void begin(span_on<E, In> gradients, double weight = 1) {
    exchange_.require_begin(gradients.size(), weight);
    prepare_step();
    exchange_.begin(gradients, weight);
    note_begun();
  }
  void begin(double weight = 1) {
    exchange_.require_begin(size(), weight);
    prepare_step();
    exchange_.begin(weight);
    note_begun();
  }
  void ready(std::size_t tensor) { exchange_.ready(tensor); }
  void ready(std::size_t tensor, span_on<E, In> gradient) { exchange_.ready(tensor, gradient); }
  void wait() {
    exchange_.wait();
    auto const now = clock::now();
    try {
      board_.agree(exec_, *comm_, std::chrono::duration<double>(now - last_).count());
    } catch (...) {
      lost_ = std::current_exception();
      throw;
    }
    last_ = now;
    is_seen_ = is_begun_ = false;
  }
  /// Skips a step, as if the step had not begun. The skipped step is not measured, and the next step uses the rates of
  /// the skipped step.
  void skip() {
    require_intact("skip");
    exchange_.skip();
    withdraw();
  }
  void abandon() {
    exchange_.abandon();
    if (!exchange_.has_failed()) withdraw();
  }
  /// Begins the time of the next report now, not at the end of the previous step. All ranks call restart_clock() after a
  /// pause for a validation or a checkpoint, and after the slowest rank's pause has ended.
  void restart_clock() { last_ = clock::now(); }
  void rescale(double factor) {
    require_intact("rescale");
    exchange_.rescale(factor);
  }
  void fit_buckets() {
    require_intact("fit_buckets");
    exchange_.fit_buckets();
  }
  void measure_errors(span_on<E, In const> gradients) { exchange_.measure_errors(gradients); }

  /// Serialises the state of this rank, like gradient_exchange::export_state. `export_state` first applies the rates of
  /// the next step, which may need communication. So all ranks must make this call. After a step that threw, or if
  /// `steps_back` > 0, `export_state` does not communicate. New rates end the measurements of report() and fit_buckets(),
  /// so call these before `export_state`.
  std::vector<std::byte> export_state(unsigned steps_back = 0) {
    if (steps_back > 0 || is_begun_) return export_moment(steps_back);
    exchange_.require_idle("export_state");
    prepare();
    return saved({controller_, step_, learning_rate_}, exchange_.export_state());
  }
  /// Restores a state that `export_state` returned. The tensors must have the same order as in the exporting exchange.
  /// All ranks call import_state. If the state of one rank is wrong, that rank throws the error of
  /// gradient_exchange::import_state, and the other ranks throw agreement_error. If the ranks' states were saved after
  /// different steps, all ranks throw agreement_error. After these errors, all ranks are unchanged.
  void import_state(span<std::byte const> bytes) {
    exchange_.require_between_steps("import_state");
    auto next = restore_all(bytes);
    auto chosen = choices(next.controller, next.head.step);
    exchange_.import_state(next.states, codecs_at(chosen));
    choices_ = std::move(chosen);
    place();
    controller_ = std::move(next.controller);
    step_ = next.head.step;
    learning_rate_ = next.head.learning_rate;
    is_seen_ = is_prepared_ = true;
    is_begun_ = false;
    lost_ = nullptr;
    moments_.clear();
    last_ = clock::now();
  }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr auto* call = "adaptive_exchange::import_state";

  /// The controller's current decision for a tensor.
  struct choice {
    double rate = 0;
    rate_list measured = {};
    friend bool operator==(choice const&, choice const&) = default;
  };

  /// A copy of the controller at the beginning of a step, with the step's number and learning rate.
  struct moment {
    R controller;
    std::uint64_t step;
    double learning_rate;
  };

  std::vector<std::byte> export_moment(unsigned steps_back) const {
    exchange_.require_between_steps("export_state");
    auto const since = is_begun_ ? 0u : 1u;  // number of steps completed after moments_[0]
    detail::require(is_recoverable_ || !is_begun_,
                    "adaptive_exchange: export_state() is refused after a step that threw: set ",
                    "exchange_options::is_recoverable, or call import_state() first");
    auto const most = since + moments_.size();
    detail::require(steps_back < most, "adaptive_exchange::export_state: steps_back must be below ", most, ", got ",
                    steps_back);
    auto const which = steps_back - since;
    return saved(moments_[which], exchange_.export_state(exchange_.has_failed() ? which : which + 1));
  }
  std::vector<std::byte> saved(moment const& at, std::vector<std::byte> const& states) const {
    auto const controller = at.controller.save();
    auto const head = detail::adaptive_header{.step = at.step, .learning_rate = at.learning_rate};
    return detail::save_adaptive(controller_words(), {head, controller, states});
  }

  /// The contents of a saved state.
  struct restored {
    R controller;
    detail::adaptive_header head;
    span<std::byte const> states;
  };

  restored restore(span<std::byte const> bytes) const {
    auto const saved = detail::open_adaptive(call, detail::matching_states(call, bytes, controller_words()));
    detail::require_steps(call, saved.head.step);
    auto next = restored{controller_, saved.head, saved.exchange};
    next.controller.load(saved.controller);
    detail::require_order(call, exchange_.tensors(), next.states);
    exchange_.require_state(next.states, codecs_at(choices(next.controller, next.head.step)));
    return next;
  }
  /// Reads the states of all ranks, each on its rank. Throws on all ranks if a state is wrong or of another step.
  restored restore_all(span<std::byte const> bytes) const {
    auto next = std::optional<restored>();
    detail::require_success(exec_, *comm_, call, detail::could_not_load, [&] { next.emplace(restore(bytes)); });
    detail::require_one_moment(exec_, *comm_, call, {next->head.step});
    return *std::move(next);
  }
  std::string controller_words() const {
    return detail::text(detail::adaptive_word, "\ncontroller ", controller_.name(), '\n');
  }

  /// Passes the report of the last step to the controller, and applies the controller's rates for the next step. The
  /// caller may have changed the controller since an earlier call.
  void prepare() {
    if (lost_) return;
    if (!is_seen_) observe();
    auto const next = steps() + 1;
    choose(controller_, next);
    step_ = next;
    is_prepared_ = true;
  }
  void prepare_step() {
    prepare();
    if (lost_) std::rethrow_exception(lost_);
  }
  void require_intact(char const* name) const {
    if (lost_) detail::require_intact(detail::exchange_phase::failed, name);
  }
  void note_begun() {
    is_prepared_ = false;
    is_begun_ = true;
    begun_rate_ = learning_rate_;
    if (!is_recoverable_) return;
    if (moments_.size() < 2) moments_.push_back({controller_, step_, learning_rate_});
    moments_.back() = moments_.front();
    auto& last = moments_.front();
    last.controller = controller_, last.step = step_, last.learning_rate = learning_rate_;
  }
  /// Reverts note_begun().
  void withdraw() {
    if (lost_) return;
    if (is_begun_ && !moments_.empty()) moments_.erase(moments_.begin());
    is_prepared_ = is_prepared_ || is_begun_;
    is_begun_ = false;
    last_ = clock::now();
  }
  void observe() {
    board_.read(exec_);
    auto const* number = board_.energies_of_all();
    for (std::size_t i = 0; i < reports_.size(); ++i) {
      auto const is_first = i == 0 || reports_[i].tensor != reports_[i - 1].tensor;
      reports_[i].energy = is_first ? *number++ : reports_[i - 1].energy;
      reports_[i].kept = *number++;
    }
    auto const gradients = detail::declares<R, ext::gradient_norms> ? board_.gradients() : span<double const>();
    controller_.observe(
        step_report{step_, begun_rate_, board_.slowest(), {reports_.data(), reports_.size()}, gradients});
    is_seen_ = true;
  }
  choice choice_of(R const& controller, std::uint64_t step, std::uint32_t tensor) const {
    if (!codecs_[tensor].has_rate()) return {};
    auto const decided = controller.decide(step, tensor);
    return {decided, measures_[tensor] ? detail::rates_to_measure(controller, step, tensor) : rate_list()};
  }
  std::vector<choice> choices(R const& controller, std::uint64_t step) const {
    auto all = std::vector<choice>();
    for (std::uint32_t i = 0; i < codecs_.size(); ++i) all.push_back(choice_of(controller, step, i));
    return all;
  }
  std::vector<codec_type> codecs_at(std::vector<choice> const& choices) const {
    auto codecs = codecs_;
    for (std::size_t i = 0; i < codecs.size(); ++i) {
      if (codecs[i].has_rate()) codecs[i] = codecs_[i].measuring(choices[i].measured).at(choices[i].rate);
    }
    return codecs;
  }
  /// The codecs of new choices. A tensor whose choice is unchanged keeps its codec, and so its state.
  std::vector<codec_type> codecs_after(std::vector<choice> const& next) const {
    auto codecs = codecs_at(next);
    for (std::size_t i = 0; i < codecs.size(); ++i) {
      if (next[i] == choices_[i]) codecs[i] = exchange_.codecs()[i];
    }
    return codecs;
  }
  /// Applies the controller's decisions for a step.
  void choose(R const& controller, std::uint64_t step) {
    auto is_new = false;
    for (std::uint32_t i = 0; i < codecs_.size(); ++i)
      is_new = is_new || !(choice_of(controller, step, i) == choices_[i]);
    if (!is_new) return;
    auto next = choices(controller, step);
    auto const codecs = codecs_after(next);
    try {
      exchange_.change(codecs);
    } catch (agreement_error const&) {
      throw;
    } catch (...) {
      lost_ = std::current_exception();
      if (!exchange_.has_failed()) exchange_.change_alone(codecs);  // if it has failed, import_state() sets the codecs
    }
    choices_ = std::move(next);
    place();
  }
  /// Sets the addresses of the measured energies, and makes one report for each measured rate of each tensor.
  void place() {
    auto places = std::vector<double const*>();
    reports_.clear();
    for (std::uint32_t i = 0; i < codecs_.size(); ++i) {
      auto const rates = exchange_.codecs()[i].measured_rates();
      auto const* const energies = exchange_.energies(i);
      for (std::size_t j = 0; energies != nullptr && !rates.empty() && j <= rates.size(); ++j)
        places.push_back(energies + j);
      for (auto const rate : rates) reports_.push_back({i, rate, 0, 0, bytes_at(i, rate)});
    }
    board_.place(exec_, std::move(places));
  }
  std::uint64_t bytes_at(std::uint32_t tensor, double rate) const {
    auto const& dims = exchange_.tensors()[tensor].dims;
    return detail::transfer_of<In>(codecs_[tensor].at(rate), 0, dims, comm_->size()).bytes();
  }

  /// Throws if no codec has a rate, or if the controller needs measurements but no codec measures.
  void require_rates() const {
    auto const has_rate = [](auto const& c) { return c.has_rate(); };
    detail::require(codecs_.empty() || std::ranges::any_of(codecs_, has_rate),
                    "adaptive_exchange: at least one codec must have an adjustable rate: write rated(c), as in ",
                    "error_feedback(rated(top_k(0.1)))");
    auto is_asked = false;
    for (std::uint32_t i = 0; i < codecs_.size(); ++i)
      is_asked = is_asked || !detail::rates_to_measure(controller_, 1, i).empty();
    detail::require(!is_asked || std::ranges::any_of(codecs_, can_measure), "adaptive_exchange: ", controller_.name(),
                    " needs a codec that measures: write rated(c), as in error_feedback(rated(top_k(0.1)))");
  }
  static bool can_measure(codec_type const& codec) { return !codec.measuring({1}).measured_rates().empty(); }
  void require_one_controller() const {
    auto const mine = std::vector(1, (digest() << controller_.name()).value());
    auto const rank = detail::first_difference(detail::gather_on_host(exec_, *comm_, mine), 1).first;
    if (rank != 0)
      throw agreement_error(detail::sentence("adaptive_exchange: rank ", rank,
                                             " differs from rank 0 in the controller: this rank has ",
                                             controller_.name()));
  }

  E exec_;
  Comm* comm_;
  exchange_type exchange_;
  R controller_;
  std::vector<codec_type> codecs_;  ///< the caller's codecs, without the chosen rates
  std::vector<bool> measures_;  ///< whether a tensor's codec measures energies; not if it is lossless for the tensor
  std::vector<choice> choices_;
  detail::step_board<E> board_;
  std::vector<rate_report> reports_;
  std::uint64_t step_ = 0;                     ///< the last step that was prepared
  double learning_rate_ = 0, begun_rate_ = 0;  ///< of later steps; of the last step that has begun
  bool is_seen_ = true;       ///< the controller has observed the last step
  bool is_prepared_ = false;  ///< the rates of the next step have been applied
  bool is_begun_ = false;     ///< a step has begun, and wait() or skip() has not ended it
  bool is_recoverable_;
  std::vector<moment> moments_;  ///< the last two steps that have begun, newest first
  std::exception_ptr lost_;      ///< if not null, no step can begin because of this error
  clock::time_point last_ = clock::now();
};

/// Makes an adaptive_exchange for elements of type In, with a codec policy or one codec.
template <real In, executor E, class Comm, class Policy, class R>
auto make_adaptive_exchange(E const& exec, Comm& comm, std::vector<tensor_spec> tensors, Policy const& policy,
                            R controller, exchange_options const& options = {}) {
  explain_codec_policy<Policy, In, E>();
  explain_controller<R>();
  if constexpr (detail::codec_or_policy<Policy, In, E> && rate_controller<R>)
    return adaptive_exchange<In, E, Comm, R>(exec, comm, std::move(tensors), policy, std::move(controller), options);
}

}}  // namespace pith::PITH_ABI
