// tests/runtime/c_interface_test.c — the C interface: one step in each way, and wrong use of every function.
#include <pith/runtime.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { elements = 28 };
static pith_tensor const tensors[] = {{"weight", 4, 6}, {"bias", 1, 4}};
static char const* const codec = "ef(top_k(0.25))";
static char const* const unknown[] = {"identity", "topk(0.1)"};
static int failures = 0;
static int checks = 0;

static void check(int line, int holds, char const* words) {
  ++checks;
  if (holds) return;
  ++failures;
  fprintf(stderr, "line %d: %s; the last error is: %s\n", line, words, pith_error());
}
#define CHECK(holds) check(__LINE__, holds, #holds)
/// A call is refused with a text, and changes nothing.
#define CHECK_INVALID(call, words) \
  check(__LINE__, (call) == PITH_INVALID_ARGUMENT && strstr(pith_error(), words) != NULL, #call)

static pith_communicator* self(void) {
  pith_communicator* made = NULL;
  CHECK(pith_communicator_make_self(PITH_INTERFACE, &made) == PITH_SUCCESS);
  return made;
}

static pith_exchange* make(pith_exchange_options const* options) {
  pith_communicator* const comm = self();
  pith_exchange* made = NULL;
  CHECK(pith_exchange_make(PITH_INTERFACE, comm, tensors, 2, &codec, 1, options, &made) == PITH_SUCCESS);
  pith_communicator_destroy(comm);  // the exchange keeps it
  return made;
}

static pith_exchange_options defaults(void) {
  pith_exchange_options options = {0};
  options.size = sizeof options;
  return options;
}

static void fill(float* gradients) {
  for (int i = 0; i < elements; ++i) gradients[i] = (float)(i * 11 % 13) - 6;
}

static void steps_are_equal(void) {
  float once[elements], during[elements], separate[elements];
  pith_exchange* const a = make(NULL);
  pith_exchange* const b = make(NULL);
  pith_exchange* const c = make(NULL);
  for (int step = 0; step < 3; ++step) {
    fill(once), fill(during), fill(separate);
    CHECK(pith_exchange_all_reduce_mean(a, once, elements, 1) == PITH_SUCCESS);
    CHECK(pith_exchange_begin(b, during, elements, 1) == PITH_SUCCESS);
    CHECK(pith_exchange_ready(b, 1) == PITH_SUCCESS);
    CHECK(pith_exchange_wait(b) == PITH_SUCCESS);
    CHECK(pith_exchange_begin_separate(c, 1) == PITH_SUCCESS);
    CHECK(pith_exchange_ready_separate(c, 1, separate + 24, 4) == PITH_SUCCESS);
    CHECK(pith_exchange_ready_separate(c, 0, separate, 24) == PITH_SUCCESS);
    CHECK(pith_exchange_wait(c) == PITH_SUCCESS);
    CHECK(memcmp(once, during, sizeof once) == 0 && memcmp(once, separate, sizeof once) == 0);
    int kept = 0;
    for (int i = 0; i < elements; ++i) kept += once[i] != 0;
    CHECK(kept == 7);  // a quarter of 24, and of 4
  }
  CHECK(pith_exchange_rescale(a, 0) == PITH_SUCCESS && pith_exchange_rescale(b, 1) == PITH_SUCCESS);
  fill(once), fill(during);
  CHECK(pith_exchange_all_reduce_mean(a, once, elements, 1) == PITH_SUCCESS);
  CHECK(pith_exchange_all_reduce_mean(b, during, elements, 1) == PITH_SUCCESS);
  CHECK(memcmp(once, during, sizeof once) != 0);  // a has lost its residual
  pith_exchange_destroy(a), pith_exchange_destroy(b), pith_exchange_destroy(c);
}

static void states_are_restored(void) {
  float first[elements], second[elements];
  pith_exchange* const from = make(NULL);
  fill(first);
  CHECK(pith_exchange_all_reduce_mean(from, first, elements, 1) == PITH_SUCCESS);
  size_t bytes = 0;
  CHECK(pith_exchange_state_bytes(from, 0, &bytes) == PITH_SUCCESS && bytes > elements * sizeof(float));
  void* const state = malloc(bytes);
  void const* const states[] = {state, NULL};
  size_t const sizes[] = {bytes, 1};
  CHECK(pith_exchange_save(from, 0, state, bytes) == PITH_SUCCESS);
  CHECK_INVALID(pith_exchange_save(from, 0, state, bytes - 1), "pith_exchange_save: bytes must be ");
  CHECK_INVALID(pith_exchange_save(from, 0, NULL, bytes), "state must be a valid pointer, got null");
  CHECK_INVALID(pith_exchange_save(from, 1, state, bytes), "steps_back must be below 1, got 1");
  CHECK_INVALID(pith_exchange_state_bytes(from, 1, &bytes), "steps_back must be below 1, got 1");
  CHECK_INVALID(pith_exchange_state_bytes(from, 0, NULL), "bytes must be a valid pointer, got null");

  pith_exchange* const to = make(NULL);
  CHECK(pith_exchange_load(to, state, bytes) == PITH_SUCCESS);
  pith_exchange* const resharded = make(NULL);
  CHECK(pith_exchange_load_resharded(resharded, states, sizes, 1) == PITH_SUCCESS);
  for (int i = 0; i < 2; ++i) {
    fill(first), fill(second);
    CHECK(pith_exchange_all_reduce_mean(from, first, elements, 1) == PITH_SUCCESS);
    CHECK(pith_exchange_all_reduce_mean(i == 0 ? to : resharded, second, elements, 1) == PITH_SUCCESS);
    CHECK(memcmp(first, second, sizeof first) == 0);
    CHECK(pith_exchange_load(from, state, bytes) == PITH_SUCCESS);
  }
  size_t const lost[] = {bytes, 0};
  CHECK(pith_exchange_load_resharded(to, states, lost, 2) == PITH_SUCCESS);
  CHECK_INVALID(pith_exchange_load(to, state, bytes - 1), "import_state");
  CHECK_INVALID(pith_exchange_load(to, state, 0), "import_state");
  CHECK_INVALID(pith_exchange_load(to, NULL, bytes), "state must be a valid pointer, got null");
  CHECK_INVALID(pith_exchange_load_resharded(to, states, sizes, 2), "states[1] must have 1 bytes, got null");
  CHECK_INVALID(pith_exchange_load_resharded(to, states, sizes, 0), "states must have at least 1 entry, got 0");
  CHECK_INVALID(pith_exchange_load_resharded(to, NULL, sizes, 1), "states must have 1 entries, got null");
  CHECK_INVALID(pith_exchange_load_resharded(to, states, NULL, 1), "bytes must have 1 entries, got null");
  free(state);
  pith_exchange_destroy(from), pith_exchange_destroy(to), pith_exchange_destroy(resharded);
}

static void options_are_applied(void) {
  float g[elements];
  pith_exchange_options options = defaults();
  options.seed = 7;
  options.bucket_bytes = 16;
  options.gather_mode = PITH_GATHER_EXACT;
  options.verification = PITH_VERIFY_EACH_STEP;
  options.threads = 2;
  options.is_weighted = 1;
  options.is_recoverable = 1;
  pith_exchange* const exchange = make(&options);
  for (int step = 0; step < 2; ++step) {
    fill(g);
    CHECK(pith_exchange_all_reduce_mean(exchange, g, elements, 2.5) == PITH_SUCCESS);
  }
  size_t bytes = 0;
  CHECK(pith_exchange_state_bytes(exchange, 1, &bytes) == PITH_SUCCESS && bytes > 0);
  pith_report report = {.size = sizeof report};
  pith_tensor_report of = {.size = sizeof of};
  CHECK(pith_exchange_report(exchange, &report) == PITH_SUCCESS);
  CHECK(report.buckets == 2 && report.elements == elements && report.wire_bytes == 0);
  CHECK(report.wait_seconds > 0 && report.encode_seconds > 0);
  CHECK(pith_exchange_tensor_report(exchange, 0, &of) == PITH_SUCCESS && of.elements == 24 && of.bucket == 1);
  CHECK(pith_exchange_tensor_report(exchange, 1, &of) == PITH_SUCCESS && of.elements == 4 && of.bucket == 0);
  CHECK_INVALID(pith_exchange_tensor_report(exchange, 2, &of), "tensor must be below 2, got 2");
  CHECK_INVALID(pith_exchange_tensor_report(exchange, 0, NULL), "report must be a valid pointer, got null");
  CHECK_INVALID(pith_exchange_report(exchange, NULL), "report must be a valid pointer, got null");
  report.size = of.size = 8;
  CHECK_INVALID(pith_exchange_report(exchange, &report), "report->size must be 72, got 8");
  CHECK_INVALID(pith_exchange_tensor_report(exchange, 0, &of), "report->size must be 72, got 8");
  CHECK(pith_exchange_fit_buckets(exchange) == PITH_SUCCESS);
  CHECK_INVALID(pith_exchange_fit_buckets(exchange), "fit_buckets() must be called after a step");
  pith_exchange_destroy(exchange);

  options = defaults();
  options.element = PITH_BFLOAT16;
  pith_exchange* const halves = make(&options);
  uint16_t ones[elements];
  for (int i = 0; i < elements; ++i) ones[i] = 0x3f80;
  CHECK(pith_exchange_all_reduce_mean(halves, ones, elements, 1) == PITH_SUCCESS);
  CHECK(ones[0] == 0x3f80 && ones[6] == 0);
  pith_exchange_destroy(halves);
}

static void codecs_are_changed(void) {
  float g[elements], same[elements];
  char const* const two[] = {"identity", "cast<bfloat16>"};
  pith_exchange* const exchange = make(NULL);
  CHECK(pith_exchange_change_codecs(exchange, two, 2) == PITH_SUCCESS);
  fill(g), fill(same);
  CHECK(pith_exchange_all_reduce_mean(exchange, g, elements, 1) == PITH_SUCCESS);
  CHECK(memcmp(g, same, sizeof g) == 0);
  CHECK_INVALID(pith_exchange_change_codecs(exchange, two, 3), "codec_count must be 1 or 2, got 3");
  CHECK_INVALID(pith_exchange_change_codecs(exchange, two, 0), "codec_count must be 1 or 2, got 0");
  CHECK_INVALID(pith_exchange_change_codecs(exchange, NULL, 2), "codecs must have 2 entries, got null");
  CHECK_INVALID(pith_exchange_change_codecs(exchange, unknown, 2), "topk");
  CHECK(pith_exchange_change_codecs(exchange, &codec, 1) == PITH_SUCCESS);
  pith_exchange_destroy(exchange);
}

/// A tensor whose codec stays keeps its warm start.
static void unchanged_codecs_keep_states(void) {
  float g[elements], same[elements];
  char const* const before[] = {"ef(power_sgd(1,1))", "identity"};
  char const* const after[] = {"ef(power_sgd(1,1))", "cast<bfloat16>"};
  pith_exchange* const changed = make(NULL);
  pith_exchange* const kept = make(NULL);
  CHECK(pith_exchange_change_codecs(changed, before, 2) == PITH_SUCCESS);
  CHECK(pith_exchange_change_codecs(kept, before, 2) == PITH_SUCCESS);
  for (int step = 0; step < 2; ++step) {
    fill(g), fill(same);
    CHECK(pith_exchange_all_reduce_mean(changed, g, elements, 1) == PITH_SUCCESS);
    CHECK(pith_exchange_all_reduce_mean(kept, same, elements, 1) == PITH_SUCCESS);
    CHECK(memcmp(g, same, sizeof g) == 0);
    CHECK(pith_exchange_change_codecs(changed, after, 2) == PITH_SUCCESS);
  }
  pith_exchange_destroy(changed), pith_exchange_destroy(kept);
}

/// A state is loaded by an exchange that was made with other codecs.
static void codecs_are_loaded(void) {
  float g[elements], same[elements];
  char const* const sparse[] = {"ef(top_k(0.5))", "identity"};
  pith_exchange* const from = make(NULL);
  pith_exchange* const to = make(NULL);
  CHECK(pith_exchange_change_codecs(from, sparse, 2) == PITH_SUCCESS);
  fill(g);
  CHECK(pith_exchange_all_reduce_mean(from, g, elements, 1) == PITH_SUCCESS);
  size_t bytes = 0;
  CHECK(pith_exchange_state_bytes(from, 0, &bytes) == PITH_SUCCESS);
  void* const state = malloc(bytes);
  CHECK(pith_exchange_save(from, 0, state, bytes) == PITH_SUCCESS);
  CHECK_INVALID(pith_exchange_load(to, state, bytes), "codec");
  CHECK_INVALID(pith_exchange_load_with_codecs(to, state, bytes, &codec, 1), "codec");
  CHECK_INVALID(pith_exchange_load_with_codecs(to, state, bytes, unknown, 2), "topk");
  CHECK_INVALID(pith_exchange_load_with_codecs(to, state, bytes - 1, sparse, 2), "import_state");
  CHECK_INVALID(pith_exchange_load_with_codecs(to, NULL, bytes, sparse, 2), "state must be a valid pointer, got null");
  CHECK(pith_exchange_load_with_codecs(to, state, bytes, sparse, 2) == PITH_SUCCESS);
  fill(g), fill(same);
  CHECK(pith_exchange_all_reduce_mean(from, g, elements, 1) == PITH_SUCCESS);
  CHECK(pith_exchange_all_reduce_mean(to, same, elements, 1) == PITH_SUCCESS);
  CHECK(memcmp(g, same, sizeof g) == 0);
  free(state);
  pith_exchange_destroy(from), pith_exchange_destroy(to);
}

static void null_exchanges_are_errors(void) {
  char const* const words = "exchange must be a valid pointer, got null";
  float g[elements];
  size_t bytes = 0;
  void const* const state = g;
  pith_report report = {.size = sizeof report};
  pith_tensor_report of = {.size = sizeof of};
  CHECK_INVALID(pith_exchange_all_reduce_mean(NULL, g, elements, 1), words);
  CHECK_INVALID(pith_exchange_begin(NULL, g, elements, 1), words);
  CHECK_INVALID(pith_exchange_ready(NULL, 0), words);
  CHECK_INVALID(pith_exchange_begin_separate(NULL, 1), words);
  CHECK_INVALID(pith_exchange_ready_separate(NULL, 0, g, 24), words);
  CHECK_INVALID(pith_exchange_wait(NULL), words);
  CHECK_INVALID(pith_exchange_skip(NULL), words);
  CHECK_INVALID(pith_exchange_abandon(NULL), words);
  uint32_t failed = 0;
  CHECK_INVALID(pith_exchange_has_failed(NULL, &failed), words);
  CHECK_INVALID(pith_exchange_fit_buckets(NULL), words);
  CHECK_INVALID(pith_exchange_rescale(NULL, 1), words);
  CHECK_INVALID(pith_exchange_change_codecs(NULL, &codec, 1), words);
  CHECK_INVALID(pith_exchange_report(NULL, &report), words);
  CHECK_INVALID(pith_exchange_tensor_report(NULL, 0, &of), words);
  CHECK_INVALID(pith_exchange_state_bytes(NULL, 0, &bytes), words);
  CHECK_INVALID(pith_exchange_save(NULL, 0, g, sizeof g), words);
  CHECK_INVALID(pith_exchange_load(NULL, g, sizeof g), words);
  CHECK_INVALID(pith_exchange_load_with_codecs(NULL, g, sizeof g, &codec, 1), words);
  CHECK_INVALID(pith_exchange_load_resharded(NULL, &state, &bytes, 1), words);
  pith_exchange_destroy(NULL);
  pith_communicator_destroy(NULL);
}

/// Arguments of pith_exchange_make.
static void exchanges_are_refused(void) {
  pith_communicator* const comm = self();
  pith_exchange* made = (pith_exchange*)&failures;  // an error sets it to null
  pith_tensor const nameless[] = {{NULL, 4, 6}};
  pith_tensor const large[] = {{"large", UINT64_MAX, 2}};
  char const* const textless[] = {NULL};
  CHECK_INVALID(pith_communicator_make_self(PITH_INTERFACE, NULL), "made must be a valid pointer, got null");
  pith_communicator* other = comm;
  CHECK_INVALID(pith_communicator_make_self(7, &other), "interface_version must be 1, got 7: compile the program with");
  CHECK(other == NULL);
#define MAKE(...) pith_exchange_make(PITH_INTERFACE, __VA_ARGS__)
  CHECK_INVALID(pith_exchange_make(0, comm, tensors, 2, &codec, 1, NULL, &made), "interface_version must be 1, got 0");
  CHECK(made == NULL);
  CHECK_INVALID(MAKE(NULL, tensors, 2, &codec, 1, NULL, &made), "communicator must be a valid pointer, got null");
  CHECK_INVALID(MAKE(comm, tensors, 2, &codec, 1, NULL, NULL), "made must be a valid pointer, got null");
  CHECK_INVALID(MAKE(comm, NULL, 2, &codec, 1, NULL, &made), "tensors must have 2 entries, got null");
  CHECK_INVALID(MAKE(comm, nameless, 1, &codec, 1, NULL, &made), "tensors[0].name must be a text, got null");
  CHECK_INVALID(MAKE(comm, large, 1, &codec, 1, NULL, &made), "tensors[0] must have at most 1152921504606846975 elements");
  pith_tensor const together[] = {{"a", 1, (uint64_t)1 << 59}, {"b", (uint64_t)1 << 30, (uint64_t)1 << 30}};
  CHECK_INVALID(MAKE(comm, together, 2, &codec, 1, NULL, &made), "tensors[1] must have at most 576460752303423487 elements");
  CHECK_INVALID(MAKE(comm, tensors, SIZE_MAX, &codec, 1, NULL, &made), "tensor_count must be at most");
  CHECK_INVALID(MAKE(comm, tensors, 2, NULL, 1, NULL, &made), "codecs must have 1 entries, got null");
  CHECK_INVALID(MAKE(comm, tensors, 2, textless, 1, NULL, &made), "codecs[0] must be a text, got null");
  CHECK_INVALID(MAKE(comm, tensors, 2, unknown, 2, NULL, &made), "topk");
  CHECK_INVALID(MAKE(comm, tensors, 2, unknown, 3, NULL, &made), "codec_count must be 1 or 2, got 3");
  CHECK_INVALID(MAKE(comm, tensors, 2, unknown, 0, NULL, &made), "codec_count must be 1 or 2, got 0");
  pith_exchange_options options = {0};
  CHECK_INVALID(MAKE(comm, tensors, 2, &codec, 1, &options, &made), "options->size must be 48, got 0");
#define CHECK_OPTION(field, value, words) \
  options = defaults();                   \
  options.field = value;                  \
  CHECK_INVALID(MAKE(comm, tensors, 2, &codec, 1, &options, &made), words)
  CHECK_OPTION(element, 2, "options->element must be below 2, got 2");
  CHECK_OPTION(gather_mode, 3, "options->gather_mode must be below 3, got 3");
  CHECK_OPTION(verification, 2, "options->verification must be below 2, got 2");
  CHECK_OPTION(threads, 4000000000u, "threads must be in [0, 4096], got 4000000000");
  CHECK_OPTION(is_weighted, 2, "options->is_weighted must be below 2, got 2");
  CHECK_OPTION(is_recoverable, 2, "options->is_recoverable must be below 2, got 2");
  CHECK(made == NULL);
  CHECK(MAKE(comm, NULL, 0, NULL, 0, NULL, &made) == PITH_SUCCESS);  // of no tensors
  CHECK(pith_exchange_all_reduce_mean(made, NULL, 0, 1) == PITH_SUCCESS);
  pith_exchange_destroy(made);
  pith_communicator_destroy(comm);
}

/// Sizes, and calls at the wrong time.
static void steps_are_refused(void) {
  float g[elements];
  size_t bytes = 0;
  pith_report report = {.size = sizeof report};
  pith_exchange* const exchange = make(NULL);
  fill(g);
  CHECK_INVALID(pith_exchange_all_reduce_mean(exchange, g, elements - 1, 1), "must have 28 elements, got 27");
  CHECK_INVALID(pith_exchange_all_reduce_mean(exchange, NULL, elements, 1),
                "gradients must have 28 elements, got null");
  CHECK_INVALID(pith_exchange_all_reduce_mean(exchange, g, elements, 2), "weight must be 1, got 2");
  CHECK_INVALID(pith_exchange_begin(exchange, g, elements + 1, 1), "must have 28 elements, got 29");
  CHECK_INVALID(pith_exchange_begin(exchange, NULL, elements, 1), "gradients must have 28 elements, got null");
  CHECK_INVALID(pith_exchange_begin(exchange, (char*)g + 1, elements, 1), "gradients");
  CHECK_INVALID(pith_exchange_begin_separate(exchange, 2), "weight must be 1, got 2");
  CHECK_INVALID(pith_exchange_ready(exchange, 0), "begin");
  CHECK_INVALID(pith_exchange_ready_separate(exchange, 0, g, 24), "begin");
  CHECK_INVALID(pith_exchange_wait(exchange), "begin");
  CHECK_INVALID(pith_exchange_fit_buckets(exchange), "must be called after a step");
  CHECK_INVALID(pith_exchange_rescale(exchange, 1e308 * 10), "factor must be finite");

  CHECK(pith_exchange_begin(exchange, g, elements, 1) == PITH_SUCCESS);
  CHECK_INVALID(pith_exchange_begin(exchange, g, elements, 1), "wait");
  CHECK_INVALID(pith_exchange_begin_separate(exchange, 1), "wait");
  CHECK_INVALID(pith_exchange_all_reduce_mean(exchange, g, elements, 1), "wait");
  CHECK_INVALID(pith_exchange_ready(exchange, 2), "tensor must be below 2, got 2");
  CHECK_INVALID(pith_exchange_ready_separate(exchange, 2, g, 24), "tensor must be below 2, got 2");
  CHECK_INVALID(pith_exchange_ready_separate(exchange, 0, g, 23), "gradient must have 24 elements, got 23");
  CHECK_INVALID(pith_exchange_ready_separate(exchange, 0, NULL, 24), "gradient must have 24 elements, got null");
  CHECK_INVALID(pith_exchange_rescale(exchange, 2), "wait");
  CHECK_INVALID(pith_exchange_fit_buckets(exchange), "wait");
  CHECK_INVALID(pith_exchange_change_codecs(exchange, &codec, 1), "wait");
  CHECK_INVALID(pith_exchange_report(exchange, &report), "wait");
  CHECK_INVALID(pith_exchange_state_bytes(exchange, 0, &bytes), "wait");
  CHECK_INVALID(pith_exchange_save(exchange, 0, g, sizeof g), "wait");
  CHECK_INVALID(pith_exchange_load(exchange, g, sizeof g), "wait");
  CHECK(pith_exchange_skip(exchange) == PITH_SUCCESS);
  CHECK(pith_exchange_skip(exchange) == PITH_SUCCESS && pith_exchange_abandon(exchange) == PITH_SUCCESS);

  CHECK(pith_exchange_begin_separate(exchange, 1) == PITH_SUCCESS);
  CHECK_INVALID(pith_exchange_ready(exchange, 0), "call ready(0, gradient)");
  CHECK_INVALID(pith_exchange_wait(exchange), "needs the gradient of tensor 0");
  CHECK(pith_exchange_ready_separate(exchange, 1, g + 24, 4) == PITH_SUCCESS);
  CHECK_INVALID(pith_exchange_ready_separate(exchange, 1, g + 24, 4), "tensor 1");
  CHECK(pith_exchange_ready_separate(exchange, 0, g, 24) == PITH_SUCCESS);
  CHECK_INVALID(pith_exchange_skip(exchange), "before a whole bucket is ready");
  CHECK(pith_exchange_abandon(exchange) == PITH_SUCCESS);
  pith_exchange_destroy(exchange);

  pith_exchange* const during = make(NULL);
  uint32_t failed = 2;
  CHECK(pith_exchange_has_failed(during, &failed) == PITH_SUCCESS && failed == 0);
  CHECK_INVALID(pith_exchange_has_failed(during, NULL), "failed must be a valid pointer, got null");
  CHECK(pith_exchange_begin(during, g, elements, 1) == PITH_SUCCESS && pith_exchange_ready(during, 1) == PITH_SUCCESS);
  pith_exchange_destroy(during);
}

int main(void) {
  CHECK(strcmp(pith_error(), "") == 0);
  CHECK(strncmp(pith_version(), "0.", 2) == 0);
  steps_are_equal();
  states_are_restored();
  options_are_applied();
  codecs_are_changed();
  unchanged_codecs_keep_states();
  codecs_are_loaded();
  null_exchanges_are_errors();
  exchanges_are_refused();
  steps_are_refused();
  printf("%d checks, %d failures\n", checks, failures);
  return failures == 0 && checks > 100 ? 0 : 1;
}
