// pith/registry/method.hpp — a line of the registry: a method's form in a text, its meaning, examples and constructor.
#pragma once

#include <pith/registry/syntax.hpp>

#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>

namespace pith { inline namespace PITH_ABI {

/// The description of a method that a text can name. All members are string literals, so data() points to a
/// null-terminated string.
struct listing {
  static constexpr std::size_t max_examples = 10;

  std::string_view form;     ///< the name as error messages list it, such as "top_k", "qsgd<Bits>" or "ef(c)"
  std::string_view meaning;  ///< one phrase
  /// Texts that construct every variant of the method. The first text is the usual one.
  std::array<std::string_view, max_examples> texts = {};

  constexpr std::string_view name() const { return form.substr(0, form.find_first_of("<(")); }
  constexpr std::size_t examples() const {
    std::size_t count = 0;
    while (count < max_examples && !texts[count].empty()) ++count;
    return count;
  }
};

/// A line of the registry. `make` constructs the method from a term with `least` to `most` arguments.
template <class Make>
struct method : listing {
  std::size_t least, most;
  Make make;

  constexpr method(std::string_view form_text, std::size_t min_arguments, std::size_t max_arguments,
                   std::string_view phrase, std::array<std::string_view, max_examples> codecs, Make how)
      : listing{form_text, phrase, codecs}, least(min_arguments), most(max_arguments), make(how) {}

  /// Returns whether the term names this method. Throws if the term has this name, but a wrong number of arguments, or
  /// an <angle> that the form lacks.
  bool is_named_by(syntax::term const& t) const {
    auto const at = form.find('<');
    if (at == std::string_view::npos) return t.is_plain(name(), least, most);
    auto const angle = form.substr(at + 1, form.find('>') - at - 1);
    if (t.name != name() || (angle != "Bits" && angle != t.angle)) return false;
    t.takes(least, most);
    return true;
  }
};

namespace detail {

/// Calls f with the method that a term names, among methods I to Until - 1. Calls otherwise() if none of these methods
/// has the name.
template <class R, std::size_t Until, std::size_t I = 0, class Methods, class F, class G>
R with_method(Methods const& methods, syntax::term const& t, F const& f, G const& otherwise) {
  if constexpr (I == Until) {
    return otherwise();
  } else {
    auto const& one = std::get<I>(methods);
    return one.is_named_by(t) ? f(one) : with_method<R, Until, I + 1>(methods, t, f, otherwise);
  }
}

/// The descriptions of a tuple of methods.
template <class... M>
constexpr std::array<listing, sizeof...(M)> listings_of(std::tuple<M...> const& methods) {
  return std::apply([](auto const&... m) { return std::array<listing, sizeof...(M)>{m...}; }, methods);
}

}  // namespace detail
}}  // namespace pith::PITH_ABI
