// pith/executors.hpp — the host executors seq and par. The executors for CUDA and Thrust have their own headers.
#pragma once

#include <pith/exec/par.hpp>
#include <pith/exec/self_test.hpp>
#include <pith/exec/seq.hpp>
