// tests/vector_quantize/cublas_product_test.cu — slices times a basis by cuBLAS, on a stream.
#include <pith/vector_quantize/cublas_product.hpp>
#include <pith/vector_quantize/pca.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "support/device.hpp"
#include "support/products.hpp"
#include "support/slices.hpp"

using namespace support;
using pith::cublas_product;
using pith::pca;

namespace {

class own_handle {
 public:
  own_handle() { pith::detail::check_cublas(cublasCreate(&handle_), "cublasCreate"); }
  own_handle(own_handle const&) = delete;
  own_handle& operator=(own_handle const&) = delete;
  ~own_handle() { static_cast<void>(cublasDestroy(handle_)); }

  cublasHandle_t get() const { return handle_; }

 private:
  cublasHandle_t handle_ = nullptr;
};

}  // namespace

TEST_CASE_TEMPLATE("cuBLAS keeps the bound of sums in any order, as our own product does", A, float, double) {
  auto const stream = own_stream();
  auto const handle = own_handle();
  multiplies_all_sizes<A>(pith::on(stream.get()), cublas_product(handle.get()));
  multiplies_all_sizes<A>(pith::on(stream.get()), pith::ordered_product());
}

TEST_CASE_TEMPLATE("slices come back as they do by our own product, but for rounding", In, float, double, pith::half,
                   pith::bfloat16) {
  auto const basis = std::make_shared<pith::pca_basis const>(
      pith::pca_basis::fit(correlated_samples(270, 30, 4, 12), {.components = 7}));
  auto const stream = own_stream();
  auto const handle = own_handle();
  auto const exec = pith::on(stream.get());
  auto const x = narrow<In>(correlated(270, 30, 4, 100));
  auto const decoded = [&](auto const& codec) {
    auto run = execution<In, pith::cuda_executor, std::remove_cvref_t<decltype(codec)>>(exec, codec, {270}, x);
    run.step();
    return widen(run.decoded());
  };
  auto const ours = decoded(pca(basis)), theirs = decoded(pca(basis, cublas_product(handle.get())));
  // A component is a sum of 30 products of |x| below 16 and a unit vector, and U adds 7 of them up; then both are
  // rounded to In.
  auto const bound = 2 * 30 * std::sqrt(30.0) * 16 * std::sqrt(7.0) * roundoff<pith::accum<In>>() + 32 * roundoff<In>();
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(std::abs(ours[i] - theirs[i]) <= bound);
}
