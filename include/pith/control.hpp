// pith/control.hpp — controllers, which choose compression rates, and the exchanges that use these rates.
#pragma once

#include <pith/control/accordion.hpp>
#include <pith/control/adaptive_exchange.hpp>
#include <pith/control/fixed_schedule.hpp>
#include <pith/control/gradiveq.hpp>
#include <pith/control/gravac.hpp>
#include <pith/control/l_greco.hpp>
#include <pith/control/rate_controller.hpp>
#include <pith/control/warm_up.hpp>
