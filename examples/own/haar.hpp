// examples/own/haar.hpp — a transform of tiles of 256 elements: a Haar wavelet with four branches per node.
#pragma once

#include <pith/transform/tile_transform.hpp>

struct haar_rule {
  static constexpr bool is_reproducible = true;
  static constexpr std::uint32_t tile = 256;

  template <class Team, class Count, class A>
  PITH_HD void forward(Team const& team, pith::draws const&, std::uint64_t, Count count, A* p) const {
    for (std::uint32_t apart = 1; apart < tile; apart *= 4) rotate(team, count, apart, p);
  }
  template <class Team, class Count, class A>
  PITH_HD void inverse(Team const& team, pith::draws const&, std::uint64_t, Count count, A* p) const {
    for (std::uint32_t apart = tile / 4; apart > 0; apart /= 4) rotate(team, count, apart, p);
  }

 private:
  /// Multiplies elements 0, apart, 2 apart and 3 apart of each run of 4 apart elements by an orthogonal matrix, which is
  /// its own inverse. A normal product with 1/2 is exact, so a fused product and sum has the same bits.
  template <class Team, class A>
  PITH_HD static void rotate(Team const& team, std::uint32_t count, std::uint32_t apart, A* p) {
    team.for_each(count / (4 * apart), [=](std::uint32_t run) {
      auto* const x = p + 4 * apart * run;
      auto const a = x[0] + x[apart], b = x[0] - x[apart];
      auto const c = x[2 * apart] + x[3 * apart], d = x[2 * apart] - x[3 * apart];
      auto const half = static_cast<A>(0.5);
      x[0] = half * (a + c);
      x[apart] = half * (a - c);
      x[2 * apart] = half * (b + d);
      x[3 * apart] = half * (b - d);
    });
  }
};

class haar : public pith::tile_transform<haar_rule> {
 public:
  haar() : tile_transform({}) {}

  std::string name() const { return "haar"; }
};
static_assert(pith::stage<haar, float, pith::archetype> && pith::reproducible<haar>);
