// cmake/runtime/c_interface.cpp — compiles the C interface.
#include <pith/comm/function_communicator.hpp>
#include <pith/comm/self.hpp>
#include <pith/exchange/reshard.hpp>
#include <pith/runtime/gradient_exchange.hpp>
#include <pith/version.hpp>
#include "c_calls.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace runtime {

namespace {

#if defined(PITH_RUNTIME_WITHOUT_BFLOAT16)
using exchange_variant = std::variant<gradient_exchange<float>>;
#else
using exchange_variant = std::variant<gradient_exchange<float>, gradient_exchange<bfloat16>>;
#endif

thread_local auto error_text = std::string();
thread_local char const* error_shown = "";

void require_list(char const* call, char const* argument, void const* first, std::size_t count) {
  require_argument(first != nullptr || count == 0, call, argument, " must have ", count, " entries, got null");
}
template <class Struct>
void require_struct(char const* call, char const* argument, Struct const* given) {
  require_pointer(call, argument, given);
  require_argument(given->size == sizeof(Struct), call, argument, "->size must be ", sizeof(Struct), ", got ",
                   given->size);
}

std::vector<tensor_spec> tensors_of(char const* call, pith_tensor const* tensors, std::size_t count) {
  auto room = std::uint64_t{PTRDIFF_MAX} / sizeof(double);
  require_argument(count <= room, call, "tensor_count must be at most ", room, ", got ", count);
  require_list(call, "tensors", tensors, count);
  auto all = std::vector<tensor_spec>();
  for (std::size_t i = 0; i < count; ++i) {
    auto const& [name, rows, columns] = tensors[i];
    require_argument(name != nullptr, call, "tensors[", i, "].name must be a text, got null");
    require_argument(columns == 0 || rows <= room / columns, call, "tensors[", i, "] must have at most ", room,
                     " elements, got ", rows, " rows of ", columns);
    room -= rows * columns;
    all.push_back({name, matrix(rows, columns)});
  }
  return all;
}

/// One codec per tensor.
template <class In>
std::vector<any_codec<In>> codecs_of(char const* call, char const* const* codecs, std::size_t count,
                                     std::size_t tensors) {
  require_argument(count == 1 || count == tensors, call, "codec_count must be 1 or ", tensors, ", got ", count);
  require_list(call, "codecs", codecs, count);
  auto all = std::vector<any_codec<In>>();
  for (std::size_t i = 0; i < count; ++i) {
    require_argument(codecs[i] != nullptr, call, "codecs[", i, "] must be a text, got null");
    all.push_back(parse<In>(codecs[i]));
  }
  return count == tensors ? all : std::vector<any_codec<In>>(tensors, all[0]);
}

std::uint32_t below(char const* call, char const* argument, std::uint32_t end, std::uint32_t given) {
  require_argument(given < end, call, "options->", argument, " must be below ", end, ", got ", given);
  return given;
}

void require_element(char const* call, std::uint32_t given) {
  below(call, "element", 2, given);
#if defined(PITH_RUNTIME_WITHOUT_BFLOAT16)
  require_argument(given == PITH_FLOAT, call, "options->element must be PITH_FLOAT, got PITH_BFLOAT16: ",
                   "this library is compiled for float only: add bfloat16 to PITH_RUNTIME_ELEMENTS");
#endif
}

static_assert(int(gather::padded) == PITH_GATHER_PADDED && int(gather::exact) == PITH_GATHER_EXACT &&
              int(gather::predicted) == PITH_GATHER_PREDICTED);
static_assert(int(verify::when_built) == PITH_VERIFY_WHEN_BUILT && int(verify::each_step) == PITH_VERIFY_EACH_STEP);

exchange_options options_of(char const* call, pith_exchange_options const& given) {
  require_element(call, given.element);
  auto options = exchange_options();
  options.seed = given.seed;
  options.gather_mode = static_cast<gather>(below(call, "gather_mode", 3, given.gather_mode));
  if (given.bucket_bytes > 0) options.bucket_bytes = given.bucket_bytes;
  options.is_weighted = below(call, "is_weighted", 2, given.is_weighted) == 1;
  options.verification = static_cast<verify>(below(call, "verification", 2, given.verification));
  options.is_recoverable = below(call, "is_recoverable", 2, given.is_recoverable) == 1;
  return options;
}

/// The arguments of pith_exchange_make.
struct exchange_arguments {
  char const* call;
  pith_tensor const* tensors;
  std::size_t tensor_count;
  char const* const* codecs;
  std::size_t codec_count;
  pith_exchange_options const* options;

  /// The caller's options, or the defaults if the caller passed none or an invalid struct.
  pith_exchange_options chosen() const {
    return options != nullptr && options->size == sizeof *options ? *options : pith_exchange_options();
  }
};

/// Makes an exchange. If an argument is invalid, the constructor receives the error from its policy, and sends it to the
/// other ranks.
template <class In>
gradient_exchange<In> made_exchange(any_communicator& comm, exchange_arguments const& given) {
  auto tensors = std::vector<tensor_spec>{{"", vector(1)}};
  auto codecs = std::vector<any_codec<In>>();
  auto options = exchange_options();
  auto exec = executor();
  auto failure = std::exception_ptr();
  try {
    if (given.options != nullptr) require_struct(given.call, "options", given.options);
    auto const chosen = given.chosen();
    if (chosen.threads > 1) exec = executor(chosen.threads);
    options = options_of(given.call, chosen);
    auto listed = tensors_of(given.call, given.tensors, given.tensor_count);
    codecs = codecs_of<In>(given.call, given.codecs, given.codec_count, given.tensor_count);
    tensors = std::move(listed);
  } catch (...) {
    failure = std::current_exception();
  }
  auto const policy = [&, next = codecs.begin()](tensor_spec const&) mutable {
    if (failure) std::rethrow_exception(failure);
    return *next++;
  };
  return gradient_exchange<In>(exec, comm, std::move(tensors), policy, options);
}

exchange_variant exchange_of(any_communicator& comm, exchange_arguments const& given) {
#if !defined(PITH_RUNTIME_WITHOUT_BFLOAT16)
  if (given.chosen().element == PITH_BFLOAT16) return made_exchange<bfloat16>(comm, given);
#endif
  return made_exchange<float>(comm, given);  // refuses other elements
}

/// The array of a gradient.
template <class In>
span<In> gradient_of(char const* call, char const* argument, void* first, std::uint64_t elements) {
  require_argument(first != nullptr || elements == 0, call, argument, " must have ", elements, " elements, got null");
  return {static_cast<In*>(first), elements};
}

std::vector<std::vector<std::byte>> states_of(char const* call, void const* const* states, std::size_t const* bytes,
                                              std::size_t count) {
  require_list(call, "states", states, count);
  require_list(call, "bytes", bytes, count);
  auto all = std::vector<std::vector<std::byte>>();
  for (std::size_t i = 0; i < count; ++i) {
    if (states[i] == nullptr && bytes[i] == 0) continue;  // of a lost rank
    require_argument(states[i] != nullptr, call, "states[", i, "] must have ", bytes[i], " bytes, got null");
    auto const* const first = static_cast<std::byte const*>(states[i]);
    all.emplace_back(first, first + bytes[i]);
  }
  return all;
}

send_recv_function function_of(pith_send_recv send_recv, void* context) {
  return [=](span<std::byte const> mine, unsigned to, span<std::byte> theirs, unsigned from) {
    auto const failure = send_recv(context, mine.data(), mine.size(), to, theirs.data(), theirs.size(), from);
    if (failure == 0) return;
    throw communication_error(detail::text("pith_send_recv: must return 0, got ", failure, " when sending ",
                                           mine.size(), " bytes to rank ", to, " and receiving ", theirs.size(),
                                           " bytes from rank ", from));
  };
}

template <class Report>
void fill(Report& to, tensor_report const& from) {
  to.elements = from.elements;
  to.dense_bytes = from.dense_bytes;
  to.wire_bytes = from.wire_bytes;
  to.encode_seconds = from.encode_seconds;
  to.transfer_seconds = from.transfer_seconds;
  to.decode_seconds = from.decode_seconds;
}

}  // namespace

pith_status failed(pith_status status, char const* text) noexcept {
  try {
    error_text = text;
    error_shown = error_text.c_str();
  } catch (...) {
    error_shown = "pith: out of memory";
  }
  return status;
}

}}}  // namespace pith::PITH_ABI::runtime

struct pith_exchange {
  std::shared_ptr<pith::any_communicator> comm;  // outlives the exchange
  pith::runtime::exchange_variant of;
};

namespace pith { inline namespace PITH_ABI { namespace runtime {

namespace {

bool has_failed(pith_exchange const& exchange) {
  return std::visit([](auto const& of) { return of.has_failed(); }, exchange.of);
}

/// Calls f(exchange) with the exchange of a handle. An invalid argument that a step finds late makes the step fail, so
/// it is no PITH_INVALID_ARGUMENT.
template <class F>
pith_status on(char const* call, pith_exchange* exchange, F const& f) noexcept {
  auto const had_failed = exchange == nullptr || has_failed(*exchange);
  auto const status = guarded([&] {
    require_pointer(call, "exchange", exchange);
    std::visit(f, exchange->of);
  });
  return status == PITH_INVALID_ARGUMENT && !had_failed && has_failed(*exchange) ? PITH_OTHER_ERROR : status;
}

/// Returns f(), which checks the arguments of a call that all ranks make. If f throws, refuse() makes the call without
/// codecs: the exchange refuses it on this rank, and sends an error to the other ranks.
template <class F, class Refuse>
auto checked_or(Refuse const& refuse, F const& f) {
  try {
    return f();
  } catch (...) {
    try {
      refuse();
    } catch (...) {
    }
    throw;
  }
}

/// The codecs of a change. A codec whose text stays the same is the same object, and keeps its state.
template <class In>
std::vector<any_codec<In>> next_codecs(gradient_exchange<In> const& of, char const* call, char const* const* codecs,
                                       std::size_t count) {
  auto all = codecs_of<In>(call, codecs, count, of.tensors().size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].name() == of.codecs()[i].name()) all[i] = of.codecs()[i];
  }
  return all;
}

}  // namespace

extern "C" {  // in the namespace of their helpers; the names of functions with C linkage have no namespace

char const* pith_error(void) { return error_shown; }
char const* pith_version(void) {
  static auto const version = detail::text(PITH_VERSION_MAJOR, '.', PITH_VERSION_MINOR, '.', PITH_VERSION_PATCH);
  return version.c_str();
}

int pith_communicator_make_self(std::uint32_t interface_version, pith_communicator** made) {
  return make_communicator("pith_communicator_make_self", PITH_INTERFACE, interface_version, made,
                           [] { return any_communicator::owning([] { return self_communicator(); }); });
}
int pith_communicator_make_function(std::uint32_t interface_version, std::uint32_t rank, std::uint32_t ranks,
                                    pith_send_recv send_recv, void* context, pith_communicator** made) {
  constexpr auto* call = "pith_communicator_make_function";
  return make_communicator(call, PITH_INTERFACE, interface_version, made, [&] {
    require_argument(ranks > 0, call, "ranks must be at least 1, got 0");
    require_argument(rank < ranks, call, "rank must be below ", ranks, ", got ", rank);
    require_argument(send_recv != nullptr, call, "send_recv must be a function, got null");
    return any_communicator::owning(
        [&] { return function_communicator(rank, ranks, function_of(send_recv, context)); });
  });
}
void pith_communicator_destroy(pith_communicator* communicator) { delete communicator; }

int pith_exchange_make(std::uint32_t interface_version, pith_communicator* communicator, pith_tensor const* tensors,
                       std::size_t tensor_count, char const* const* codecs, std::size_t codec_count,
                       pith_exchange_options const* options, pith_exchange** made) {
  return guarded([&] {
    constexpr auto* call = "pith_exchange_make";
    require_pointer(call, "made", made);
    *made = nullptr;
    require_interface(call, PITH_INTERFACE, interface_version);
    require_pointer(call, "communicator", communicator);
    auto of = exchange_of(*communicator->shared, {call, tensors, tensor_count, codecs, codec_count, options});
    *made = new pith_exchange{communicator->shared, std::move(of)};
  });
}
void pith_exchange_destroy(pith_exchange* exchange) { delete exchange; }

int pith_exchange_all_reduce_mean(pith_exchange* exchange, void* gradients, std::uint64_t elements, double weight) {
  constexpr auto* call = "pith_exchange_all_reduce_mean";
  return on(call, exchange, [&]<class In>(gradient_exchange<In>& of) {
    of.all_reduce_mean(gradient_of<In>(call, "gradients", gradients, elements), weight);
  });
}

int pith_exchange_begin(pith_exchange* exchange, void* gradients, std::uint64_t elements, double weight) {
  constexpr auto* call = "pith_exchange_begin";
  return on(call, exchange, [&]<class In>(gradient_exchange<In>& of) {
    of.begin(gradient_of<In>(call, "gradients", gradients, elements), weight);
  });
}
int pith_exchange_ready(pith_exchange* exchange, std::size_t tensor) {
  return on("pith_exchange_ready", exchange, [&](auto& of) { of.ready(tensor); });
}
int pith_exchange_begin_separate(pith_exchange* exchange, double weight) {
  return on("pith_exchange_begin_separate", exchange, [&](auto& of) { of.begin(weight); });
}
int pith_exchange_ready_separate(pith_exchange* exchange, std::size_t tensor, void* gradient, std::uint64_t elements) {
  constexpr auto* call = "pith_exchange_ready_separate";
  return on(call, exchange, [&]<class In>(gradient_exchange<In>& of) {
    of.ready(tensor, gradient_of<In>(call, "gradient", gradient, elements));
  });
}
int pith_exchange_wait(pith_exchange* exchange) {
  return on("pith_exchange_wait", exchange, [](auto& of) { of.wait(); });
}
int pith_exchange_skip(pith_exchange* exchange) {
  return on("pith_exchange_skip", exchange, [](auto& of) { of.skip(); });
}
int pith_exchange_abandon(pith_exchange* exchange) {
  return on("pith_exchange_abandon", exchange, [](auto& of) { of.abandon(); });
}

int pith_exchange_has_failed(pith_exchange* exchange, std::uint32_t* failed) {
  constexpr auto* call = "pith_exchange_has_failed";
  return on(call, exchange, [&](auto& of) {
    require_pointer(call, "failed", failed);
    *failed = of.has_failed() ? 1 : 0;
  });
}

int pith_exchange_fit_buckets(pith_exchange* exchange) {
  return on("pith_exchange_fit_buckets", exchange, [](auto& of) { of.fit_buckets(); });
}
int pith_exchange_rescale(pith_exchange* exchange, double factor) {
  return on("pith_exchange_rescale", exchange, [&](auto& of) { of.rescale(factor); });
}
int pith_exchange_change_codecs(pith_exchange* exchange, char const* const* codecs, std::size_t codec_count) {
  constexpr auto* call = "pith_exchange_change_codecs";
  return on(call, exchange, [&](auto& of) {
    of.change(checked_or([&] { of.change({}); }, [&] { return next_codecs(of, call, codecs, codec_count); }));
  });
}

int pith_exchange_report(pith_exchange* exchange, pith_report* report) {
  constexpr auto* call = "pith_exchange_report";
  return on(call, exchange, [&](auto& of) {
    require_struct(call, "report", report);
    auto const all = of.report();
    fill(*report, all.total);
    report->buckets = all.buckets;
    report->wait_seconds = all.wait_seconds;
  });
}
int pith_exchange_tensor_report(pith_exchange* exchange, std::size_t tensor, pith_tensor_report* report) {
  constexpr auto* call = "pith_exchange_tensor_report";
  return on(call, exchange, [&](auto& of) {
    require_struct(call, "report", report);
    auto const tensors = of.report().tensors;
    require_argument(tensor < tensors.size(), call, "tensor must be below ", tensors.size(), ", got ", tensor);
    fill(*report, tensors[tensor]);
    report->bucket = tensors[tensor].bucket;
    report->ready_seconds = tensors[tensor].ready_seconds;
  });
}

int pith_exchange_state_bytes(pith_exchange* exchange, std::uint32_t steps_back, std::size_t* bytes) {
  constexpr auto* call = "pith_exchange_state_bytes";
  return on(call, exchange, [&](auto& of) {
    require_pointer(call, "bytes", bytes);
    *bytes = of.export_state(steps_back).size();
  });
}
int pith_exchange_save(pith_exchange* exchange, std::uint32_t steps_back, void* state, std::size_t bytes) {
  constexpr auto* call = "pith_exchange_save";
  return on(call, exchange, [&](auto& of) {
    require_pointer(call, "state", state);
    auto const saved = of.export_state(steps_back);
    require_argument(bytes == saved.size(), call, "bytes must be ", saved.size(), ", got ", bytes);
    std::memcpy(state, saved.data(), bytes);
  });
}
int pith_exchange_load(pith_exchange* exchange, void const* state, std::size_t bytes) {
  constexpr auto* call = "pith_exchange_load";
  return on(call, exchange, [&](auto& of) {
    require_pointer(call, "state", state);
    of.import_state({static_cast<std::byte const*>(state), bytes});
  });
}
int pith_exchange_load_with_codecs(pith_exchange* exchange, void const* state, std::size_t bytes,
                                   char const* const* codecs, std::size_t codec_count) {
  constexpr auto* call = "pith_exchange_load_with_codecs";
  return on(call, exchange, [&](auto& of) {
    auto const refuse = [&] { of.import_state({}, {}); };
    auto const next = checked_or(refuse, [&] {
      require_pointer(call, "state", state);
      return next_codecs(of, call, codecs, codec_count);
    });
    of.import_state({static_cast<std::byte const*>(state), bytes}, next);
  });
}
int pith_exchange_load_resharded(pith_exchange* exchange, void const* const* states, std::size_t const* bytes,
                                 std::size_t state_count) {
  constexpr auto* call = "pith_exchange_load_resharded";
  return on(call, exchange, [&](auto& of) {
    auto const& comm = *exchange->comm;
    of.import_state(reshard(states_of(call, states, bytes, state_count), comm.size(), comm.rank()));
  });
}

}  // extern "C"

}}}  // namespace pith::PITH_ABI::runtime
