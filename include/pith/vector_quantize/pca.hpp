// pith/vector_quantize/pca.hpp — projection of slices on a basis that is equal on all ranks; payloads are summable.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/stage.hpp>
#include <pith/core/buffer.hpp>
#include <pith/core/error.hpp>
#include <pith/core/executor.hpp>
#include <pith/core/source.hpp>
#include <pith/lowrank/detail/exact_product.hpp>
#include <pith/lowrank/detail/thin_product.hpp>
#include <pith/vector_quantize/matrix_product.hpp>
#include <pith/vector_quantize/pca_basis.hpp>
#include <pith/vector_quantize/slice_order.hpp>

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Copies the slices of a tensor with n elements to contiguous memory. Converts the elements to accum<In>, and pads the
/// last slice with zeros.
template <class In>
struct gather_slices {
  static constexpr std::uint32_t items_per_block = 512;
  struct memory {};

  In const* x;
  accum<In>* to;
  std::uint64_t n, padded;
  slice_order order;

  PITH_HD std::uint64_t blocks() const { return blocks_for(padded, items_per_block); }

  template <team Team>
  PITH_HD void operator()(Team const& team, memory&, std::uint64_t block) const {
    auto const first = block * items_per_block;
    auto const count = block_size(padded, first, items_per_block), used = first < n ? block_size(n, first, count) : 0;
    auto const* const from = x;
    auto* const out = to + first;
    order.walk(team, first, used,
               [=](std::uint32_t i, std::uint64_t at) { out[i] = element_cast<accum<In>>(from[at]); });
    team.for_each(count - used, [=](std::uint32_t i) { out[used + i] = 0; });
  }
};

/// A sink for decoded slices. The sink adds `offset`, in the unit of the gradients (context::common), to the values, and
/// writes each value to its index in the tensor. The padding of the last slice is not written.
template <class In>
struct slice_sink {
  static constexpr bool takes_blocks = true;

  In* x;
  std::uint64_t n;
  slice_order order;
  accum<In> const* offset;
  std::uint64_t offsets;  ///< the size of `offset`: one slice if all slices share the offset, else all slices
  double const* common;

  template <class Team, class Count>
  PITH_HD void store(Team const& team, std::uint64_t first, Count count, accum<In> const* values) const {
    auto const used = first < n ? block_size(n, first, count) : 0;
    auto* const to = x;
    auto const* const added = offset + first % offsets;
    auto const unit = common == nullptr ? accum<In>{1} : 1 / static_cast<accum<In>>(*common);
    order.walk(team, first, used,
               [=](std::uint32_t i, std::uint64_t at) { to[at] = saturated_cast<In>(values[i] + unit * added[i]); });
  }
};

}  // namespace detail

/// Encodes each slice x of K elements (slice_order.hpp) as z = U^T x, where the columns of U are the d components of
/// the basis (pca_basis.hpp). An all-reduce can sum the vectors z of all ranks. The decoded slice is
/// U z + (1 - U U^T) mu, where mu is the mean that the basis contains for this slice.
///
/// With N ranks, each rank i encodes x_i / N. The sum of U^T (x_i / N) over all ranks is U^T m, where m is the mean of
/// all x_i. So all ranks decode U U^T (m - mu) + mu. This is the projection of m on the affine subspace that contains
/// mu and has the directions of the components. The encoder is linear and does not depend on mu. The decoder adds the
/// part of mu that z cannot represent.
///
///   emits       d values of accum<In> for each of ceil(n / K) slices; the last slice is padded with zeros
///   requires    slices whose norm is below the largest number of accum<In>; a basis that is equal on all ranks, with a
///               slice order for n elements, and with one mean or one mean per slice (std::invalid_argument)
///   state       U in double, and (1 - U U^T) mu in accum<In>. Both are computed from the basis and are not saved
///   complexity  2 d flop per element to encode and to decode, in double; scratch memory of 8 d bytes per slice. If
///               slices are not contiguous in accum<In>, or the last slice is incomplete, one pass copies the slices to
///               additional scratch memory for about n elements. `Product` computes the encoder's product;
///               pca(basis, blas_product()) uses a BLAS library
///   on NaN      a NaN or infinity makes its slice NaN on all ranks. Without error_feedback, half and bfloat16 values
///               are divided by N and rounded before they are encoded. error_feedback converts the values to float
///               first. If the weights of all ranks are 0, the mean is (1 - U U^T) mu
///   properties  affine and summable. There is no delta and no omega, because the error depends on how well the basis
///               fits x. So error feedback requires `unverified`; the part of x outside the affine subspace stays in
///               the residual until the basis changes. As with power_sgd, payloads and decoded values do not depend on
///               the instruction set or the order of blocks. With a library's product, payloads depend on the library,
///               but all ranks still decode equal values
///   reference   Yu, Lin, Narra, Li, Li, Kim, Schwing, Annavaram and Avestimehr, GradiVeQ, NeurIPS 2018. In that paper,
///               each rank subtracts mu / N before it encodes
template <class Product = ordered_product>
class pca : public codec_base {
 public:
  using facets = ext::facets<ext::parts>;

  template <class In>
  using output = accum<In>;

  static constexpr codec_traits traits = {
      .affine = true, .reproducible = reproducible<Product>, .sums = sum_form::decode};

  explicit pca(std::shared_ptr<pca_basis const> basis, Product product = Product())
      : basis_(std::move(basis)), product_(std::move(product)) {
    detail::require(basis_ != nullptr, "pca: basis must not be null");
  }
  explicit pca(pca_basis basis, Product product = Product())
      : pca(std::make_shared<pca_basis const>(std::move(basis)), std::move(product)) {}

  pca_basis const& basis() const { return *basis_; }

  /// The name identifies the payload format and the decoder. The name does not contain the product, because ranks may
  /// use different products.
  std::string name() const {
    return detail::text("pca(", basis_->slice(), ",", basis_->components(), ",", detail::hexadecimal(basis_->digest()),
                        ")");
  }

  /// If an exchange splits a tensor into parts, each part begins at a multiple of `granule()` elements, which is the
  /// start of a slice. Such an exchange throws if the slice order is not memory order, or if there is one mean per
  /// slice.
  std::uint64_t granule() const { return basis_->slice(); }

  shape output_shape(shape const& dims) const {
    auto const& order = basis_->order();
    detail::require(dims.n == 0 || order.fits(dims.n), "pca: the tensor must have ", order.filters(), " x ",
                    order.depth(), " x ", order.window(), " elements, got ", dims.n);
    detail::require(basis_->fits(dims.n), "pca: the tensor must have ", basis_->mean().size() / basis_->slice(),
                    " slices of ", basis_->slice(), " elements, got ", dims.n, " elements");
    return {slices(dims) * basis_->components()};
  }

  /// The basis in the executor's memory. `vectors` is U in double. `offset` is (1 - U U^T) mu. `factor` is a copy of U
  /// with elements of type A. If the product reads U as doubles, `factor` is empty.
  template <class A, executor E>
  struct uploaded {
    buffer<double, E> vectors;
    buffer<A, E> offset, factor;
    void fields(field_visitor&) {}
  };

  template <real In, executor E>
  uploaded<accum<In>, E> make_replicated(E const& exec, encoding_id const&, shape const& dims) const {
    using A = accum<In>;
    static_cast<void>(output_shape(dims));
    if (dims.n == 0) return {};
    auto const vectors = rounded<A>(basis_->vectors());
    auto const offset = offset_of<A>(vectors);
    auto const factor = takes_double<A> ? std::vector<A>() : std::vector<A>(vectors.begin(), vectors.end());
    auto made = uploaded<A, E>{{exec, vectors.size()}, {exec, offset.size()}, {exec, factor.size()}};
    exec.upload(made.vectors.data(), vectors.data(), made.vectors.size_bytes());
    exec.upload(made.offset.data(), offset.data(), made.offset.size_bytes());
    if (!factor.empty()) exec.upload(made.factor.data(), factor.data(), made.factor.size_bytes());
    exec.wait();
    return made;
  }

  template <real In, executor E>
  std::size_t scratch_bytes(E const&, shape const& dims) const {
    auto const size = thin(dims);
    auto const gathered = lies_as<In>(dims) ? 0 : scratch_for<accum<In>>(size.rows * size.columns);
    return gathered + product_.template scratch_bytes<accum<In>>(size);
  }

  template <real In, executor E>
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, accum<In>> y,
              uploaded<accum<In>, E> const& replicated, no_state&) const {
    using A = accum<In>;
    if constexpr (std::same_as<In, A>) {
      if (lies_as<In>(cx.dims)) return multiply(cx, x.data, replicated, y.values.data);
    }
    auto const padded = slices(cx.dims) * basis_->slice();
    auto* const all = cx.ws.template take<A>(padded).data;
    auto const body = detail::gather_slices<In>{x.data, all, cx.dims.n, padded, basis_->order()};
    cx.exec.for_each_block(body.blocks(), body);
    multiply(cx, static_cast<A const*>(all), replicated, y.values.data);
  }

  template <real In, executor E>
  void decode(context<In, E> const& cx, encoded_on<E, accum<In> const> y, values_on<E, In> x,
              uploaded<accum<In>, E> const& replicated) const {
    using sink = detail::slice_sink<In>;
    if (cx.dims.n == 0) return;
    auto const to =
        sink{x.data, cx.dims.n, basis_->order(), replicated.offset.data(), replicated.offset.size(), cx.common};
    auto const body = detail::thin_times_thin<sink, accum<In>, space_of<E>>{y.values.data, replicated.vectors.data(),
                                                                            to, thin(cx.dims)};
    cx.exec.for_each_block(body.blocks(), body);
  }

 private:
  std::uint64_t slices(shape const& dims) const { return basis_->slices(dims.n); }
  detail::thin_shape thin(shape const& dims) const { return {slices(dims), basis_->slice(), basis_->components()}; }

  /// True if the tensor in memory is a matrix of whole slices with elements of type accum<In>, which needs no copy.
  template <class In>
  bool lies_as(shape const& dims) const {
    return std::same_as<In, accum<In>> && basis_->order().is_plain() && dims.n % basis_->slice() == 0;
  }

  template <class A>
  static constexpr bool takes_double = std::same_as<typename Product::template factor<A>, double>;

  template <real In, class E>
  void multiply(context<In, E> const& cx, accum<In> const* all, uploaded<accum<In>, E> const& replicated,
                accum<In>* z) const {
    using A = accum<In>;
    static_assert(matrix_product<Product, A, E>,
                  "pith: pca's product does not multiply such elements on this executor: blas_product is for hosts, "
                  "cublas_product for CUDA streams, ordered_product for all");
    if constexpr (takes_double<A>) {
      product_.multiply(cx.exec, thin(cx.dims), all, replicated.vectors.data(), z, cx.ws);
    } else {
      product_.multiply(cx.exec, thin(cx.dims), all, replicated.factor.data(), z, cx.ws);
    }
  }

  /// Rounds the elements of U to the precision of A. The product of an element and a value of type A is then computed
  /// without rounding.
  template <class A>
  static std::vector<double> rounded(std::vector<double> values) {
    for (auto& v : values) v = static_cast<double>(static_cast<A>(v));
    return values;
  }

  /// Computes (1 - U U^T) mu for each mean mu of the basis.
  template <class A>
  std::vector<A> offset_of(std::vector<double> const& vectors) const {
    auto const size = basis_->slice();
    auto offset = basis_->mean();
    for (std::size_t s = 0; s < offset.size(); s += size) {
      auto const* const mean = basis_->mean().data() + s;
      for (std::size_t k = 0; k < vectors.size(); k += size) {
        auto const* const u = vectors.data() + k;
        double along = 0;
        for (std::size_t i = 0; i < size; ++i) along = detail::add_product<double>(along, u[i], mean[i]);
        for (std::size_t i = 0; i < size; ++i) offset[s + i] = detail::add_product<double>(offset[s + i], -along, u[i]);
      }
    }
    return {offset.begin(), offset.end()};
  }

  std::shared_ptr<pca_basis const> basis_;
  [[no_unique_address]] Product product_;
};

static_assert(stage<pca<>, float, archetype> && reproducible<pca<>>);
static_assert(!promises_of<pca<>>.contractive && !promises_of<pca<>>.unbiased);

}}  // namespace pith::PITH_ABI
