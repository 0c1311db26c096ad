// tests/fuzz/fuzz_state.cpp — what was saved, edited and put back: bases, codebooks, controllers, exchanges, schedules, compressors.
// The first byte chooses which; the rest are edits of bytes that were right.
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "input.hpp"
#include "state_controllers.hpp"
#include "state_exchanges.hpp"
#include "state_schedules.hpp"
#include "state_vectors.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  static constexpr void (*readers[])(fuzz::input&) = {fuzz::load_basis,
                                                      fuzz::make_codebook,
                                                      fuzz::load_samples,
                                                      fuzz::load_gravac,
                                                      fuzz::load_accordion,
                                                      fuzz::load_l_greco,
                                                      fuzz::import_exchange<float>,
                                                      fuzz::import_exchange<double>,
                                                      fuzz::import_exchange<pith::bfloat16>,
                                                      fuzz::import_gravac,
                                                      fuzz::import_accordion,
                                                      fuzz::import_l_greco,
                                                      fuzz::import_schedule,
                                                      fuzz::import_compressor};
  auto from = fuzz::input(data, size);
  readers[from.take_below(std::size(readers))](from);
  return 0;
}
