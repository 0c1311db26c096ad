// tests/frozen/print_rows.cpp — a program that prints the rows of codecs: small sizes of all elements, large of floats.
// Append the rows of a new method:
//
//     print_rows 'qsgd<8>' 'ef(top_k(0.01)|qsgd<8>)' >> tests/data/frozen/v1.txt
//
// A row is never edited.
#include <iostream>
#include <string>

#include "frozen/rows.hpp"
#include "support/parsed.hpp"

namespace {

/// Prints a row, or an error if parse refuses the text for this element type. For example, a chain whose first stage
/// emits floats takes no half elements.
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
