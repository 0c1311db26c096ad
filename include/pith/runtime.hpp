// pith/runtime.hpp — codecs and exchanges that are compiled once, in the library pith::runtime.
#pragma once

#include <pith/runtime/any_codec.hpp>
#include <pith/runtime/compressor.hpp>
#include <pith/runtime/executor.hpp>
#include <pith/runtime/gradient_exchange.hpp>
