// pith/wire.hpp — frames for files and for untrusted peers, and exchange payloads with checksums.
#pragma once

#include <pith/adaptor/checked.hpp>
#include <pith/wire/frame.hpp>
