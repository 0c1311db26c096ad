// pith/core/option.hpp — a constructor argument that selects a template argument.
#pragma once

#include <pith/config.hpp>

namespace pith { inline namespace PITH_ABI {

/// The type of a constructor argument from which the compiler deduces a template argument. The constants in namespace
/// pith::options are named after the words of codec texts (parse.hpp):
///
///     using namespace pith::options;
///     auto codec = pith::random_k(0.1, unbiased);   // pith::random_k<pith::scaling::unbiased>
///
/// The word `gamma` needs its namespace, pith::options::gamma, since <math.h> declares a function `gamma`.
template <auto Value>
struct option {};

}}  // namespace pith::PITH_ABI
