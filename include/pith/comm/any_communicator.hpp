// pith/comm/any_communicator.hpp — a type-erased communicator for host executors.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/core/team.hpp>
#include <pith/core/transfer.hpp>
#include <pith/exec/detail/host_memory.hpp>
#include <pith/exec/isa.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace pith { inline namespace PITH_ABI {

namespace detail {

inline namespace PITH_ISA_NAMESPACE {

/// The executor that an any_communicator passes to its communicator. The communicator copies and adds with this
/// executor.
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
    for (std::uint64_t b = 0; b < blocks; ++b) body(serial_team(), memory, b);
  }
};

}  // namespace PITH_ISA_NAMESPACE

/// A request of any type. The request is stored inside this object, so a call does not allocate. The type of the
/// request is unknown, and some transports may write to the memory of a failed call. So this memory is never freed
/// (lent.hpp).
class erased_request {
 public:
  template <class R, class Exec>
  erased_request(R request, Exec) : self_(new (memory_) model<R, Exec>(std::move(request))) {
    static_assert(
        sizeof(model<R, Exec>) <= sizeof memory_ && alignof(model<R, Exec>) <= alignof(std::max_align_t) &&
            std::is_nothrow_move_constructible_v<R>,
        "pith: a request in an any_communicator must have at most 88 bytes and the alignment of a scalar, and "
        "its move must not throw");
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
  template <class R, class Exec>
  struct model final : base {
    explicit model(R r) : request(std::move(r)) {}
    base* move_to(void* memory) noexcept override { return new (memory) model(std::move(request)); }
    void wait() override { request.wait(Exec()); }
    bool test() override { return request.test(Exec()); }

    R request;
  };

  alignas(std::max_align_t) std::byte memory_[96];
  base* self_;
};

}  // namespace detail

/// A type-erased communicator for host executors, so that code can be compiled once for all communicators.
///
///   requires    a communicator that accepts any host executor. If this object does not own the communicator, the
///               communicator must outlive this object. Requests must end before the communicator is destroyed. A
///               moved-from object must not be used
///   owns        the communicator only if made by owning() or split()
///   complexity  a few virtual calls per collective. Only the constructor, owning() and split() of this class allocate
///   errors      the errors of the communicator. std::logic_error if the communicator lacks the called collective
class any_communicator {
  using request = detail::erased_request;

 public:
  /// Refers to a communicator. Callers must not pass `Exec`. The default of `Exec` lies in a namespace whose name
  /// contains the instruction sets of the source file (exec/isa.hpp).
  template <class Comm, class Exec = detail::communicator_memory>
    requires(!std::same_as<Comm const, any_communicator const>)
  explicit any_communicator(Comm& comm) : self_(made<Comm&, Exec>([&]() -> Comm& { return comm; })) {}

  /// Owns the communicator that make() returns.
  template <class Make, class Comm = std::invoke_result_t<Make const&>, class Exec = detail::communicator_memory>
    requires(!std::is_reference_v<Comm>)
  static any_communicator owning(Make const& make) { return any_communicator(made<Comm, Exec>(make)); }

  unsigned rank() const { return self_->rank(); }
  unsigned size() const { return self_->size(); }
  /// The optional calls of the communicator.
  pith::optional_calls optional_calls() const { return self_->optional_calls(); }
  /// Throws std::invalid_argument if only the main thread may call the communicator.
  void require_thread_support() const { self_->require_thread_support(); }

  template <detail::host_executor E>
  request all_gather(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    exec.wait();
    return self_->all_gather(mine, all);
  }
  template <detail::host_executor E>
  request all_to_all(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    exec.wait();
    return self_->all_to_all(mine, all);
  }
  template <detail::host_executor E>
  request send_recv(E const& exec, span_on<E, std::byte const> mine, unsigned to, span_on<E, std::byte> theirs,
                    unsigned from) {
    exec.wait();
    return self_->send_recv(mine, to, theirs, from);
  }
  template <detail::host_executor E, class T>
  request all_reduce(E const& exec, span<T, host_space> x, reduction how) {
    exec.wait();
    return self_->all_reduce(kind_of<T>(), x.data(), x.size(), how);
  }
  template <detail::host_executor E, class T>
  request reduce_scatter(E const& exec, span<std::type_identity_t<T> const, host_space> mine, span<T, host_space> part,
                         reduction how) {
    exec.wait();
    return self_->reduce_scatter(kind_of<T>(), mine.data(), mine.size(), part.data(), part.size(), how);
  }
  template <detail::host_executor E>
  request broadcast(E const& exec, span_on<E, std::byte> x, unsigned root) {
    exec.wait();
    return self_->broadcast(x, root);
  }

  any_communicator split(unsigned color) { return any_communicator(self_->split(color)); }

 private:
  struct base {
    virtual ~base() = default;
    virtual unsigned rank() const = 0;
    virtual unsigned size() const = 0;
    virtual pith::optional_calls optional_calls() const = 0;
    virtual void require_thread_support() const = 0;
    virtual request all_gather(span<std::byte const>, span<std::byte>) = 0;
    virtual request all_to_all(span<std::byte const>, span<std::byte>) = 0;
    virtual request send_recv(span<std::byte const>, unsigned to, span<std::byte>, unsigned from) = 0;
    virtual request all_reduce(element_kind, void* x, std::size_t n, reduction) = 0;
    virtual request reduce_scatter(element_kind, void const* mine, std::size_t n, void* part, std::size_t part_n,
                                   reduction) = 0;
    virtual request broadcast(span<std::byte>, unsigned root) = 0;
    virtual std::unique_ptr<base> split(unsigned color) = 0;
  };

  /// Contains a reference to a communicator, or a communicator.
  template <class Comm, class Exec>
  struct model final : base {
    using type = std::remove_reference_t<Comm>;

    template <class Make>
    explicit model(Make const& make) : comm(make()) {}

    unsigned rank() const override { return comm.rank(); }
    unsigned size() const override { return comm.size(); }
    pith::optional_calls optional_calls() const override { return detail::optional_calls_of<Exec>(comm); }
    void require_thread_support() const override {
      if constexpr (detail::has_thread_check<type>) comm.require_thread_support();
    }
    request all_gather(span<std::byte const> mine, span<std::byte> all) override {
      return {comm.all_gather(Exec(), mine, all), Exec()};
    }
    request all_to_all(span<std::byte const> mine, span<std::byte> all) override {
      if constexpr (calls_of<type, Exec>.all_to_all) return {comm.all_to_all(Exec(), mine, all), Exec()};
      throw_lacking("all_to_all");
    }
    request send_recv(span<std::byte const> mine, unsigned to, span<std::byte> theirs, unsigned from) override {
      if constexpr (calls_of<type, Exec>.send_recv) return {comm.send_recv(Exec(), mine, to, theirs, from), Exec()};
      throw_lacking("send_recv");
    }
    request all_reduce(element_kind kind, void* x, std::size_t n, reduction how) override {
      return detail::with_elements<host_space>(kind, x, n, [&](auto values) -> request {
        return {comm.all_reduce(Exec(), values, how), Exec()};
      });
    }
    request reduce_scatter(element_kind kind, void const* mine, std::size_t n, void* part, std::size_t part_n,
                           reduction how) override {
      if constexpr (calls_of<type, Exec>.reduce_scatter) {
        return detail::with_elements<host_space>(kind, part, part_n, [&]<class T>(span<T> values) -> request {
          return {comm.reduce_scatter(Exec(), span<T const>(static_cast<T const*>(mine), n), values, how), Exec()};
        });
      }
      throw_lacking("reduce_scatter");
    }
    request broadcast(span<std::byte> x, unsigned root) override {
      if constexpr (calls_of<type, Exec>.broadcast) return {comm.broadcast(Exec(), x, root), Exec()};
      throw_lacking("broadcast");
    }
    std::unique_ptr<base> split(unsigned color) override {
      if constexpr (calls_of<type, Exec>.split) {
        return made<decltype(comm.split(color)), Exec>([&] { return comm.split(color); });
      } else {
        throw_lacking("split");
      }
    }

    [[noreturn]] static void throw_lacking(char const* collective) {
      throw std::logic_error(detail::sentence("any_communicator: the communicator must have ", collective));
    }

    Comm comm;
  };

  template <class Comm, class Exec, class Make>
  static std::unique_ptr<base> made(Make const& make) {
    explain_communicator<std::remove_reference_t<Comm>, Exec>();
    return std::make_unique<model<Comm, Exec>>(make);
  }
  explicit any_communicator(std::unique_ptr<base> self) : self_(std::move(self)) {}

  std::unique_ptr<base> self_;
};

static_assert(communicator<any_communicator, archetype> &&
              calls_of<any_communicator, archetype> == optional_calls::all());

}}  // namespace pith::PITH_ABI
