// tests/emulator/ptx/fuse.cpp — see fuse.hpp.
#include "ptx/fuse.hpp"

#include <cmath>
#include <map>

#include "ptx/registers.hpp"

namespace emulator {

namespace {

template <class T>
T plus(T a, T b, T c) {
  return std::fma(a, b, c);
}
template <class T>
T minus(T a, T b, T c) {
  return std::fma(a, b, -c);
}
template <class T>
T taken_from(T a, T b, T c) {
  return std::fma(-a, b, c);
}

class fuser {
 public:
  fuser(function& f, std::string type, handler plus, handler minus, handler taken_from)
      : f_(f), type_(std::move(type)), plus_(plus), minus_(minus), taken_from_(taken_from) {
    for (std::size_t k = 0; k < f.code.size(); ++k)
      if (f.code[k].d) writers_[f.code[k].d].push_back(k);
  }

  void run() {
    for (std::size_t k = 0; k < f_.code.size(); ++k) {
      auto const add = is("add.", k), sub = is("sub.", k);
      auto& i = f_.code[k];
      auto const a = i.a, b = i.b;
      if (!add && !sub) continue;
      if (auto const* const first = product(a))
        become(i, *first, b, add ? plus_ : minus_);
      else if (auto const* const second = product(b))
        become(i, *second, a, add ? plus_ : taken_from_);
    }
  }

 private:
  bool is(char const* name, std::size_t k) const { return f_.origins[k].text.rfind(name + type_ + ' ', 0) == 0; }

  bool is_written_once(std::uint32_t slot) const {
    auto const at = writers_.find(slot);
    return at == writers_.end() || at->second.size() == 1;
  }

  /// The multiplication that alone makes a value, if its factors cannot have changed since.
  instruction const* product(std::uint32_t slot) const {
    auto const at = writers_.find(slot);
    if (at == writers_.end() || at->second.size() != 1) return nullptr;
    auto const k = at->second[0];
    auto const& i = f_.code[k];
    auto const fits = is("mul.", k) && i.predicate < 0 && is_written_once(i.a) && is_written_once(i.b);
    return fits ? &i : nullptr;
  }

  void become(instruction& i, instruction const& mul, std::uint32_t addend, handler h) {
    i.a = mul.a, i.b = mul.b, i.c = addend;
    i.run = h;
    ++f_.fused;
  }

  function& f_;
  std::string type_;
  handler plus_, minus_, taken_from_;
  std::map<std::uint32_t, std::vector<std::size_t>> writers_;  // of each slot
};

template <class T>
void fuse_of(function& f, char const* type) {
  fuser(f, type, ternary<T, plus<T>>::run, ternary<T, minus<T>>::run, ternary<T, taken_from<T>>::run).run();
}

}  // namespace

void fuse(function& f) {
  fuse_of<float>(f, "f32");
  fuse_of<double>(f, "f64");
}

}  // namespace emulator
