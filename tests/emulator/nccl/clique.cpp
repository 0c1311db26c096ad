// tests/emulator/nccl/clique.cpp — ranks that meet in a call, and what is wrong with their arguments.
#include "nccl/error.hpp"
#include "nccl/member.hpp"
#include "nccl/transfer.hpp"
#include "runtime/schedule.hpp"

#include <algorithm>

namespace emulator::nccl {

namespace {

std::string in_words(arguments const& a) {
  auto text = std::string(name_of(a.what)) + " of " + std::to_string(a.count) + " " + name_of(a.type);
  if (a.what == operation::broadcast) text += " from rank " + std::to_string(a.peer);
  return text;
}

bool agree(arguments const& a, arguments const& b) {
  return a.what == b.what && a.count == b.count && a.type == b.type && a.reduction == b.reduction && a.peer == b.peer;
}

}  // namespace

bool clique::is_complete() const {
  return std::ranges::all_of(members_, [](auto const& m) { return !m.expired(); });
}

std::string clique::join(std::shared_ptr<member> const& m) {
  if (m->rank >= size()) return "rank " + std::to_string(m->rank) + " of " + std::to_string(size());
  if (has(m->rank)) return "rank " + std::to_string(m->rank) + " is there already";
  for (auto const& weak : members_) {
    auto const other = weak.lock();
    if (other && other->device == m->device)
      return "ranks " + std::to_string(other->rank) + " and " + std::to_string(m->rank) + " are both on device " +
             std::to_string(m->device);
  }
  members_[m->rank] = m;
  return {};
}

posted clique::post(unsigned rank, arguments const& a) {
  auto const is_paired = a.what == operation::send || a.what == operation::receive;
  return is_paired ? post_to_peer(rank, a) : post_collective(rank, a);
}

posted clique::post_collective(unsigned rank, arguments const& a) {
  auto const number = members_[rank].lock()->collectives++;
  auto& calls = meetings_[number];
  auto const own = calls[rank] = std::make_shared<posted_call>(posted_call{a});
  if (calls.size() == size() && is_complete()) {
    finish(calls);
    meetings_.erase(number);
  }
  return own;
}

void clique::finish(calls_by_rank const& all) {
  auto const& first = all.at(0)->of;
  auto const odd = std::ranges::find_if(all, [&](auto const& c) { return !agree(c.second->of, first); });
  if (odd == all.end()) {
    auto list = std::vector<arguments>();
    for (auto const& [rank, c] : all) list.push_back(c->of);
    transfer(list);
  } else {
    fail("rank 0 calls " + in_words(first) + ", rank " + std::to_string(odd->first) + " " + in_words(odd->second->of));
  }
  for (auto const& [rank, c] : all) c->is_done = true;
  schedule::of_process().stir();
}

posted clique::post_to_peer(unsigned rank, arguments const& a) {
  auto const peer = static_cast<unsigned>(a.peer);
  auto const is_send = a.what == operation::send;
  auto const ends = is_send ? std::pair(rank, peer) : std::pair(peer, rank);
  auto const own = std::make_shared<posted_call>(posted_call{a});
  auto& others = (is_send ? receives_ : sends_)[ends];
  if (others.empty() || !has(peer)) {
    (is_send ? sends_ : receives_)[ends].push_back(own);
    return own;
  }
  auto const other = others.front();
  others.pop_front();
  finish(is_send ? own : other, is_send ? other : own, ends.first, ends.second);
  return own;
}

void clique::finish(posted const& sent, posted const& received, unsigned from, unsigned to) {
  if (sent->of.count == received->of.count && sent->of.type == received->of.type) {
    transfer(sent->of, received->of);
  } else {
    fail("rank " + std::to_string(from) + " calls " + in_words(sent->of) + ", rank " + std::to_string(to) + " " +
         in_words(received->of));
  }
  sent->is_done = received->is_done = true;
  schedule::of_process().stir();
}

void clique::fail(std::string const& why) {
  report(ncclInvalidUsage, why);
  for (auto const& weak : members_) {
    if (auto const m = weak.lock()) m->error = ncclInvalidUsage;
  }
}

std::shared_ptr<clique::part> clique::split(unsigned rank, int color, int key) {
  auto const number = members_[rank].lock()->splits++;
  auto& parts = splits_[number];
  auto const own = parts[rank] = std::make_shared<part>(part{color, key});
  if (parts.size() == size()) {
    auto all = std::vector<std::shared_ptr<part>>();
    for (auto const& [r, p] : parts) all.push_back(p);
    make_parts(all);
    splits_.erase(number);
  }
  return own;
}

/// Ranks of one colour in the order of their keys, or of their ranks where keys are equal.
void clique::make_parts(std::vector<std::shared_ptr<part>> const& all) {
  auto by_color = std::map<int, std::multimap<int, unsigned>>();
  for (unsigned r = 0; r < all.size(); ++r) {
    if (all[r]->color != NCCL_SPLIT_NOCOLOR) by_color[all[r]->color].emplace(all[r]->key, r);
  }
  for (auto const& [color, ranks] : by_color) {
    auto const made = std::make_shared<clique>(static_cast<unsigned>(ranks.size()));
    unsigned next = 0;
    for (auto const& [key, r] : ranks) {
      all[r]->made = std::make_shared<member>(member{made, next++, members_[r].lock()->device});
      made->join(all[r]->made);
    }
  }
  for (auto const& p : all) p->is_made = true;
}

}  // namespace emulator::nccl
