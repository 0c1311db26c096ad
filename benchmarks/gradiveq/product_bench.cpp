// benchmarks/gradiveq/product_bench.cpp — slices times a basis, by this library in a fixed order and by a BLAS.
//
//     OPENBLAS_NUM_THREADS=1 LD_LIBRARY_PATH=<where libblas.so.3 is OpenBLAS> product_bench
//
// The input has n numbers in slices of K, with d components each; one thread. The products alternate, and a time is
// the least of seven. ratio: the BLAS's time over ours, so 0.5 means that the BLAS takes half as long. Encoding is
// Z = S U^T, for which blas_product may be used. Decoding is S = Z U and always uses our product; its ratio shows the
// possible gain. off: the relative difference of Z.
#include "difference.hpp"

#include <pith/core/buffer.hpp>
#include <pith/exec/seq.hpp>
#include <pith/vector_quantize/blas_product.hpp>
#include <pith/vector_quantize/pca.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <random>
#include <utility>
#include <vector>

namespace {

template <class A>
std::vector<A> normal(std::size_t n, unsigned seed) {
  auto random = std::mt19937(seed);
  auto draw = std::normal_distribution<A>();
  auto x = std::vector<A>(n);
  for (auto& v : x) v = draw(random);
  return x;
}

template <class F>
void keep_least(double& least, F const& work) {
  auto const start = std::chrono::steady_clock::now();
  work();
  least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

void gemm(int m, int n, int k, float const* a, float const* b, float* c) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, a, k, b, n, 0, c, n);
}
void gemm(int m, int n, int k, double const* a, double const* b, double* c) {
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, a, k, b, n, 0, c, n);
}

/// Buffers and the products of one size.
template <class A>
struct products {
  using sink = pith::detail::slice_sink<A>;

  pith::product_shape size;
  std::vector<A> slices = normal<A>(size.rows * size.columns, 1), basis = normal<A>(size.rank * size.columns, 2);
  std::vector<double> basis_in_double = {basis.begin(), basis.end()};
  std::vector<A> ours = std::vector<A>(size.rows * size.rank), theirs = ours, decoded = slices;
  std::vector<A> offset = std::vector<A>(size.columns);
  pith::buffer<std::byte, pith::seq_executor> scratch = {
      pith::seq, pith::ordered_product().scratch_bytes<A>(size) + pith::detail::scratch_alignment};

  void encode() {
    auto ws = pith::workspace_on<pith::seq_executor>(scratch.view());
    pith::ordered_product().multiply(pith::seq, size, slices.data(), basis_in_double.data(), ours.data(), ws);
  }
  void encode_by_blas() {
    auto ws = pith::workspace_on<pith::seq_executor>(scratch.view());
    pith::blas_product().multiply(pith::seq, size, slices.data(), basis.data(), theirs.data(), ws);
  }
  void decode() {
    auto const to = sink{decoded.data(), decoded.size(), {}, offset.data(), offset.size()};
    auto const body =
        pith::detail::thin_times_thin<sink, A, pith::host_space>{ours.data(), basis_in_double.data(), to, size};
    pith::seq.for_each_block(body.blocks(), body);
  }
  void decode_by_blas() {
    gemm(static_cast<int>(size.rows), static_cast<int>(size.columns), static_cast<int>(size.rank), ours.data(),
         basis.data(), decoded.data());
  }
};

template <class A>
void measure(char const* element, std::uint64_t n, std::uint64_t slice, std::uint64_t components) {
  auto of = products<A>{{n / slice, slice, components}};
  double least[4] = {1e9, 1e9, 1e9, 1e9};
  for (int turn = 0; turn < 7; ++turn) {
    keep_least(least[0], [&] { of.encode(); });
    keep_least(least[1], [&] { of.encode_by_blas(); });
    keep_least(least[2], [&] { of.decode(); });
    keep_least(least[3], [&] { of.decode_by_blas(); });
  }
  std::printf("%-7s%6llu%6llu%9llu%10.2f%9.2f%7.2f%10.2f%9.2f%7.2f%10.1e\n", element,
              static_cast<unsigned long long>(slice), static_cast<unsigned long long>(components),
              static_cast<unsigned long long>(n), 1e3 * least[0], 1e3 * least[1], least[1] / least[0], 1e3 * least[2],
              1e3 * least[3], least[3] / least[2], gradiveq::relative_difference(of.theirs, of.ours));
}

}  // namespace

int main() {
  std::printf("%-7s%6s%6s%9s%10s%9s%7s%10s%9s%7s%10s\n", "", "K", "d", "n", "encode ms", "BLAS", "ratio", "decode ms",
              "BLAS", "ratio", "off");
  for (std::uint64_t const n : {1u << 20, 1u << 22}) {
    for (auto const& [slice, components] : {std::pair{512u, 64u}, {1024u, 64u}, {1024u, 128u}}) {
      measure<float>("float", n, slice, components);
      measure<double>("double", n, slice, components);
    }
  }
}
