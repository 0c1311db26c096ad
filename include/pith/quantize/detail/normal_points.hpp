// pith/quantize/detail/normal_points.hpp — the points of the quantizers with the least squared error for N(0, 1).
#pragma once

#include <pith/config.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The positive points of the quantizer with `Bits` bits, in ascending order. The negative points have the same
/// magnitudes. Each point is the mean of the values that are rounded to it (Lloyd 1982, Max 1960), to 7 decimals.
template <int Bits>
struct normal_points {
  static constexpr std::uint32_t count = 1u << (Bits - 1);

  float at[count];
};

template <int Bits>
PITH_HD constexpr normal_points<Bits> make_normal_points() {
  constexpr float points[] = {
      0.7978846f, 0.45278f,   1.5104176f, 0.2450942f, 0.7560053f, 1.3439093f, 2.1519457f, 0.128395f,  0.3880483f,
      0.6567591f, 0.9423405f, 1.2562312f, 1.6180464f, 2.0690172f, 2.7325896f, 0.0658897f, 0.1980518f, 0.3313783f,
      0.4666995f, 0.6049336f, 0.7471357f, 0.8945651f, 1.0487833f, 1.2118044f, 1.3863403f, 1.5762281f, 1.7872332f,
      2.0287284f, 2.3177394f, 2.6911196f, 3.2607325f, 0.0334095f, 0.1002783f, 0.1672969f, 0.234567f,  0.3021928f,
      0.3702826f, 0.4389497f, 0.5083138f, 0.578503f,  0.6496556f, 0.7219219f, 0.7954677f, 0.8704766f, 0.9471549f,
      1.0257363f, 1.1064882f, 1.1897201f, 1.2757945f, 1.365141f,  1.4582764f, 1.5558312f, 1.6585889f, 1.7675419f,
      1.8839772f, 2.009611f,  2.1468102f, 2.2989812f, 2.4713048f, 2.6722738f, 2.9174068f, 3.2404371f, 3.7441013f,
      0.0168282f, 0.0504909f, 0.0841726f, 0.1178863f, 0.1516446f, 0.1854607f, 0.2193476f, 0.2533187f, 0.2873876f,
      0.3215679f, 0.355874f,  0.3903203f, 0.4249216f, 0.4596934f, 0.4946515f, 0.5298122f, 0.5651927f, 0.6008105f,
      0.6366843f, 0.6728333f, 0.7092778f, 0.7460391f, 0.7831396f, 0.820603f,  0.8584542f, 0.89672f,   0.9354285f,
      0.97461f,   1.0142967f, 1.0545232f, 1.0953267f, 1.1367474f, 1.1788286f, 1.2216174f, 1.2651651f, 1.3095276f,
      1.3547663f, 1.4009486f, 1.4481489f, 1.49645f,   1.5459437f, 1.5967331f, 1.6489339f, 1.702677f,  1.7581114f,
      1.8154077f, 1.8747625f, 1.9364046f, 2.0006018f, 2.0676715f, 2.1379934f, 2.2120275f, 2.2903392f, 2.3736343f,
      2.4628114f, 2.5590405f, 2.6638865f, 2.7795143f, 2.9090471f, 3.0572462f, 3.2319332f, 3.4474303f, 3.7349366f,
      4.1896942f, 0.0084462f, 0.0253394f, 0.042235f,  0.0591346f, 0.0760399f, 0.0929524f, 0.1098737f, 0.1268056f,
      0.1437496f, 0.1607073f, 0.1776805f, 0.1946707f, 0.2116798f, 0.2287092f, 0.2457608f, 0.2628362f, 0.2799372f,
      0.2970656f, 0.314223f,  0.3314114f, 0.3486324f, 0.365888f,  0.38318f,   0.4005102f, 0.4178806f, 0.4352932f,
      0.4527499f, 0.4702527f, 0.4878036f, 0.5054048f, 0.5230583f, 0.5407663f, 0.558531f,  0.5763547f, 0.5942396f,
      0.6121881f, 0.6302026f, 0.6482855f, 0.6664394f, 0.6846668f, 0.7029703f, 0.7213526f, 0.7398166f, 0.758365f,
      0.7770008f, 0.795727f,  0.8145467f, 0.833463f,  0.8524793f, 0.8715989f, 0.8908253f, 0.9101621f, 0.929613f,
      0.9491818f, 0.9688726f, 0.9886894f, 1.0086364f, 1.0287182f, 1.0489392f, 1.0693042f, 1.0898181f, 1.110486f,
      1.1313133f, 1.1523054f, 1.1734682f, 1.1948076f, 1.21633f,   1.2380418f, 1.2599499f, 1.2820615f, 1.304384f,
      1.3269253f, 1.3496937f, 1.3726976f, 1.3959463f, 1.4194493f, 1.4432166f, 1.4672587f, 1.491587f,  1.5162131f,
      1.5411497f, 1.5664098f, 1.5920076f, 1.6179578f, 1.6442765f, 1.6709804f, 1.6980875f, 1.725617f,  1.7535894f,
      1.7820269f, 1.8109531f, 1.8403933f, 1.8703751f, 1.9009281f, 1.9320842f, 1.9638784f, 1.9963485f, 2.0295357f,
      2.0634852f, 2.0982465f, 2.1338741f, 2.1704282f, 2.2079755f, 2.2465899f, 2.2863545f, 2.3273619f, 2.3697171f,
      2.4135387f, 2.4589621f, 2.5061426f, 2.5552594f, 2.6065215f, 2.660174f,  2.7165076f, 2.7758707f, 2.8386858f,
      2.9054729f, 2.9768821f, 3.053742f,  3.1371325f, 3.2285002f, 3.3298485f, 3.4440717f, 3.575588f,  3.7316663f,
      3.9256378f, 4.1865954f, 4.6035356f};
  auto made = normal_points<Bits>();
  for (std::uint32_t i = 0; i < made.count; ++i) made.at[i] = points[made.count - 1 + i];
  return made;
}

/// The borders between neighbouring points, which are their midpoints; count - 1 of them are used.
template <int Bits>
PITH_HD constexpr normal_points<Bits> make_normal_borders() {
  auto const points = make_normal_points<Bits>();
  auto made = normal_points<Bits>();
  for (std::uint32_t i = 0; i + 1 < points.count; ++i) made.at[i] = (points.at[i] + points.at[i + 1]) / 2;
  return made;
}

/// Returns a point.
template <int Bits>
PITH_HD inline float normal_point(std::uint32_t index) {
  static constexpr auto points = make_normal_points<Bits>();
  return points.at[index];
}
/// Returns the index of the point that is nearest to v >= 0. For NaN, returns 0. Comparisons with all borders take less
/// time than a search, because CPUs have fast vector instructions for them, but slow ones for table lookups.
template <int Bits>
PITH_HD inline std::uint32_t nearest_normal_point(float v) {
  static constexpr auto borders = make_normal_borders<Bits>();
  std::uint32_t index = 0;
  for (std::uint32_t i = 0; i + 1 < borders.count; ++i) index += v >= borders.at[i] ? 1u : 0u;
  return index;
}

}}}  // namespace pith::PITH_ABI::detail
