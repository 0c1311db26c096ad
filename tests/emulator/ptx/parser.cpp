// tests/emulator/ptx/parser.cpp — the declarations of a module; bodies of functions stay text until they are decoded.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>

#include "ptx/fault.hpp"
#include "ptx/heap.hpp"
#include "ptx/lexer.hpp"
#include "ptx/module.hpp"

namespace emulator {

namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
std::uint64_t number(std::string const& word) { return std::strtoull(word.c_str(), nullptr, 0); }
bool is_type(std::string const& word) {
  return word.size() > 2 && std::strchr("bsuf", word[1]) && is_digit(word.back());
}

class parser {
 public:
  parser(char const* text, heap& memory) : in_(text, 1), memory_(memory), made_(std::make_unique<module>()) {}

  std::unique_ptr<module> run() {
    for (auto word = in_.next(); !word.empty(); word = in_.next()) declaration(word);
    return std::move(made_);
  }

 private:
  struct declared {
    std::string name;
    std::uint64_t each = 4, align = 1, count = 1;
    bool sized = true;
  };

  void declaration(std::string const& word) {
    if (word == ".entry" || word == ".func") return function_of(word);
    if (word == ".global" || word == ".const" || word == ".shared") return variable_of(word);
    if (word == ".file") return file();
    if (word == ".section") return in_.skip_past("}");
    if (word == ".target") return target();
    if (word == ".version" || word == ".address_size" || word == ".pragma") return in_.skip_line();
    if (word == ".visible" || word == ".extern" || word == ".weak" || word == ".common" || word == ";") return;
    throw fault("PTX line " + std::to_string(in_.line()) + ": '" + word + "' begins no declaration");
  }

  /// As in ".target sm_90a, debug".
  void target() {
    auto const name = in_.next();
    made_->architecture = std::atoi(name.c_str() + name.find('_') + 1);
    in_.skip_line();
  }

  void file() {
    auto const index = static_cast<std::uint32_t>(number(in_.next()));
    auto const name = in_.next();
    made_->files[index] = name.substr(1, name.size() - 2);
    in_.skip_line();
  }

  /// Reads ".align 8 .b8 name[n]" or ".u64 .ptr .align 1 name", where the alignment is that of what is pointed to.
  declared declarator() {
    declared d;
    auto typed = false;
    auto word = in_.next();
    for (; word[0] == '.'; word = in_.next()) {
      if (word == ".align") {
        auto const align = number(in_.next());
        if (!typed) d.align = align;
      } else if (word == ".attribute") {
        in_.skip_past(")");
      } else if (is_type(word)) {
        d.each = size_of(word), typed = true;
      }
    }
    d.name = word;
    d.align = std::max(d.align, d.each);
    while (in_.accept("[")) {
      if (in_.accept("]")) {
        d.sized = false;
        continue;
      }
      d.count *= number(in_.next());
      in_.skip_past("]");
    }
    return d;
  }

  std::vector<parameter> parameters(std::uint64_t& at) {
    std::vector<parameter> list;
    in_.skip_past("(");
    while (!in_.accept(")")) {
      in_.accept(",");
      auto const d = declarator();
      at = align_up(at, d.align);
      list.push_back({d.name, at, d.each * d.count});
      at += d.each * d.count;
    }
    return list;
  }

  void function_of(std::string const& word) {
    auto f = std::make_unique<function>();
    f->entry = word == ".entry";
    f->owner = made_.get();
    if (in_.peek() == "(") f->returns = parameters(f->param_bytes);
    f->name = in_.next();
    if (in_.peek() == "(") f->params = parameters(f->param_bytes);
    auto const has_body = directives(*f);
    if (has_body) body(*f);
    auto& place = made_->functions[f->name];
    if (has_body || !place) place = std::move(f);
  }

  /// Reads what stands between parameters and body; whether there is a body.
  bool directives(function& f) {
    for (auto word = in_.next(); word != "{"; word = in_.next()) {
      if (word == ";" || word.empty()) return false;
      if (word != ".maxntid" && word != ".reqntid") continue;
      f.max_threads = static_cast<unsigned>(number(in_.next()));
      while (in_.accept(",")) f.max_threads *= static_cast<unsigned>(number(in_.next()));
    }
    return true;
  }

  void body(function& f) {
    auto const* const begin = in_.position();
    f.body_line = in_.line();
    for (auto depth = 1; depth > 0;) {
      auto const word = in_.next();
      if (word.empty()) throw fault("PTX ends within function " + f.name);
      depth += word == "{" ? 1 : word == "}" ? -1 : 0;
    }
    f.body.assign(begin, in_.position() - 1);
  }

  void variable_of(std::string const& word) {
    auto const d = declarator();
    variable v;
    v.size = d.each * d.count, v.align = d.align;
    if (word == ".shared")
      v.of = d.sized ? variable::kind::shared : variable::kind::dynamic_shared;
    else
      v.address = allocate(d.name, v.size);
    if (in_.accept("="))
      initialise(memory_.bytes_of(v.address), d.each);
    else
      in_.skip_past(";");
    made_->variables[d.name] = v;
  }

  std::uint64_t allocate(std::string const& name, std::uint64_t size) {
    auto* const p = memory_.allocate(size, heap::variable);
    if (!p) throw fault("there is no memory for variable " + name);
    std::memset(memory_.bytes(p), 0, size);
    memory_.define(p, size);
    return reinterpret_cast<std::uint64_t>(p);
  }

  /// Reads "{1, 0f3F800000, -2};". An address of another variable stays zero.
  void initialise(unsigned char* to, std::uint64_t each) {
    auto minus = false;
    for (auto word = in_.next(); word != ";"; word = in_.next()) {
      if (word == "-") minus = true;
      if (word == "-" || word == "{" || word == "}" || word == ",") continue;
      auto const is_float = word[0] == '0' && word.size() > 2 && std::strchr("fFdD", word[1]);
      auto bits = is_float ? std::strtoull(word.c_str() + 2, nullptr, 16) : is_digit(word[0]) ? number(word) : 0;
      if (minus) bits = 0 - bits, minus = false;
      std::memcpy(to, &bits, each);
      to += each;
    }
  }

  lexer in_;
  heap& memory_;
  std::unique_ptr<module> made_;
};

}  // namespace

std::uint64_t size_of(std::string const& type) {
  auto const digits = type.find_first_of("0123456789");
  return digits == std::string::npos ? 1 : std::strtoull(type.c_str() + digits, nullptr, 10) / 8;
}

std::unique_ptr<module> parse(char const* text, heap& memory) { return parser(text, memory).run(); }

}  // namespace emulator
