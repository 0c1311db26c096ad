// tests/emulator/ptx/decoder.cpp — the body of a function becomes instructions and the first values of a frame.
#include <algorithm>
#include <cstdlib>
#include <optional>

#include "ptx/constants.hpp"
#include "ptx/fault.hpp"
#include "ptx/fuse.hpp"
#include "ptx/lexer.hpp"
#include "ptx/names.hpp"
#include "ptx/opcodes.hpp"
#include "ptx/options.hpp"

namespace emulator {

namespace {

std::uint64_t integer(std::string const& word) { return std::strtoull(word.c_str(), nullptr, 0); }

class decoder {
 public:
  explicit decoder(function& f) : f_(f), in_(f.body.c_str(), f.body_line), names_(f) {
    for (auto const* list : {&f.returns, &f.params})
      for (auto const& p : *list) names_.declare(p.name, f.entry ? base::entry_argument : base::argument, p.offset);
  }

  void run() {
    for (in_.skip_space(); !in_.peek().empty(); in_.skip_space()) statement();
    add(instruction(), "ret at the end", opcodes().at("ret"));
    for (auto const& [at, label] : jumps_) f_.code[at].imm = static_cast<std::int64_t>(place_of(label));
    for (auto const& [at, table] : table_jumps_)
      for (auto const& label : tables_[table]) f_.code[at].more.push_back(static_cast<std::uint32_t>(place_of(label)));
  }

 private:
  // Statements.

  void statement() {
    auto const* const begin = in_.position();
    auto const line = in_.line();
    auto const word = in_.next();
    if (word == ";") return;
    if (word == "{") return names_.open_scope();
    if (word == "}") return names_.close_scope();
    if (word == ".reg") return registers();
    if (word == ".local" || word == ".shared" || word == ".param") return variable_of(word);
    if (word == ".loc") return location();
    if (word == ".pragma" || word == ".callprototype") return in_.skip_past(";");
    if (in_.peek() == ":") return label(word);
    instruction_of(word, begin, line);
  }

  void label(std::string const& name) {
    in_.skip_past(":");
    places_[name] = f_.code.size();
    if (!in_.accept(".branchtargets")) return;
    for (auto word = in_.next(); word != ";"; word = in_.next())
      if (word != ",") tables_[name].push_back(word);
  }

  /// Reads ".loc 1 3 3, function_name $L, inlined_at 1 7 3".
  void location() {
    auto const line = in_.line();
    auto places = source_places{place()};
    for (in_.skip_space(); in_.line() == line && !in_.peek().empty(); in_.skip_space()) {
      if (in_.next() != "inlined_at") continue;
      auto const outer = places_from(place());
      places.insert(places.end(), outer.begin(), outer.end());
    }
    f_.sources.push_back(std::move(places));
  }
  source_place place() {
    auto const number = [this] { return static_cast<std::uint32_t>(integer(in_.next())); };
    auto const file = number(), line = number();
    return {file, line, number()};
  }
  /// This place and those that it was inlined into, by the last location that begins with it.
  source_places places_from(source_place const& p) const {
    auto const at = std::find_if(f_.sources.rbegin(), f_.sources.rend(),
                                 [&](source_places const& s) { return !s.empty() && s.front() == p; });
    return at == f_.sources.rend() ? source_places{p} : *at;
  }

  void registers() {
    in_.next();  // the type
    do {
      auto const name = in_.next();
      if (in_.accept("<")) {
        names_.add_registers(name);
        in_.skip_past(">");
      } else {
        names_.add_register(name);
      }
    } while (in_.next() == ",");
  }

  void variable_of(std::string const& where) {
    std::uint64_t align = 1, count = 1;
    auto type = std::string(), word = in_.next();
    for (; word[0] == '.'; word = in_.next()) {
      if (word == ".align")
        align = integer(in_.next());
      else
        type = word;
    }
    while (in_.accept("[")) count *= integer(in_.next()), in_.skip_past("]");
    in_.skip_past(";");

    auto& total = where == ".local" ? f_.local_bytes : where == ".shared" ? f_.shared_bytes : f_.param_bytes;
    total = align_up(total, std::max(align, size_of(type)));
    names_.declare(word, where == ".local" ? base::local : where == ".shared" ? base::shared : base::argument, total);
    total += size_of(type) * count;
  }

  void instruction_of(std::string word, char const* begin, std::size_t line) {
    instruction i;
    if (word == "@") {
      i.negated = in_.accept("!");
      i.predicate = static_cast<std::int32_t>(find(in_.next()));
      word = in_.next();
    }
    auto const words = split(word);
    if (words[0] == "call") return call(i, begin, line);
    auto const text = draft{words, operands(words.back())};
    operands_in_order(text, i);
    if (words[0] == "bra") jumps_.emplace_back(f_.code.size(), text.operands[0].name);
    if (words[0] == "brx") table_jumps_.emplace_back(f_.code.size(), text.operands[1].name);
    auto const select = selector_of(text);
    if (select && !lacks(text)) i.run = select(text, i);
    add(std::move(i), begin, line);
  }

  static std::vector<std::string> split(std::string const& word) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin <= word.size();) {
      auto const end = std::min(word.find('.', begin), word.size());
      parts.push_back(word.substr(begin, end - begin));
      begin = end + 1;
    }
    return parts;
  }

  static void operands_in_order(draft const& text, instruction& i) {
    i.d = text.slot(0), i.a = text.slot(1), i.b = text.slot(2), i.c = text.slot(3), i.e = text.slot(4);
    if (!text.operands.empty()) i.d2 = text.operands[0].second;
    i.mode = text.rounding();
    if (text.has("shared") || text.has("shared::cta")) i.where = space::shared;
    if (text.has("global") || text.has("const")) i.where = space::global;
    if (text.has("local")) i.where = space::local;
    if (text.has("param") || text.has("param::entry") || text.has("param::func")) i.where = space::param;
  }

  /// Words that change what an instruction does and that no handler obeys.
  static bool lacks(draft const& text) {
    for (auto const* word :
         {"ftz", "cc", "NaN", "xorsign", "relu", "satfinite", "pack", "rna", "rs", "b128", "v8", "noftz"})
      if (text.has(word)) return true;
    return text.has("sat") && text.words[0] != "cvt";
  }

  /// Reads "(results), name, (arguments)".
  void call(instruction i, char const* begin, std::size_t line) {
    if (in_.peek() == "(") i.more = arguments(), in_.accept(",");
    auto const name = in_.next();
    if (in_.accept(","))
      for (auto const slot : arguments()) i.more.push_back(slot);
    auto const at = f_.owner->functions.find(name);
    auto const has_body = at != f_.owner->functions.end() && !at->second->body.empty();
    if (has_body) i.callee = at->second.get(), i.run = opcodes().at("call")({}, i);
    add(std::move(i), begin, line);
  }

  std::vector<std::uint32_t> arguments() {
    std::vector<std::uint32_t> slots;
    in_.skip_past("(");
    for (auto word = in_.next(); word != ")"; word = in_.next())
      if (word != ",") slots.push_back(find(word));
    return slots;
  }

  /// Adds an instruction that ends here.
  void add(instruction i, char const* begin, std::size_t line) {
    auto const text = std::string(begin, in_.position());
    in_.skip_past(";");
    if (!i.run) i.run = run_lacking;
    i.line = static_cast<std::uint32_t>(line);
    f_.origins.push_back({in_one_line(text), f_.sources.size() - 1});
    f_.code.push_back(std::move(i));
  }
  void add(instruction i, char const* text, selector select) {
    i.run = select({}, i);
    i.line = static_cast<std::uint32_t>(in_.line());
    f_.origins.push_back({text, f_.sources.size() - 1});
    f_.code.push_back(std::move(i));
  }

  static std::string in_one_line(std::string const& text) {
    auto made = std::string();
    for (auto const c : text) {
      auto const is_space = c == ' ' || c == '\n' || c == '\t';
      if (!is_space)
        made += c;
      else if (!made.empty() && made.back() != ' ')
        made += ' ';
    }
    return made;
  }

  // Operands.

  std::vector<operand> operands(std::string const& type) {
    std::vector<operand> list;
    while (in_.peek() != ";")
      if (!in_.accept(",")) list.push_back(operand_of(type));
    return list;
  }

  operand operand_of(std::string const& type) {
    if (in_.accept("[")) return address();
    if (in_.accept("{")) return vector(type);
    operand o;
    o.negated = in_.accept("!");
    if (auto const bits = constant_of(type)) {
      o.slot = names_.constant(*bits);
      return o;
    }
    o.name = in_.next();
    o.slot = names_.find(o.name);
    if (o.slot == 0) o.of = operand::kind::name;
    if (in_.accept("|")) o.second = find(in_.next());
    return o;
  }

  /// The next token, if it is a number.
  std::optional<std::uint64_t> constant_of(std::string const& type) {
    auto const minus = in_.peek() == "-";
    auto after = in_;
    if (minus) after.next();
    auto const bits = constant_bits(after.peek(), type, minus);
    if (bits) after.next(), in_ = after;
    return bits;
  }

  /// Reads "%rd1+-4]".
  operand address() {
    operand o;
    o.of = operand::kind::address;
    auto const bits = constant_of("u64");
    o.slot = bits ? names_.constant(*bits) : find(in_.next());
    for (auto word = in_.next(); word != "]"; word = in_.next()) {
      if (word != "+" && word != "-")
        throw fault("PTX line " + std::to_string(in_.line()) + ": an address with '" + word + "'");
      auto const minus = (word == "-") != in_.accept("-");
      auto const n = static_cast<std::int64_t>(integer(in_.next()));
      o.offset += minus ? -n : n;
    }
    return o;
  }

  operand vector(std::string const& type) {
    operand o;
    o.of = operand::kind::vector;
    while (!in_.accept("}")) {
      in_.accept(",");
      auto const bits = constant_of(type);
      o.slots.push_back(bits ? names_.constant(*bits) : find(in_.next()));
    }
    return o;
  }

  std::uint32_t find(std::string const& name) {
    auto const slot = names_.find(name);
    if (slot == 0 && name != "_") throw fault("PTX line " + std::to_string(in_.line()) + ": unknown name " + name);
    return slot;
  }

  std::size_t place_of(std::string const& label) const {
    auto const at = places_.find(label);
    if (at == places_.end()) throw fault("PTX of " + f_.name + ": no label " + label);
    return at->second;
  }

  function& f_;
  lexer in_;
  name_table names_;
  std::map<std::string, std::size_t> places_;  // of labels
  std::map<std::string, std::vector<std::string>> tables_;
  std::vector<std::pair<std::size_t, std::string>> jumps_, table_jumps_;
};

}  // namespace

void decode(function& f) {
  if (f.decoded) return;
  if (f.body.empty()) throw fault("the PTX of " + f.name + " has no body");
  f.decoded = true;
  decoder(f).run();
  if (!f.entry && f.shared_bytes > 0)
    throw fault("the emulator lacks shared variables of functions that are called: " + f.name);
  if (opt.fuse) fuse(f);
}

}  // namespace emulator
