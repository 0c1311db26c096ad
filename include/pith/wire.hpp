// pith/wire.hpp — frames for files and untrusted peers, and payloads that are verified in an exchange.
#pragma once

#include <pith/wire/checked.hpp>
#include <pith/wire/frame.hpp>
