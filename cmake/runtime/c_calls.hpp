// cmake/runtime/c_calls.hpp — the errors and communicators of the C interface.
#pragma once

#include <pith/runtime.h>
#include <pith/comm/any_communicator.hpp>
#include <pith/core/error.hpp>

#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

/// An exchange shares its communicator, so that either can be destroyed first.
struct pith_communicator {
  std::shared_ptr<pith::any_communicator> shared;
};

namespace pith { inline namespace PITH_ABI { namespace runtime {

/// Stores the text for pith_error(), and returns the status.
pith_status failed(pith_status status, char const* text) noexcept;

/// Calls f. Converts an exception to a status.
template <class F>
pith_status guarded(F const& f) noexcept {
  try {
    f();
    return PITH_SUCCESS;
  } catch (std::invalid_argument const& e) {
    return failed(PITH_INVALID_ARGUMENT, e.what());
  } catch (agreement_error const& e) {
    return failed(PITH_AGREEMENT_ERROR, e.what());
  } catch (communication_error const& e) {
    return failed(PITH_COMMUNICATION_ERROR, e.what());
  } catch (std::bad_alloc const&) {
    return failed(PITH_OUT_OF_MEMORY, "pith: out of memory");
  } catch (std::exception const& e) {
    return failed(PITH_OTHER_ERROR, e.what());
  } catch (...) {
    return failed(PITH_OTHER_ERROR, "pith: an unknown exception");
  }
}

/// Throws unless an argument of the C function `call` is valid.
template <class... Parts>
void require_argument(bool holds, char const* call, Parts const&... parts) {
  if (!holds) throw std::invalid_argument(detail::text(call, ": ", parts...));
}
inline void require_pointer(char const* call, char const* argument, void const* pointer) {
  require_argument(pointer != nullptr, call, argument, " must be a valid pointer, got null");
}
inline void require_interface(char const* call, std::uint32_t expected, std::uint32_t interface_version) {
  require_argument(interface_version == expected, call, "interface_version must be ", expected, ", got ",
                   interface_version, ": compile the program with the headers of this library, pith ", pith_version());
}

/// Makes a handle for the communicator that make() returns.
template <class Make>
pith_status make_communicator(char const* call, std::uint32_t expected, std::uint32_t interface_version,
                              pith_communicator** made, Make const& make) noexcept {
  return guarded([&] {
    require_pointer(call, "made", made);
    *made = nullptr;
    require_interface(call, expected, interface_version);
    *made = new pith_communicator{std::make_shared<any_communicator>(make())};
  });
}

}}}  // namespace pith::PITH_ABI::runtime
