// tests/reports/one_definition.cpp — a source file that uses a part of each folder, for one_definition_test.py.
#if defined(PITH_RUNTIME)
#include <pith/runtime.hpp>

std::size_t used(std::vector<float>& x) {
  auto const codec = pith::runtime::parse<float>("ef(top_k(0.01))");
  auto one = pith::runtime::compressor<float>({}, codec, pith::vector(x.size()));
  return one.compress(x).size() + codec.payload_bytes(pith::vector(8));
}
#else
#include <pith/comm/any_communicator.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/all_reduce_mean.hpp>
#include <pith/pith.hpp>
#include <pith/wire.hpp>

#include <vector>

std::size_t used(std::vector<float>& x, pith::thread_communicator comm) try {
  auto const codec = pith::error_feedback(pith::top_k(0.01) | pith::qsgd<8>());
  auto one = pith::make_compressor<float>(pith::seq, codec, pith::vector(x.size()));
  one.decompress(one.compress(x), x);
  auto memory = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, codec, {x.size()}, comm.size()));
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  auto any = pith::any_communicator(comm);
  pith::all_reduce_mean<float>(pith::seq, any, codec, pith::span<float>(x), one.state(), ws);
  return pith::checksum(pith::span<std::byte const>(memory)) + pith::is_finite(x[0]);
} catch (pith::communication_error const&) {
  return 0;
} catch (pith::wire_error const&) {
  return 0;
}
#endif
