// examples/train/on_par.cpp — a rank whose codecs run on the threads of the process's pool.
#include "executors.hpp"
#include "few_codecs.hpp"

#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/par.hpp>

namespace train {

namespace {

using par_executor = pith::par_executor<pith::thread_pool>;

class par_exchange : public rank_exchange {
 public:
  explicit par_exchange(exchange_task const& t)
      : comm_(t.ranks),
        exchange_(pith::par(), comm_, t.tensors, pith::matrices(few_codec<par_executor>(t.codec)), t.options) {}

  phases all_reduce_mean(std::vector<float>& gradient) override {
    return comm_.of([&] { exchange_.all_reduce_mean(gradient); });
  }
  pith::traffic bytes() const override { return exchange_.traffic(); }

 private:
  using communicator = stopwatch_communicator<pith::thread_communicator>;

  communicator comm_;
  pith::gradient_exchange<float, par_executor, communicator> exchange_;
};

added_executor const par("par", [](exchange_task const& t) -> std::unique_ptr<rank_exchange> {
  return std::make_unique<par_exchange>(t);
});

}  // namespace

}  // namespace train
