// pith/exchange/two_shot.hpp — the earlier path of pith/collective/two_shot.hpp, which docs/adopting.md gave.
#pragma once

#include <pith/collective/two_shot.hpp>
