// pith/feedback/any_feedback.hpp — a feedback policy whose type is known only at run time.
#pragma once

#include <pith/codec/any_stage.hpp>
#include <pith/feedback/detail/policy_check.hpp>
#include <pith/feedback/feedback.hpp>

#include <memory>
#include <string>
#include <utility>

namespace pith { inline namespace PITH_ABI {

/// A type-erased feedback policy for gradients of type `In` on executor `E`. The functions of a type-erased policy
/// always run in separate passes, never in one pass with a codec.
template <real In, executor E>
class any_feedback {
  using A = accum<In>;

 public:
  template <class F>
    requires(!std::same_as<F, any_feedback> && feedback<F, In, E>)
  any_feedback(F policy) : self_(std::make_shared<model<F>>(std::move(policy))) { detail::explain_policy<F>(); }

  std::string name() const { return self_->name(); }
  feedback_traits traits() const { return self_->traits(); }

  template <std::same_as<In> T>
  any_state make_replicated(E const& exec, encoding_id const& id, shape const& dims) const {
    return self_->make_replicated(exec, id, dims);
  }
  template <std::same_as<In> T>
  any_state make_local(E const& exec, shape const& dims) const {
    return self_->make_local(exec, dims);
  }
  template <std::same_as<In> T>
  std::size_t scratch_bytes(E const& exec, shape const& dims) const {
    return self_->scratch_bytes(exec, dims);
  }

  void compensate(context<In, E> const& cx, values_on<E, In const> g, values_on<E, A> p, any_state const& local) const {
    self_->compensate(cx, g, p, local);
  }
  void update(context<In, E> const& cx, values_on<E, A const> p, values_on<E, A const> sent, any_state& local) const {
    self_->update(cx, p, sent, local);
  }
  void after_exchange(context<In, E> const& cx, values_on<E, A> mean, any_state& replicated, any_state& local) const {
    self_->after_exchange(cx, mean, replicated, local);
  }
  void add_unsent(context<In, E> const& cx, values_on<E, A> unsent, any_state& local) const {
    self_->add_unsent(cx, unsent, local);
  }
  void rescale(E const& exec, double factor, any_state& replicated, any_state& local) const {
    self_->rescale(exec, factor, replicated, local);
  }
  double unit() const { return self_->unit(); }
  void visit_feedback(detail::feedback_scope const& at, any_state& replicated, any_state& local,
                      detail::feedback_places<A>& places) const {
    self_->visit_feedback(at, replicated, local, places);
  }

 private:
  struct base {
    virtual ~base() = default;
    virtual std::string name() const = 0;
    virtual feedback_traits traits() const = 0;
    virtual any_state make_replicated(E const&, encoding_id const&, shape const&) const = 0;
    virtual any_state make_local(E const&, shape const&) const = 0;
    virtual std::size_t scratch_bytes(E const&, shape const&) const = 0;
    virtual void compensate(context<In, E> const&, values_on<E, In const>, values_on<E, A>, any_state const&) const = 0;
    virtual void update(context<In, E> const&, values_on<E, A const>, values_on<E, A const>, any_state&) const = 0;
    virtual void after_exchange(context<In, E> const&, values_on<E, A>, any_state&, any_state&) const = 0;
    virtual void add_unsent(context<In, E> const&, values_on<E, A>, any_state&) const = 0;
    virtual void rescale(E const&, double, any_state&, any_state&) const = 0;
    virtual double unit() const = 0;
    virtual void visit_feedback(detail::feedback_scope const&, any_state&, any_state&,
                                detail::feedback_places<A>&) const = 0;
  };

  template <class F>
  struct model final : base {
    using replicated = replicated_of<F, In, E>;
    using local = local_of<F, In, E>;

    explicit model(F f) : policy(std::move(f)) {}

    std::string name() const override { return policy.name(); }
    feedback_traits traits() const override { return detail::feedback_traits_of(policy); }
    any_state make_replicated(E const& exec, encoding_id const& id, shape const& dims) const override {
      return any_state(pith::make_replicated<In>(exec, policy, id, dims));
    }
    any_state make_local(E const& exec, shape const& dims) const override {
      return any_state(pith::make_local<In>(exec, policy, dims));
    }
    std::size_t scratch_bytes(E const& exec, shape const& dims) const override {
      return detail::policy_scratch_bytes<In>(policy, exec, dims);
    }

    void compensate(context<In, E> const& cx, values_on<E, In const> g, values_on<E, A> p,
                    any_state const& l) const override {
      policy.compensate(cx, g, p, l.as<local>());
    }
    void update(context<In, E> const& cx, values_on<E, A const> p, values_on<E, A const> sent,
                any_state& l) const override {
      policy.update(cx, p, sent, l.as<local>());
    }
    void after_exchange(context<In, E> const& cx, values_on<E, A> mean, any_state& a, any_state& l) const override {
      if constexpr (detail::has_after_exchange<F, In, E>) {
        policy.after_exchange(cx, mean, a.as<replicated>(), l.as<local>());
      }
    }
    void add_unsent(context<In, E> const& cx, values_on<E, A> unsent, any_state& l) const override {
      if constexpr (detail::adds_unsent<F, In, E>) policy.add_unsent(cx, unsent, l.as<local>());
    }
    void rescale(E const& exec, double factor, any_state& a, any_state& l) const override {
      policy.rescale(exec, factor, a.as<replicated>(), l.as<local>());
    }
    double unit() const override { return detail::unit_of(policy); }
    void visit_feedback(detail::feedback_scope const& at, any_state& a, any_state& l,
                        detail::feedback_places<A>& places) const override {
      detail::append_places(policy, at, a.as<replicated>(), l.as<local>(), places);
    }

    F policy;
  };

  std::shared_ptr<base const> self_;
};

}}  // namespace pith::PITH_ABI
