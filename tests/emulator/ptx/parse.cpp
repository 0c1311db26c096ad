// parse.cpp — text of PTX into a module; bodies are kept as text until a kernel is launched.
#include <cstdlib>
#include <cstring>

#include "ptx/machine.hpp"

namespace emulator {

namespace {

std::uint64_t size_of(std::string const& type) {
  if (type == ".pred") return 1;
  auto const i = type.find_first_of("0123456789");
  return i == std::string::npos ? 4 : std::strtoull(type.c_str() + i, nullptr, 10) / 8;
}

struct lexer {
  char const* p;
  std::size_t line = 1;

  void skip() {
    for (;;) {
      if (*p == '\n') ++line, ++p;
      else if (*p == ' ' || *p == '\t' || *p == '\r') ++p;
      else if (p[0] == '/' && p[1] == '/') while (*p && *p != '\n') ++p;
      else if (p[0] == '/' && p[1] == '*') {
        while (*p && !(p[0] == '*' && p[1] == '/')) { if (*p == '\n') ++line; ++p; }
        if (*p) p += 2;
      } else return;
    }
  }
  static bool wordy(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' || c == '.'; }
  std::string next() {
    skip();
    if (!*p) return {};
    auto const* b = p;
    if (*p == '"') {
      ++p;
      while (*p && *p != '"') ++p;
      if (*p) ++p;
      return {b, p};
    }
    if (wordy(*p)) {
      while (wordy(*p) || (p[0] == ':' && p[1] == ':')) p += *p == ':' ? 2 : 1;
      return {b, p};
    }
    ++p;
    return {b, p};
  }
  std::string peek() {
    auto const at = *this;
    auto const t = next();
    p = at.p, line = at.line;
    return t;
  }
};

std::uint64_t align_up(std::uint64_t n, std::uint64_t a) { return (n + a - 1) / a * a; }

/// Reads ".param .align 8 .b8 name[n]" or ".param .u64 .ptr .align 1 name".
parameter read_param(lexer& in, std::uint64_t& at) {
  std::string t = in.next(), type;
  std::uint64_t align = 0, count = 1;
  for (; t[0] == '.'; t = in.next()) {
    if (t == ".align") { auto const a = std::stoull(in.next()); if (type.empty()) align = a; }
    else if (t.size() > 2 && std::strchr("bsufp", t[1]) && (std::isdigit(t[2]) || t == ".pred" || t.rfind(".bf", 0) == 0)) type = t;
  }
  auto name = t;
  if (in.peek() == "[") {
    in.next();
    auto const n = in.next();
    count = n == "]" ? 0 : std::stoull(n);
    if (n != "]") in.next();
  }
  auto const n = size_of(type);
  at = align_up(at, std::max(align, n));
  auto const made = parameter{name, at, n * count};
  at += n * count;
  return made;
}

}  // namespace

std::unique_ptr<module> parse(char const* text, heap& memory) {
  auto made = std::make_unique<module>();
  auto in = lexer{text};
  for (;;) {
    auto t = in.next();
    if (t.empty()) break;
    if (t == ".version" || t == ".target" || t == ".address_size") {
      in.next();
      while (in.peek() == ",") in.next(), in.next();
    } else if (t == ".file" || t == ".pragma") {
      auto const line = in.line;
      while (in.line == line && *in.p && *in.p != '\n') ++in.p;
    } else if (t == ".section") {
      while (in.next() != "}") {}
    } else if (t == ".visible" || t == ".extern" || t == ".weak" || t == ".common" || t == ";") {
    } else if (t == ".entry" || t == ".func") {
      auto f = std::make_unique<function>();
      f->entry = t == ".entry";
      f->owner = made.get();
      std::uint64_t at = 0;
      auto const list = [&](std::vector<parameter>& to) {
        in.next();
        while (in.peek() != ")") {
          if (in.peek() == ",") in.next();
          to.push_back(read_param(in, at));
        }
        in.next();
      };
      if (in.peek() == "(") list(f->returns);
      f->name = in.next();
      if (in.peek() == "(") list(f->params);
      f->param_bytes = at;
      for (t = in.next(); t != "{" && t != ";"; t = in.next()) {
        if (t == ".maxntid" || t == ".reqntid") {
          f->max_threads = static_cast<unsigned>(std::stoul(in.next()));
          while (in.peek() == ",") in.next(), f->max_threads *= static_cast<unsigned>(std::stoul(in.next()));
        }
      }
      if (t == "{") {
        auto const* b = in.p;
        f->body_line = in.line;
        int depth = 1;
        while (depth > 0) {
          in.skip();
          if (!*in.p) throw fault("PTX ends within a function");
          if (*in.p == '{') ++depth;
          if (*in.p == '}') --depth;
          in.next();
        }
        f->body.assign(b, in.p - 1);
        auto const name = f->name;
        made->functions[name] = std::move(f);
      } else if (!made->functions.count(f->name)) {
        auto const name = f->name;
        made->functions[name] = std::move(f);
      }
    } else if (t == ".global" || t == ".const" || t == ".shared") {
      variable v{t == ".const" ? 'c' : t == ".global" ? 'g' : 's', 0, 1, 0};
      std::string type;
      for (t = in.next(); t[0] == '.'; t = in.next()) {
        if (t == ".align") v.align = std::stoull(in.next());
        else if (t != ".attribute") type = t;
        if (t == ".attribute") while (in.next() != ")") {}
      }
      auto const name = t;
      auto const each = size_of(type);
      std::uint64_t count = 1;
      while (in.peek() == "[") {
        in.next();
        t = in.next();
        if (t == "]") count = 0;
        else count *= std::stoull(t), in.next();
      }
      if (count == 0) v.kind = v.kind == 's' ? 'x' : v.kind;
      v.align = std::max(v.align, each);
      v.size = each * count;
      if (v.kind == 'g' || v.kind == 'c') {
        auto* const p = memory.allocate(v.size, "a variable of a module");
        if (!p) throw fault("no memory for variable " + name);
        std::memset(memory.bytes(p), 0, v.size);
        memory.define(p, v.size);
        v.address = reinterpret_cast<std::uint64_t>(p);
      }
      if (in.peek() == "=") {
        in.next();
        auto* to = memory.bytes_of(v.address);
        bool minus = false;
        for (t = in.next(); t != ";"; t = in.next()) {
          if (t == "-") { minus = true; continue; }
          if (t == "{" || t == "}" || t == ",") continue;
          std::uint64_t bits = 0;
          if (t.size() == 10 && t[0] == '0' && (t[1] == 'f' || t[1] == 'F')) bits = std::strtoull(t.c_str() + 2, nullptr, 16);
          else if (t.size() == 18 && t[0] == '0' && (t[1] == 'd' || t[1] == 'D')) bits = std::strtoull(t.c_str() + 2, nullptr, 16);
          else if (std::isdigit(static_cast<unsigned char>(t[0]))) bits = std::strtoull(t.c_str(), nullptr, 0);
          else bits = 0;  // an address of another variable or function: not needed so far
          if (minus) bits = -bits, minus = false;
          std::memcpy(to, &bits, each);
          to += each;
        }
      } else {
        while (in.next() != ";") {}
      }
      made->variables[name] = std::move(v);
    } else {
      throw fault("PTX: not expected at module level, line " + std::to_string(in.line) + ": " + t);
    }
  }
  return made;
}

}  // namespace emulator
