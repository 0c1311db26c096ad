// tests/runtime/float_only.c — prints the error of a library that is compiled for float only.
#include <pith/runtime.h>

#include <stdio.h>

int main(void) {
  pith_communicator* comm = NULL;
  pith_exchange* exchange = NULL;
  pith_tensor const tensor = {"bias", 1, 8};
  char const* const codec = "identity";
  pith_exchange_options options = {0};
  options.size = sizeof options;
  options.element = PITH_BFLOAT16;
  if (pith_communicator_make_self(PITH_INTERFACE, &comm) != PITH_SUCCESS) return 1;
  if (pith_exchange_make(PITH_INTERFACE, comm, &tensor, 1, &codec, 1, &options, &exchange) == PITH_SUCCESS) return 1;
  puts(pith_error());
  pith_communicator_destroy(comm);
  return 0;
}
