// pith/runtime.h — the C interface of the library pith::runtime: an exchange of a model's gradients.
//
//   pith_exchange_all_reduce_mean(exchange, gradients, elements, 1);   // replaces gradients by their means over all ranks
//
// or, during the backward pass:
//
//   pith_exchange_begin(exchange, gradients, elements, 1);
//   pith_exchange_ready(exchange, tensor);   // gradient `tensor` has been written; any order
//   pith_exchange_wait(exchange);            // now all gradients are means
//
// The header needs C99 or C++98. The program links with pith::runtime, and with pith::runtime_mpi for MPI
// (pith/runtime_mpi.h). docs/exchange.md (From C) describes how to build the libraries. The functions have the contracts
// of the members of pith::gradient_exchange (pith/exchange/gradient_exchange.hpp).
//
//   errors   every function that returns int returns 0, or an enum pith_status above 0. pith_error() then returns the
//            text of the error. After PITH_INVALID_ARGUMENT, nothing has changed. Invalid arguments, sizes and calls at
//            the wrong time are errors; a pointer must be null or valid
//   threads  only one thread at a time may use an exchange, or a communicator and its exchanges. Different threads may
//            use exchanges of different communicators. Steps of exchanges of one communicator must not overlap: make a
//            communicator for each exchange. pith_error() is separate for each thread. After fork(), the child must
//            neither use nor destroy an exchange
//   memory   the library copies all texts and structs. The order in which an exchange and its communicator are destroyed
//            is arbitrary
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The version of this header's functions and structs. Functions that make an object compare it with the library's.
#define PITH_INTERFACE 1u

enum pith_status {
  PITH_SUCCESS = 0,
  PITH_INVALID_ARGUMENT = 1,     ///< an argument, a text, a state, or a call at the wrong time
  PITH_AGREEMENT_ERROR = 2,      ///< ranks with different tensors, codecs or options; or another rank's error
  PITH_COMMUNICATION_ERROR = 3,  ///< a lost or stuck rank, or an error of the transport
  PITH_OUT_OF_MEMORY = 4,
  PITH_OTHER_ERROR = 5
};

/// The text of the last error on this thread; empty before the first error. Valid until the thread's next error.
char const* pith_error(void);
/// The version of the library, such as "0.1.0".
char const* pith_version(void);

/// The ranks of a job.
typedef struct pith_communicator pith_communicator;

/// Makes the communicator of a single rank. `interface_version` is PITH_INTERFACE.
int pith_communicator_make_self(uint32_t interface_version, pith_communicator** made);
/// A function of a transport. It sends `sent_bytes` bytes to rank `to`, receives `received_bytes` bytes from rank `from`,
/// and returns 0 when both have ended, or another number if one of them failed. The two ranks may differ, and neither of
/// them is the calling rank. Rank `to` receives as many bytes as this rank sends, which may be 0. Rank `to` may
/// itself be sending before it receives, so the function must send and receive at the same time, as MPI_Sendrecv does.
typedef int (*pith_send_recv)(void* context, void const* sent, size_t sent_bytes, uint32_t to, void* received,
                              size_t received_bytes, uint32_t from);
/// Makes a communicator on a transport of the engine, as pith::function_communicator
/// (pith/comm/function_communicator.hpp). `interface_version` is PITH_INTERFACE. The library passes `context` to each call
/// of `send_recv`. One thread at a time calls the function: the caller's, or after pith_exchange_ready a thread of the
/// library. Communicators need separate connections or tags. If the function fails, the step returns
/// PITH_COMMUNICATION_ERROR. The function has its own timeout.
int pith_communicator_make_function(uint32_t interface_version, uint32_t rank, uint32_t ranks, pith_send_recv send_recv,
                                    void* context, pith_communicator** made);
/// Destroys a communicator. Null is ignored.
void pith_communicator_destroy(pith_communicator* communicator);

/// The name and shape of a tensor. A vector of n elements is a tensor of 1 row and n columns. A matrix is stored row by
/// row; the rows of a convolution are its output channels.
typedef struct pith_tensor {
  char const* name;
  uint64_t rows, columns;
} pith_tensor;

/// The type of a gradient's elements. PITH_BFLOAT16 has the bits of the upper half of a float.
enum pith_element { PITH_FLOAT = 0, PITH_BFLOAT16 = 1 };
/// pith::gather (pith/exchange/exchange_options.hpp).
enum pith_gather { PITH_GATHER_PADDED = 0, PITH_GATHER_EXACT = 1, PITH_GATHER_PREDICTED = 2 };
/// pith::verify (pith/exchange/exchange_options.hpp).
enum pith_verify { PITH_VERIFY_WHEN_BUILT = 0, PITH_VERIFY_EACH_STEP = 1 };

/// pith::exchange_options. A value of 0 is the default of each option. All options except `threads` and `is_recoverable`
/// must be equal on all ranks. Later versions add fields at the end.
///
///   pith_exchange_options options = {0};
///   options.size = sizeof options;
typedef struct pith_exchange_options {
  size_t size;              ///< sizeof(pith_exchange_options)
  uint64_t seed;            ///< of all random bits
  uint64_t bucket_bytes;    ///< the maximum number of gradient bytes that are sent together; 0: chosen from the model
  uint32_t element;         ///< an enum pith_element
  uint32_t gather_mode;     ///< an enum pith_gather
  uint32_t verification;    ///< an enum pith_verify
  uint32_t threads;         ///< threads that encode and decode, with the calling thread; 0 and 1: the calling thread
  uint32_t is_weighted;     ///< 1: means are weighted by the weight that each rank passes in each step
  uint32_t is_recoverable;  ///< 1: states can be saved after a failed step, and of one step before
} pith_exchange_options;

/// An exchange of a model's gradients.
typedef struct pith_exchange pith_exchange;

/// Makes an exchange. All ranks call it. `interface_version` is PITH_INTERFACE. `codecs` has one text per tensor, or one
/// text for all tensors, such as "ef(power_sgd(4))" (docs/catalogue.md). With null, `options` are the defaults. On error,
/// `*made` is null.
int pith_exchange_make(uint32_t interface_version, pith_communicator* communicator, pith_tensor const* tensors,
                       size_t tensor_count, char const* const* codecs, size_t codec_count,
                       pith_exchange_options const* options, pith_exchange** made);
/// Destroys an exchange, also during a step. Null is ignored.
void pith_exchange_destroy(pith_exchange* exchange);

/// Replaces the gradients by their decoded means over the ranks. `gradients` has all tensors, one after another;
/// `elements` is their number of elements. `weight` is 1 without is_weighted.
int pith_exchange_all_reduce_mean(pith_exchange* exchange, void* gradients, uint64_t elements, double weight);

/// Begins a step, whose gradients lie one after another. Only the exchange may access a gradient from ready to wait.
int pith_exchange_begin(pith_exchange* exchange, void* gradients, uint64_t elements, double weight);
/// Marks a gradient as written. The first call of a step starts a thread that calls MPI, or the function of a transport.
int pith_exchange_ready(pith_exchange* exchange, size_t tensor);
/// Begins a step, whose gradients lie at any addresses. Pass each of them to pith_exchange_ready_separate.
int pith_exchange_begin_separate(pith_exchange* exchange, double weight);
int pith_exchange_ready_separate(pith_exchange* exchange, size_t tensor, void* gradient, uint64_t elements);
/// Marks all other gradients as written, and returns when all gradients are means.
int pith_exchange_wait(pith_exchange* exchange);
/// Ends a step without an exchange, on all ranks, before a whole bucket is ready. Between steps, it has no effect.
int pith_exchange_skip(pith_exchange* exchange);
/// Gives up a step on this rank. The step then fails on the other ranks, after their timeout. If a transfer had begun, the
/// step has failed on this rank, too.
int pith_exchange_abandon(pith_exchange* exchange);
/// Sets `*failed` to 1 if a step has failed, and otherwise to 0. After a failed step, no step can begin. After
/// PITH_COMMUNICATION_ERROR, make another communicator and another exchange. After other errors, call pith_exchange_load.
int pith_exchange_has_failed(pith_exchange* exchange, uint32_t* failed);

/// Computes new buckets from the times of the last step, which called begin before backward, and ready during backward.
/// All ranks call it between steps, for example after the second step.
int pith_exchange_fit_buckets(pith_exchange* exchange);
/// Multiplies all residuals by a factor, after a change of the loss scale or the learning rate.
int pith_exchange_rescale(pith_exchange* exchange, double factor);
/// Sets other codecs, as pith_exchange_make does. All ranks call it between steps, with equal texts. A tensor whose codec
/// stays the same keeps its whole state, and other tensors keep their residuals.
int pith_exchange_change_codecs(pith_exchange* exchange, char const* const* codecs, size_t codec_count);

/// The last step of this rank, all tensors together (pith/exchange/exchange_report.hpp). Later versions add fields at the
/// end.
typedef struct pith_report {
  size_t size;       ///< sizeof(pith_report), which the caller sets
  uint64_t buckets;  ///< the number of buckets
  uint64_t elements;
  double dense_bytes;  ///< bytes that an all-reduce of the uncompressed gradients would send
  double wire_bytes;   ///< bytes that this rank sent
  double encode_seconds, transfer_seconds, decode_seconds;
  double wait_seconds;  ///< the duration of pith_exchange_wait
} pith_report;
/// The last step of this rank, for one tensor.
typedef struct pith_tensor_report {
  size_t size;      ///< sizeof(pith_tensor_report), which the caller sets
  uint64_t bucket;  ///< the index of the tensor's bucket
  uint64_t elements;
  double dense_bytes;
  double wire_bytes;
  double ready_seconds;  ///< from begin to ready
  double encode_seconds, transfer_seconds, decode_seconds;
} pith_tensor_report;
int pith_exchange_report(pith_exchange* exchange, pith_report* report);
int pith_exchange_tensor_report(pith_exchange* exchange, size_t tensor, pith_tensor_report* report);

/// Sets `*bytes` to the size of this rank's saved state. `steps_back` is 0, or 1 with is_recoverable. This function and
/// pith_exchange_save need memory for two more copies of the state.
int pith_exchange_state_bytes(pith_exchange* exchange, uint32_t steps_back, size_t* bytes);
/// Writes the saved state of this rank to `state`, which has `bytes` bytes. All ranks save after the same step.
int pith_exchange_save(pith_exchange* exchange, uint32_t steps_back, void* state, size_t bytes);
/// Restores a state that this rank saved, in a job with the same number of ranks. All ranks call it. If it fails on some
/// ranks, all ranks must load states again before the next step. If the ranks loaded states of different steps, the next
/// step returns PITH_AGREEMENT_ERROR on all ranks.
int pith_exchange_load(pith_exchange* exchange, void const* state, size_t bytes);
/// Sets other codecs, as pith_exchange_change_codecs does, and restores a state that was saved with these codecs. All ranks
/// call it, with equal texts. If it fails on one rank, it fails on all.
int pith_exchange_load_with_codecs(pith_exchange* exchange, void const* state, size_t bytes, char const* const* codecs,
                                   size_t codec_count);
/// Restores the state of this rank from the states of all ranks of a job that had any number of ranks. `states` and
/// `bytes` have one entry per rank of that job, in rank order. Leave out the entries of lost ranks, or pass null and 0. All
/// ranks call it.
int pith_exchange_load_resharded(pith_exchange* exchange, void const* const* states, size_t const* bytes,
                                 size_t state_count);

#ifdef __cplusplus
}
#endif
