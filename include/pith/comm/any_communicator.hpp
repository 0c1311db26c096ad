// pith/comm/any_communicator.hpp — a type-erased communicator for host executors: one virtual call per collective.
#pragma once

#include <pith/codec/rounds.hpp>
#include <pith/comm/communicator.hpp>
#include <pith/core/team.hpp>
#include <pith/exec/detail/host_memory.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace pith::inline v0 {

namespace detail {

/// The executor that an any_communicator passes to its communicator, which copies bytes with it.
struct communicator_memory : host_memory {
  static constexpr std::uint32_t items_per_block = 512;
  static constexpr char const* name() { return "communicator_memory"; }

  template <class F>
  void for_each_index(std::uint64_t n, F const& f) const {
    for (std::uint64_t i = 0; i < n; ++i) f(i);
  }
  template <class Body>
  void for_each_block(std::uint64_t blocks, Body const& body) const {
    auto memory = typename Body::memory();
    for (std::uint64_t b = 0; b < blocks; ++b) body(lone_thread(), memory, b);
  }
};

/// A request of any type. The request lies inside this object, so a call does not allocate.
class erased_request {
 public:
  template <class R>
    requires(!std::same_as<R, erased_request>)
  erased_request(R request) : self_(new (memory_) model<R>(std::move(request))) {
    static_assert(sizeof(model<R>) <= sizeof memory_ && std::is_nothrow_move_constructible_v<R>,
                  "pith: a request in an any_communicator must have at most 88 bytes, and its move must not throw");
  }
  erased_request(erased_request&& other) noexcept : self_(other.self_->move_to(memory_)) {}
  erased_request& operator=(erased_request&&) = delete;
  ~erased_request() { self_->~base(); }

  template <class E>
  void wait(E const&) {
    self_->wait();
  }
  template <class E>
  bool test(E const&) {
    return self_->test();
  }

 private:
  struct base {
    virtual ~base() = default;
    virtual base* move_to(void* memory) noexcept = 0;
    virtual void wait() = 0;
    virtual bool test() = 0;
  };
  template <class R>
  struct model final : base {
    explicit model(R r) : request(std::move(r)) {}
    base* move_to(void* memory) noexcept override { return new (memory) model(std::move(request)); }
    void wait() override { request.wait(communicator_memory()); }
    bool test() override { return request.test(communicator_memory()); }

    R request;
  };

  alignas(std::max_align_t) std::byte memory_[96];
  base* self_;
};

/// Calls f(span<T>) with the type T of an element_kind.
template <class F>
auto with_elements(element_kind kind, void* data, std::size_t n, F const& f) {
  switch (kind) {
    case element_kind::f32: return f(span<float>(static_cast<float*>(data), n));
    case element_kind::f64: return f(span<double>(static_cast<double*>(data), n));
    case element_kind::f16: return f(span<half>(static_cast<half*>(data), n));
    case element_kind::bf16: return f(span<bfloat16>(static_cast<bfloat16*>(data), n));
    case element_kind::i32: return f(span<std::int32_t>(static_cast<std::int32_t*>(data), n));
    case element_kind::i8: return f(span<std::int8_t>(static_cast<std::int8_t*>(data), n));
    case element_kind::bytes: break;
  }
  throw std::logic_error(sentence("any_communicator: elements of a reduction must be numbers, got bytes"));
}

}  // namespace detail

/// A type-erased communicator for host executors, so that code can be compiled once for all communicators.
///
///   requires    the communicator provides all collectives, and outlives this object unless this object owns it
///   owns        the communicator only if made by owning() or split()
///   complexity  one virtual call per collective. Only the constructor and split() allocate
///   errors      those of the communicator
class any_communicator {
  using exec = detail::communicator_memory;
  using request = detail::erased_request;

 public:
  template <class Comm>
    requires(!std::same_as<Comm, any_communicator> && has_all_collectives<Comm, detail::communicator_memory>)
  explicit any_communicator(Comm& comm) : self_(made<Comm&>([&]() -> Comm& { return comm; })) {}

  /// Owns the communicator that make() returns.
  template <class Make>
    requires has_all_collectives<std::invoke_result_t<Make const&>, detail::communicator_memory>
  static any_communicator owning(Make const& make) {
    return any_communicator(made<std::invoke_result_t<Make const&>>(make));
  }

  unsigned rank() const { return self_->rank(); }
  unsigned size() const { return self_->size(); }

  template <detail::host_executor E>
  request all_gather(E const&, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    return self_->all_gather(mine, all);
  }
  template <detail::host_executor E>
  request all_to_all(E const&, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    return self_->all_to_all(mine, all);
  }
  template <detail::host_executor E>
  request send_recv(E const&, span_on<E, std::byte const> mine, unsigned to, span_on<E, std::byte> theirs,
                    unsigned from) {
    return self_->send_recv(mine, to, theirs, from);
  }
  template <detail::host_executor E, class T>
  request all_reduce(E const&, span<T, host_space> x, reduction how) {
    return self_->all_reduce(kind_of<T>(), x.data(), x.size(), how);
  }
  template <detail::host_executor E, class T>
  request reduce_scatter(E const&, span<std::type_identity_t<T> const, host_space> mine, span<T, host_space> part,
                         reduction how) {
    return self_->reduce_scatter(kind_of<T>(), mine.data(), mine.size(), part.data(), part.size(), how);
  }
  template <detail::host_executor E>
  request broadcast(E const&, span_on<E, std::byte> x, unsigned root) {
    return self_->broadcast(x, root);
  }

  any_communicator split(unsigned colour) { return any_communicator(self_->split(colour)); }

 private:
  struct base {
    virtual ~base() = default;
    virtual unsigned rank() const = 0;
    virtual unsigned size() const = 0;
    virtual request all_gather(span<std::byte const>, span<std::byte>) = 0;
    virtual request all_to_all(span<std::byte const>, span<std::byte>) = 0;
    virtual request send_recv(span<std::byte const>, unsigned to, span<std::byte>, unsigned from) = 0;
    virtual request all_reduce(element_kind, void* x, std::size_t n, reduction) = 0;
    virtual request reduce_scatter(element_kind, void const* mine, std::size_t n, void* part, std::size_t part_n,
                                   reduction) = 0;
    virtual request broadcast(span<std::byte>, unsigned root) = 0;
    virtual std::unique_ptr<base> split(unsigned colour) = 0;
  };

  /// Refers to a communicator, or owns the result of a split.
  template <class Comm>
  struct model final : base {
    template <class Make>
    explicit model(Make const& make) : comm(make()) {}

    unsigned rank() const override { return comm.rank(); }
    unsigned size() const override { return comm.size(); }
    request all_gather(span<std::byte const> mine, span<std::byte> all) override {
      return comm.all_gather(exec(), mine, all);
    }
    request all_to_all(span<std::byte const> mine, span<std::byte> all) override {
      return comm.all_to_all(exec(), mine, all);
    }
    request send_recv(span<std::byte const> mine, unsigned to, span<std::byte> theirs, unsigned from) override {
      return comm.send_recv(exec(), mine, to, theirs, from);
    }
    request all_reduce(element_kind kind, void* x, std::size_t n, reduction how) override {
      return detail::with_elements(kind, x, n,
                                   [&](auto values) -> request { return comm.all_reduce(exec(), values, how); });
    }
    request reduce_scatter(element_kind kind, void const* mine, std::size_t n, void* part, std::size_t part_n,
                           reduction how) override {
      return detail::with_elements(kind, part, part_n, [&]<class T>(span<T> values) -> request {
        return comm.reduce_scatter(exec(), span<T const>(static_cast<T const*>(mine), n), values, how);
      });
    }
    request broadcast(span<std::byte> x, unsigned root) override { return comm.broadcast(exec(), x, root); }
    std::unique_ptr<base> split(unsigned colour) override {
      return made<decltype(comm.split(colour))>([&] { return comm.split(colour); });
    }

    Comm comm;
  };

  template <class Comm, class Make>
  static std::unique_ptr<base> made(Make const& make) {
    return std::make_unique<model<Comm>>(make);
  }
  explicit any_communicator(std::unique_ptr<base> self) : self_(std::move(self)) {}

  std::unique_ptr<base> self_;
};

static_assert(communicator<any_communicator, archetype> && has_all_collectives<any_communicator, archetype>);

}  // namespace pith::inline v0
