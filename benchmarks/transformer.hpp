// benchmarks/transformer.hpp — the 292 tensors of a transformer; two thirds are vectors.
#pragma once

#include <pith/core/shape.hpp>

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace bench {

/// The shapes of the gradients in the order of the layers: embeddings of words and positions, 24 layers of attention
/// and of a network, each after a normalisation, and a last normalisation. The medium model of the reference, but
/// narrower: the reference's width is 1024.
///
///   reference   Radford et al., Language Models are Unsupervised Multitask Learners, 2019, table 2
inline std::vector<pith::shape> transformer(std::uint64_t width = 256, std::uint64_t words = 8192) {
  auto const w = width;
  auto made = std::vector<pith::shape>{{words * w, words}, {1024 * w, 1024}};
  auto const add = [&](std::initializer_list<pith::shape> more) { made.insert(made.end(), more); };
  for (int layer = 0; layer < 24; ++layer) {
    add({{w}, {w}, {3 * w * w, 3 * w}, {3 * w}, {w * w, w}, {w}});
    add({{w}, {w}, {4 * w * w, 4 * w}, {4 * w}, {4 * w * w, w}, {w}});
  }
  add({{w}, {w}});
  return made;
}

}  // namespace bench
