// pith/exchange/detail/exchange_pipeline.hpp — the schedule of all buckets' rounds, with computation during transfers.
#pragma once

#include <pith/comm/detail/call_label.hpp>
#include <pith/comm/sub_communicators.hpp>
#include <pith/comm/trace.hpp>
#include <pith/exchange/detail/backoff.hpp>
#include <pith/exchange/detail/bucket_fit.hpp>
#include <pith/exchange/detail/bucket_rounds.hpp>
#include <pith/exchange/detail/buckets.hpp>
#include <pith/exchange/detail/exchanged_tensors.hpp>
#include <pith/exchange/detail/move_bytes.hpp>
#include <pith/exchange/detail/pending_transfers.hpp>
#include <pith/exchange/detail/rank_weights.hpp>
#include <pith/exchange/detail/report_sums.hpp>
#include <pith/exchange/detail/state_check.hpp>
#include <pith/exchange/detail/state_copies.hpp>
#include <pith/exchange/exchange_options.hpp>
#include <pith/exchange/messages.hpp>
#include <pith/exchange/traffic.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Runs the rounds of all buckets. The schedule is equal on all ranks and does not depend on the order in which
/// gradients become ready. During the transfer of a round, the previous round is absorbed. The next round is also
/// produced during the transfer, if its gradients are ready and it does not need the received data. At most two rounds
/// use buffers at the same time. One thread runs the pipeline. On a device, the stream waits for a transfer only when
/// the next round starts, so other work of the stream overlaps the transfer.
template <real In, executor E, class Comm>
class exchange_pipeline {
 public:
  using tensors = exchanged_tensors<In, E>;

  exchange_pipeline(E const& exec, Comm& comm, tensors all, exchange_options const& o)
      : exec_(exec),
        comms_(comm),
        tensors_(std::move(all)),
        log_(o.trace),
        verification_(o.verification),
        gather_mode_(o.gather_mode) {
    require_all_served(tensors_.codecs());
    for (auto const& t : tensors_.specs()) bytes_.push_back(t.dims.n * sizeof(In));
    limits_ = tensors_.limits(o.bucket_bytes);
    set_layout(tensors_.layout(o.bucket_bytes));
    if (o.gather_mode == gather::predicted) tensors_.predict(exec_);
    if (o.is_recoverable) copies_.emplace().fit(exec_, tensors_);
    if (o.is_weighted) tensors_.weigh_by(weights_.emplace(exec_, comms_.size()));
  }

  tensors& model() { return tensors_; }
  Comm& comm() { return comms_.all(); }

  /// The number of the exchange in the labels of its calls.
  std::uint32_t number() const { return number_; }
  void set_number(std::uint32_t number) { number_ = number; }

  /// A change of codecs has two parts. prepare() makes the new states, and throws if a codec is wrong. apply() sets the
  /// codecs and states for the next steps.
  typename tensors::change prepare(std::vector<any_codec<In, E>> codecs) const {
    require_all_served(codecs);
    return tensors_.prepare(exec_, std::move(codecs));
  }
  void apply(typename tensors::change next) {
    is_planned_ = false;
    tensors_.apply(exec_, std::move(next));
    if (copies_) copies_->fit(exec_, tensors_);
    plan();
  }

  std::size_t buckets() const { return buckets_.size(); }
  bucket_list const& layout() const { return layout_; }
  /// Sets the tensor buckets for the next steps.
  void set_layout(bucket_list layout) {
    layout_ = std::move(layout);
    plan();
  }
  /// False from the beginning of a change of codecs or buckets until connect() returns. If the change throws, no step
  /// may begin before another plan() and connect().
  bool is_planned() const { return is_planned_; }
  /// Plans the rounds of all buckets for the current codecs.
  void plan() {
    is_planned_ = false;
    buckets_.clear();
    schedule_.clear();
    for (auto const& b : layout_) buckets_.emplace_back(exec_, tensors_, b, gather_mode_);
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      for (unsigned r = 0; r < buckets_[b].rounds(); ++r) schedule_.push_back({b, r});
    }
    if (lanes_.size() < schedule_.size()) lanes_.resize(schedule_.size());
    log_.set_layout(buckets_.size());
    make_memory();
    gathered_bytes_ = sent_bytes(transport::all_gather);
  }
  /// Computes buckets whose last transfer ends early. `times` must be equal on all ranks.
  bucket_list fit(std::vector<tensor_times> times) const {
    tensors_.groups().join(times);
    return tensors_.groups().kept_together(fit_buckets(times, bytes_, limits_));
  }

  /// The seconds that each tensor bucket took in the last step.
  std::vector<bucket_seconds> const& seconds() const { return log_.seconds(); }

  /// Makes the sub-communicators that the transfers need. All ranks call this function after they have agreed on their
  /// tensors.
  void connect() {
    for (auto const& b : buckets_) b.connect(comms_);
    is_planned_ = true;
  }

  /// The sum of exchange_plan::sent_bytes over all buckets.
  std::size_t sent_bytes(transport how, std::optional<subgroup> among = {}) const {
    std::size_t bytes = 0;
    for (auto const& b : buckets_) bytes += b.plan().sent_bytes(how, among);
    return bytes;
  }
  /// The numbers of bytes that a rank passes to its communicator in a step, for all kinds of transfer.
  pith::traffic traffic(std::optional<subgroup> among = {}) const {
    auto const of = [&](transport how) { return sent_bytes(how, among); };
    return {of(transport::all_gather), of(transport::all_reduce_sum) + of(transport::all_reduce_max),
            of(transport::all_to_all) + of(transport::all_reduce_mean),
            of(transport::pairwise) + of(transport::ring_shift)};
  }
  /// For each tensor, the number of bytes that a rank's network interface sent in the last step, padding included. With
  /// gather::exact, the bytes of payloads that vary in size are divided among their tensors in proportion to the
  /// payloads' capacities.
  std::vector<double> wire_bytes() const {
    auto each = std::vector<double>(bytes_.size());
    auto const varies = varying_tensors();
    auto const used = used_share(varies);
    for_each_group([&](auto const& g) { add_wire_bytes(g, used, varies, each); });
    return each;
  }
  /// The number of bytes that this rank passed to all-gathers in the last step. Before the first step, returns the
  /// largest possible number.
  std::size_t gathered_bytes() const { return gathered_bytes_; }

  void begin_step(double weight) {
    next_ = absorbed_ = 0;
    own_weight_ = weight;
    ++begun_;
  }
  /// All ranks import states. Counts the begun steps from zero again. The next step compares the ranks' steps.
  void note_import() {
    begun_ = 0;
    is_imported_ = true;
    gathered_bytes_ = sent_bytes(transport::all_gather);  // a failed step may have added only some payloads
  }
  /// Whether a round of the current step has begun. The first round changes states.
  bool has_begun() const { return next_ > 0; }
  /// Runs rounds as long as is_there(bucket) returns true, which means that the bucket's gradients are ready. Returns
  /// whether the step is complete.
  template <class IsThere>
  bool advance(ready_buckets const& ready, IsThere const& is_there) {
    auto const environment = default_float_environment();
    auto ws = workspace_on<E>(scratch_.view());
    for (; next_ < schedule_.size(); ++next_) {
      auto const bucket = schedule_[next_].bucket;
      if constexpr (host_executor<E>) wait_until(bucket, ready, ws);
      if (!is_there(bucket)) return false;
      if (next_ == 0) prepare();
      run_round(next_, ws);
    }
    complete_pending(ws);
    tensors_.end_step(exec_);
    return true;
  }
  /// Abandons the pending transfers after an error. The transport may use the pipeline's memory until the program ends.
  void abandon() {
    is_lent_ = !returns_memory<any_request<Comm, E>>;
    transfers_.clear();
  }
  /// Waits for the pending transfers. If the wait throws, abandons the transfers.
  void drain() {
    try {
      transfers_.wait(exec_);
    } catch (...) {
      abandon();
    }
  }
  bool is_lent() const { return is_lent_; }

  /// Copies of the states, made before each of the last two steps; empty without exchange_options::is_recoverable.
  auto& copies() { return copies_; }

 private:
  struct place {
    std::size_t bucket;
    unsigned round;
  };

  struct round_lanes {
    lanes<E> produced, absorbed;
  };

  void require_all_served(std::vector<any_codec<In, E>> const& codecs) const {
    auto const& specs = tensors_.specs();
    for (std::size_t i = 0; i < specs.size(); ++i)
      require_served<In, E>("gradient_exchange", comms_.all(), codecs[i], specs[i].dims);
  }

  /// Replaces each buffer that is too small with a larger one.
  void make_memory() {
    std::size_t out = 0, gathered = 0, scratch = 0, transfers = 0;
    for (auto const& b : buckets_) {
      out = std::max(out, b.plan().out_bytes());
      gathered = std::max(gathered, b.plan().gathered_bytes());
      scratch = std::max(scratch, b.scratch_bytes(exec_, tensors_));
      for (auto const& r : b.plan().rounds()) transfers = std::max(transfers, r.size());
    }
    memories_ = 1;
    for (std::size_t k = 1; k < schedule_.size(); ++k) memories_ = builds_on_last(k) ? memories_ : memory_.size();
    for (std::size_t i = 0; i < memories_; ++i) {
      memory_[i].out.grow(exec_, out);
      memory_[i].gathered.grow(exec_, gathered);
      memory_[i].received.grow(exec_, gather_mode_ == gather::exact ? gathered : 0);
    }
    scratch_.grow(exec_, scratch + scratch_alignment);
    transfers_.reserve(transfers);
  }
  /// Whether each tensor's payload varies in size.
  std::vector<bool> varying_tensors() const {
    auto varies = std::vector<bool>();
    for (std::size_t i = 0; i < bytes_.size(); ++i)
      varies.push_back(!counts_of<In>(tensors_.codecs()[i], tensors_.specs()[i].dims).empty());
    return varies;
  }
  template <class F>
  void for_each_group(F const& f) const {
    for (auto const& b : buckets_) {
      for (auto const& r : b.plan().rounds()) {
        for (auto const& g : r) f(g);
      }
    }
  }
  /// The share that the last step sent of the capacities of payloads that vary in size. All other payloads have equal
  /// numbers of bytes in every step.
  double used_share(std::vector<bool> const& varies) const {
    std::size_t varying = 0;
    for_each_group([&](exchange_plan::group const& g) {
      for (auto const& s : g.slots)
        varying += g.is_gathered() && varies[s.tensor] ? align_up(s.bytes, section_alignment) : 0;
    });
    auto const fixed = sent_bytes(transport::all_gather) - varying;
    return share(static_cast<double>(std::max(gathered_bytes_, fixed) - fixed), static_cast<double>(varying));
  }
  static void add_wire_bytes(exchange_plan::group const& g, double used, std::vector<bool> const& varies,
                             std::vector<double>& each) {
    if (g.completes_mean()) return;  // messages_of(transport::all_reduce_mean) counts both transfers
    std::size_t all = 0;
    for (auto const& s : g.slots) all += align_up(s.bytes, section_alignment);
    auto const sent = messages_of(g.how, static_cast<double>(g.bytes), g.ranks, g.among);
    auto const per_byte = sent.count * share(sent.bytes, static_cast<double>(all));
    for (auto const& s : g.slots) {
      auto const factor = g.is_gathered() && varies[s.tensor] ? used : 1;
      each[s.tensor] += factor * per_byte * static_cast<double>(align_up(s.bytes, section_alignment));
    }
  }

  void prepare() {
    log_.begin_step();
    if (copies_) copies_->take(exec_, tensors_);
    if ((verification_ == verify::each_step || is_imported_) && !exec_.is_capturing()) compare_states();
    if (weights_) agree_on_weights();
    tensors_.begin_step(exec_);
    for (auto& b : buckets_) b.begin_step(tensors_);
    gathered_bytes_ = 0;
  }

  /// After an import, compares no replicated states: after all-reduces that differ in last bits, they may differ.
  void compare_states() {
    auto const how = verification_ == verify::each_step ? compared::states : compared::steps;
    require_equal_states(exec_, comms_.all(), tensors_, number_, begun_, how);
    is_imported_ = false;
  }

  void agree_on_weights() {
    auto const by = calling({caller::step, number_, 0});
    weights_->agree(exec_, comms_.all(), own_weight_, is_narrow(kind_of<In>()));
  }

  void run_round(std::size_t k, workspace_on<E>& ws) {
    if (builds_on_last(k)) complete_pending(ws);
    produce(k, ws);
    transfers_.wait(exec_);
    start(k);
    absorb_until(k, ws);
  }
  /// Waits until a bucket's gradients are ready or the pending transfers are complete. If the gradients are not ready
  /// after this wait, absorbs the round of the transfers.
  void wait_until(std::size_t bucket, ready_buckets const& ready, workspace_on<E>& ws) {
    auto naps = backoff();
    while (!transfers_.test(exec_) && !ready.is_ready_within(naps.next(), bucket)) {
    }
    if (!ready.has(bucket)) complete_pending(ws);
  }
  /// Waits for the pending transfers and absorbs their round.
  void complete_pending(workspace_on<E>& ws) {
    transfers_.wait(exec_);
    absorb_until(next_, ws);
  }
  bool builds_on_last(std::size_t k) const {
    auto const [bucket, round] = schedule_[k];
    return round > 0 && !buckets_[bucket].is_deep();
  }

  void produce(std::size_t k, workspace_on<E>& ws) {
    auto const [bucket, round] = schedule_[k];
    auto const time = traced(&log_, exchange_trace::work::encode, bucket, round);
    buckets_[bucket].produce(exec_, tensors_, round, memory(k), lanes_[k].produced, ws, transfers_);
  }
  void start(std::size_t k) {
    auto const [bucket, round] = schedule_[k];
    auto const by = calling({caller::step, number_, static_cast<std::uint32_t>(k + 1)});
    transfers_.start(traced(&log_, exchange_trace::work::transfer, bucket, round));
    gathered_bytes_ += buckets_[bucket].start(exec_, comms_, round, memory(k), transfers_);
    transfers_.test(exec_);  // ends the traced time if the transfers are already complete
  }
  void absorb_until(std::size_t end, workspace_on<E>& ws) {
    for (; absorbed_ < end; ++absorbed_) {
      auto const [bucket, round] = schedule_[absorbed_];
      auto const time = traced(&log_, exchange_trace::work::decode, bucket, round);
      buckets_[bucket].absorb(exec_, tensors_, round, memory(absorbed_), lanes_[absorbed_].absorbed, ws, transfers_);
    }
  }
  /// The memory of round k. Successive rounds alternate between two areas. If every round depends on the previous
  /// round, all rounds use one area.
  round_memory<E> const& memory(std::size_t k) const { return memory_[k % memories_]; }

  E exec_;
  sub_communicators<Comm> comms_;
  std::uint32_t number_ = 0;
  std::uint64_t begun_ = 0;   ///< the steps that this rank has begun, skipped ones included
  bool is_planned_ = false;
  bool is_imported_ = false;  ///< states were imported, and the ranks' steps were not compared since
  tensors tensors_;
  span_log log_;
  verify verification_;
  gather gather_mode_;
  std::optional<state_copies<In, E>> copies_;
  std::optional<rank_weights<E>> weights_;
  double own_weight_ = 1;
  std::vector<std::size_t> bytes_;  ///< size of each tensor's gradient
  bucket_limits limits_;
  bucket_list layout_;
  std::vector<bucket_rounds<In, E, Comm>> buckets_;
  std::vector<place> schedule_;
  std::vector<round_lanes> lanes_;  ///< at least one for each round of the schedule
  std::array<round_memory<E>, 2> memory_;
  std::size_t memories_ = 1;  ///< the number of used elements of memory_
  buffer<std::byte, E> scratch_;
  std::size_t next_ = 0, absorbed_ = 0;  ///< indices into schedule_
  std::size_t gathered_bytes_ = 0;
  bool is_lent_ = false;
  pending_transfers<Comm, E> transfers_;  // declared last, so that it is destroyed before its memory
};

}}}  // namespace pith::PITH_ABI::detail
