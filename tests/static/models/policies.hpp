// tests/static/models/policies.hpp — feedback policies: DGC's momentum correction, and EF21. Both run.
#pragma once

#include "declared.hpp"

namespace models {

/// DGC: u = m u + g, v = v + u, v is encoded; what was sent is cleared from both. compensate changes nothing:
/// u follows from p = v + m u + g when it is committed.
class dgc {
 public:
  explicit dgc(double momentum) : momentum_(static_cast<float>(momentum)) {}

  template <executor E>
  struct local {
    pith::buffer<float, E> u, v;
    void fields(pith::field_visitor& f) { f(u), f(v); }
  };

  std::string name() const { return "dgc"; }

  template <real In, executor E>
  local<E> make_local(E const& exec, shape const& dims) const {
    return {{exec, dims.n}, {exec, dims.n}};
  }
  template <real In, executor E>
  void compensate(E const& exec, call const&, shape const& dims, stream_on<E, In const> g, stream_on<E, float> p,
                  local<E> const& mine, workspace_on<E>&) const {
    exec.for_each_index(dims.n, correct<In>{g.data, mine.u.data(), mine.v.data(), p.data, momentum_});
  }
  template <executor E>
  void commit(E const& exec, call const&, shape const& dims, stream_on<E, float const> p,
              stream_on<E, float const> sent, local<E>& mine, workspace_on<E>&) const {
    exec.for_each_index(dims.n, clear_sent{p.data, sent.data, mine.u.data(), mine.v.data()});
  }
  template <executor E>
  void rescale(E const& exec, double factor, local<E>& mine) const {
    for (auto* x : {mine.u.data(), mine.v.data()}) {
      exec.for_each_index(mine.u.size(), pith::detail::scale<float, float>{x, x, static_cast<float>(factor)});
    }
  }

 private:
  template <class In>
  struct correct {
    In const* g;
    float const* u;
    float const* v;
    float* p;
    float momentum;
    PITH_HD void operator()(std::uint64_t i) const {
      p[i] = v[i] + (momentum * u[i] + pith::element_cast<float>(g[i]));
    }
  };
  struct clear_sent {
    float const* p;
    float const* sent;
    float* u;
    float* v;
    PITH_HD void operator()(std::uint64_t i) const {
      auto const kept = sent[i] == 0;
      u[i] = kept ? p[i] - v[i] : 0;
      v[i] = kept ? p[i] : 0;
    }
  };

  float momentum_;
};

/// EF21: the difference to an estimate is encoded. The rank's own estimate is local; their mean is agreed, grows by
/// what all receive, and is what the gradient becomes.
struct ef21 {
  std::string name() const { return "ef21"; }

  template <real In, executor E>
  numbers<float, E> make_agreed(E const& exec, call const&, shape const& dims) const {
    return {{exec, dims.n}};
  }
  template <real In, executor E>
  numbers<float, E> make_local(E const& exec, shape const& dims) const {
    return {{exec, dims.n}};
  }
  template <real In, executor E>
  void compensate(E const& exec, call const&, shape const& dims, stream_on<E, In const> g, stream_on<E, float> p,
                  numbers<float, E> const& mine, workspace_on<E>&) const {
    exec.for_each_index(dims.n, difference<In>{g.data, mine.values.data(), p.data});
  }
  template <executor E>
  void commit(E const& exec, call const&, shape const& dims, stream_on<E, float const>, stream_on<E, float const> sent,
              numbers<float, E>& mine, workspace_on<E>&) const {
    exec.for_each_index(dims.n, pith::detail::add<float, float>{sent.data, mine.values.data()});
  }
  template <executor E>
  void settle(E const& exec, call const&, shape const& dims, stream_on<E, float> mean, numbers<float, E>& agreed,
              numbers<float, E>&, workspace_on<E>&) const {
    exec.for_each_index(dims.n, pith::detail::add<float, float>{mean.data, agreed.values.data()});
    exec.copy(mean.data, agreed.values.data(), agreed.values.size_bytes());
  }
  template <executor E>
  void rescale(E const& exec, double factor, numbers<float, E>& mine) const {
    auto* const x = mine.values.data();
    exec.for_each_index(mine.values.size(), pith::detail::scale<float, float>{x, x, static_cast<float>(factor)});
  }

 private:
  template <class In>
  struct difference {
    In const* g;
    float const* estimate;
    float* p;
    PITH_HD void operator()(std::uint64_t i) const { p[i] = pith::element_cast<float>(g[i]) - estimate[i]; }
  };
};

/// compensate wants to change the state: a round later it would do so again.
struct impatient : ef21 {
  template <real In, executor E>
  void compensate(E const&, call const&, shape const&, stream_on<E, In const>, stream_on<E, float>, numbers<float, E>&,
                  workspace_on<E>&) const;
};

}  // namespace models
