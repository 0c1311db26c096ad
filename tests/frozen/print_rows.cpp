// tests/frozen/print_rows.cpp — prints the rows of codecs: small sizes of all elements, large ones of floats. Those of a
// new method are appended:
//
//     print_rows 'qsgd<8>' 'ef(top_k(0.01)|qsgd<8>)' >> tests/data/frozen/rows.txt
//
// A row is never edited.
#include <iostream>
#include <string>

#include "frozen/rows.hpp"
#include "support/parsed.hpp"

namespace {

/// Prints a row. Prints an error in place of the row if parse refuses the text for this element type: a chain whose first
/// stage emits floats takes no half elements.
template <class In>
void print_row(char const* sizes, std::string const& text) try {
  auto const made = frozen::row_of<In>(pith::seq, pith::parse<In>(text), sizes);
  std::cout << frozen::line{std::string(pith::element_name<In>()), sizes, text, made} << '\n';
} catch (std::invalid_argument const& refused) {
  std::cerr << pith::element_name<In>() << ' ' << text << ": " << refused.what() << '\n';
}

}  // namespace

int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    print_row<float>("small", arguments[i]);
    print_row<float>("large", arguments[i]);
    print_row<double>("small", arguments[i]);
    print_row<pith::half>("small", arguments[i]);
    print_row<pith::bfloat16>("small", arguments[i]);
  }
}
