// benchmarks/network/predicted.hpp — steps predicted by a cost model that is fitted to two sizes at one rate.
#pragma once

#include "methods.hpp"
#include "rows.hpp"
#include "workloads.hpp"

#include <pith/cost_model/cost_model.hpp>
#include <pith/exec/seq.hpp>

#include <range/v3/algorithm/minmax_element.hpp>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/filter.hpp>

#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace network {

/// Whether a workload is one tensor, not a model.
inline bool is_tensor(row const& r) { return r.workload.find_first_not_of("0123456789") == std::string::npos; }

/// A network, and what each codec costs on it, fitted to the smallest and the largest tensor at a rate.
class oracle {
 public:
  oracle(std::vector<row> const& rows, double rate) : rate_(rate) {
    auto const [small, large] = fitted(rows, "identity");
    net_ = pith::fit_network(small.ranks, {4.0 * static_cast<double>(small.elements), small.step - codec(small)},
                             {4.0 * static_cast<double>(large.elements), large.step - codec(large)});
    for (auto const& m : methods) {
      auto const ends = fitted(rows, m.codec);
      costs_[m.codec] = pith::fit_codec(measured_of(ends.first), measured_of(ends.second));
    }
    fitted_ = {small.workload, large.workload};
  }

  bool is_fitted_to(row const& r) const {
    return r.rate == rate_ && (r.workload == fitted_.first || r.workload == fitted_.second);
  }
  pith::network at(double rate) const { return pith::faster(net_, rate / rate_); }
  pith::exchange_candidate candidate(row const& r) const { return {r.codec, work(r), costs_.at(r.codec)}; }
  double step(row const& r) const { return pith::step_seconds(at(r.rate), candidate(r)); }

 private:
  static double codec(row const& r) { return r.encode + r.decode; }
  static pith::exchange_work work(row const& r) {
    return pith::work_of<float>(pith::seq, workload(r.workload), policy_of(r.codec), r.ranks);
  }
  static pith::measured_codec measured_of(row const& r) { return {work(r), r.encode, r.decode}; }

  std::pair<row, row> fitted(std::vector<row> const& rows, std::string const& codec) const {
    auto const is_mine = [&](row const& r) { return r.rate == rate_ && r.codec == codec && is_tensor(r); };
    auto const mine = rows | ranges::views::filter(is_mine) | ranges::to<std::vector>();
    if (mine.size() < 2) throw std::runtime_error("two tensors of " + codec + " are needed at the rate of the fit");
    auto const [small, large] = ranges::minmax_element(mine, {}, &row::elements);
    return {*small, *large};
  }

  double rate_;
  pith::network net_;
  std::map<std::string, pith::codec_cost> costs_;
  std::pair<std::string, std::string> fitted_;
};

}  // namespace network
