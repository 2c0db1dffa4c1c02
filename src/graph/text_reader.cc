// Reads the text form of a graph.
#include <cctype>
#include <charconv>
#include <cstring>
#include <limits>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "graph/text.h"

namespace forethought {
namespace {

constexpr int kMaxDepth = 64;

class Reader {
 public:
  explicit Reader(std::string_view text) : s_(text) {}

  StatusOr<std::unique_ptr<Graph>> read() {
    auto g = std::make_unique<Graph>();
    Status s = graph(*g, 0);
    skip();
    if (s.ok() && p_ != s_.size()) s = error("text follows the graph");
    if (!s.ok()) return s;
    RETURN_IF_ERROR(validate(*g));
    return g;
  }

 private:
  // --- Characters
  Status error(std::string_view what) const {
    int line = 1, column = 1;
    for (size_t i = 0; i < p_ && i < s_.size(); ++i) s_[i] == '\n' ? (++line, column = 1) : ++column;
    return invalid(absl::StrCat("line ", line, ", column ", column, ": ", std::string(what)));
  }
  void skip() {
    while (p_ < s_.size()) {
      if (std::isspace(static_cast<unsigned char>(s_[p_]))) {
        ++p_;
      } else if (s_[p_] == '#') {
        while (p_ < s_.size() && s_[p_] != '\n') ++p_;
      } else {
        break;
      }
    }
  }
  bool peek(std::string_view t) {
    skip();
    return s_.substr(p_, t.size()) == t;
  }
  bool eat(std::string_view t) {
    if (!peek(t)) return false;
    p_ += t.size();
    return true;
  }
  // A word on its own: not the beginning of a longer one.
  bool eat_word(std::string_view t) {
    if (!peek(t)) return false;
    const size_t end = p_ + t.size();
    if (end < s_.size() && (std::isalnum(static_cast<unsigned char>(s_[end])) || s_[end] == '_')) return false;
    p_ = end;
    return true;
  }
  Status expect(std::string_view t) {
    return eat(t) ? absl::OkStatus() : error(absl::StrCat("'", std::string(t), "' expected"));
  }

  StatusOr<std::string> quoted() {
    RETURN_IF_ERROR(expect("\""));
    const size_t begin = p_;
    while (p_ < s_.size() && s_[p_] != '"') p_ += s_[p_] == '\\' ? 2 : 1;
    if (p_ >= s_.size()) return error("the string does not end");
    std::string out;
    if (!absl::CUnescape(absl::string_view(s_.data() + begin, p_ - begin), &out))
      return error("the string's escapes cannot be read");
    ++p_;
    return out;
  }
  StatusOr<std::string> word(std::string_view extra = "_./:@-") {
    skip();
    if (peek("\"")) return quoted();
    const size_t begin = p_;
    while (p_ < s_.size() &&
           (std::isalnum(static_cast<unsigned char>(s_[p_])) || extra.find(s_[p_]) != std::string_view::npos))
      ++p_;
    if (begin == p_) return error("a name is expected");
    return std::string(s_.substr(begin, p_ - begin));
  }
  StatusOr<std::string> value_name() {
    RETURN_IF_ERROR(expect("%"));
    ASSIGN_OR_RETURN(std::string n, word());
    // "%x:" ends the name where a type follows.
    if (n.size() > 1 && n.back() == ':') n.pop_back(), --p_;
    return n;
  }
  std::string_view number_token() {
    skip();
    const size_t begin = p_;
    while (p_ < s_.size() &&
           (std::isalnum(static_cast<unsigned char>(s_[p_])) || s_[p_] == '.' || s_[p_] == '-' || s_[p_] == '+'))
      ++p_;
    return s_.substr(begin, p_ - begin);
  }

  // --- Types
  StatusOr<SymShape> shape() {
    skip();
    if (eat("?")) return SymShape::unknown();
    RETURN_IF_ERROR(expect("["));
    SymShape s;
    s.has_rank = true;
    if (eat("]")) return s;
    do {
      const size_t begin = p_;
      int depth = 0;
      while (p_ < s_.size() && !(depth == 0 && (s_[p_] == ',' || s_[p_] == ']'))) {
        if (s_[p_] == '`') {
          ++p_;
          while (p_ < s_.size() && s_[p_] != '`') ++p_;
        }
        if (p_ >= s_.size()) break;
        depth += s_[p_] == '(' ? 1 : s_[p_] == ')' ? -1 : 0;
        ++p_;
      }
      const auto d = dim_from_text(s_.substr(begin, p_ - begin));
      if (!d) return error("the dimension cannot be read");
      s.dims.push_back(*d);
    } while (eat(","));
    RETURN_IF_ERROR(expect("]"));
    return s;
  }
  Status type(GraphValue& v) {
    skip();
    if (eat("?")) return absl::OkStatus();
    const size_t begin = p_;
    while (p_ < s_.size() && (std::isalnum(static_cast<unsigned char>(s_[p_])) || s_[p_] == '_')) ++p_;
    if (p_ < s_.size() && s_[p_] == '(') {  // seq(tensor(float))
      int depth = 0;
      do {
        depth += s_[p_] == '(' ? 1 : s_[p_] == ')' ? -1 : 0;
        ++p_;
      } while (p_ < s_.size() && depth > 0);
      auto t = value_type_from_name(s_.substr(begin, p_ - begin));
      if (!t) return error("the type cannot be read");
      v.type = *t;
    } else {
      const auto d = dtype_from_name(s_.substr(begin, p_ - begin));
      if (!d) return error("an element type is expected");
      v.type = ValueType::tensor(*d);
      ASSIGN_OR_RETURN(v.shape, shape());
    }
    while (eat("{")) {
      ASSIGN_OR_RETURN(const std::string w, word());
      if (const auto l = layout_from_name(w)) {
        v.layout = *l;
      } else {
        return error("the layout is not known");
      }
      RETURN_IF_ERROR(expect("}"));
    }
    return absl::OkStatus();
  }

  // --- Constants
  StatusOr<Tensor> contents(DType dtype, std::span<const int64_t> dims) {
    if (peek("…")) return error("the constant was elided; write the text with its weights");
    const auto bytes = storage_bytes(dtype, Layout::plain(), dims);
    if (!bytes) return error("the constant has no representable size");
    if (eat_word("base64")) {
      ASSIGN_OR_RETURN(const std::string text, quoted());
      std::string raw;
      if (!absl::Base64Unescape(text, &raw) || static_cast<int64_t>(raw.size()) != *bytes)
        return error("the constant's bytes do not fit its type");
      ASSIGN_OR_RETURN(Tensor t, make_tensor(dtype, dims));
      if (!raw.empty()) std::memcpy(t.data, raw.data(), raw.size());
      return t;
    }
    if (*bytes > static_cast<int64_t>(s_.size()) * 16) return error("the constant has fewer elements than its shape");
    ASSIGN_OR_RETURN(Tensor t, make_tensor(dtype, dims));
    RETURN_IF_ERROR(expect("["));
    for (int64_t i = 0; i < t.elements(); ++i) {
      if (i) RETURN_IF_ERROR(expect(","));
      RETURN_IF_ERROR(element(t, i));
    }
    RETURN_IF_ERROR(expect("]"));
    return t;
  }
  Status element(Tensor& t, int64_t i) {
    if (t.dtype == DType::kString) {
      ASSIGN_OR_RETURN(t.as<std::string>()[i], quoted());
      return absl::OkStatus();
    }
    const std::string token(number_token());
    if (token.empty()) return error("a number is expected");
    auto write = [&]<typename T>() {
      if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
        t.as<T>()[i] = T(std::strtof(token.c_str(), nullptr));
      } else if constexpr (std::is_floating_point_v<T>) {
        t.as<T>()[i] =
            static_cast<T>(sizeof(T) == 4 ? std::strtof(token.c_str(), nullptr) : std::strtod(token.c_str(), nullptr));
      } else if constexpr (std::is_unsigned_v<T>) {
        t.as<T>()[i] = static_cast<T>(std::strtoull(token.c_str(), nullptr, 10));
      } else {
        t.as<T>()[i] = static_cast<T>(std::strtoll(token.c_str(), nullptr, 10));
      }
    };
    if (dispatch(t.dtype, NumberTypes{}, write)) return absl::OkStatus();
    if (t.dtype == DType::kBool) {
      t.as<uint8_t>()[i] = token == "1" || token == "true";
      return absl::OkStatus();
    }
    return error("constants of this type are written as base64");
  }
  // "f32[2] [1, 2]"
  StatusOr<Tensor> typed_tensor() {
    GraphValue v;
    RETURN_IF_ERROR(type(v));
    const auto dims = v.shape.numbers();
    if (!v.type.is_tensor() || !dims) return error("a tensor with known dimensions is expected");
    return contents(v.type.dtype(), *dims);
  }
  // A literal input: 1.5, 3, [1, 2], or with a type before it.
  StatusOr<Tensor> literal() {
    skip();
    const bool list = p_ < s_.size() && s_[p_] == '[';
    if (!list && p_ < s_.size() && std::isalpha(static_cast<unsigned char>(s_[p_])) && !peek("inf") && !peek("nan")) {
      GraphValue v;
      const size_t begin = p_;
      while (p_ < s_.size() && std::isalnum(static_cast<unsigned char>(s_[p_]))) ++p_;
      const auto d = dtype_from_name(s_.substr(begin, p_ - begin));
      if (!d) return error("an input is expected");
      if (p_ < s_.size() && s_[p_] == '[') {  // f32[2,2] [1, 2, 3, 4]
        p_ = begin;
        return typed_tensor();
      }
      return plain_literal(d);
    }
    return plain_literal(std::nullopt);
  }
  StatusOr<Tensor> plain_literal(std::optional<DType> dtype) {
    const bool list = eat("[");
    std::vector<std::string> tokens;
    bool point = false;
    if (!(list && peek("]"))) {
      do {
        tokens.emplace_back(number_token());
        if (tokens.back().empty()) return error("a number is expected");
        point = point || tokens.back().find_first_of(".ein") != std::string::npos;
      } while (list && eat(","));
    }
    if (list) RETURN_IF_ERROR(expect("]"));
    Dims dims;
    if (list) dims.push_back(static_cast<int64_t>(tokens.size()));
    ASSIGN_OR_RETURN(Tensor t, make_tensor(dtype.value_or(point ? DType::kFloat : DType::kInt64), dims));
    for (size_t i = 0; i < tokens.size(); ++i) {
      Reader one(tokens[i]);
      RETURN_IF_ERROR(one.element(t, static_cast<int64_t>(i)));
    }
    return t;
  }

  // --- Attributes
  StatusOr<AttributeValue> attribute() {
    skip();
    if (peek("\"")) {
      ASSIGN_OR_RETURN(std::string s, quoted());
      return AttributeValue(std::move(s));
    }
    if (eat("floats[")) {
      std::vector<float> l;
      while (!eat("]")) {
        l.push_back(std::strtof(std::string(number_token()).c_str(), nullptr));
        if (!eat(",") && !peek("]")) return error("',' or ']' expected");
      }
      return AttributeValue(std::move(l));
    }
    if (eat("strings[")) {
      std::vector<std::string> l;
      while (!eat("]")) {
        ASSIGN_OR_RETURN(std::string s, quoted());
        l.push_back(std::move(s));
        if (!eat(",") && !peek("]")) return error("',' or ']' expected");
      }
      return AttributeValue(std::move(l));
    }
    if (eat("tensors[")) {
      std::vector<Tensor> l;
      while (!eat("]")) {
        ASSIGN_OR_RETURN(Tensor t, typed_tensor());
        l.push_back(std::move(t));
        if (!eat(",") && !peek("]")) return error("',' or ']' expected");
      }
      return AttributeValue(std::move(l));
    }
    if (eat("[")) {
      std::vector<int64_t> l;
      while (!eat("]")) {
        ASSIGN_OR_RETURN(const int64_t i, integer());
        l.push_back(i);
        if (!eat(",") && !peek("]")) return error("',' or ']' expected");
      }
      return AttributeValue(std::move(l));
    }
    if (eat_word("type")) {
      GraphValue v;
      RETURN_IF_ERROR(type(v));
      return AttributeValue(v.type);
    }
    if (eat_word("sparse")) {
      auto sparse = std::make_shared<SparseTensor>();
      ASSIGN_OR_RETURN(const SymShape s, shape());
      const auto dims = s.numbers();
      if (!dims) return error("the dimensions of a sparse tensor are numbers");
      sparse->dims.assign(dims->begin(), dims->end());
      ASSIGN_OR_RETURN(sparse->values, typed_tensor());
      ASSIGN_OR_RETURN(sparse->indices, typed_tensor());
      return AttributeValue(std::shared_ptr<const SparseTensor>(std::move(sparse)));
    }
    if (p_ < s_.size() && std::isalpha(static_cast<unsigned char>(s_[p_])) && !peek("inf") && !peek("nan")) {
      ASSIGN_OR_RETURN(Tensor t, typed_tensor());
      return AttributeValue(std::move(t));
    }
    const std::string token(number_token());
    if (token.empty()) return error("an attribute value is expected");
    if (token.find_first_of(".ein") != std::string::npos) return AttributeValue(std::strtof(token.c_str(), nullptr));
    p_ -= token.size();
    ASSIGN_OR_RETURN(const int64_t i, integer());
    return AttributeValue(i);
  }
  StatusOr<int64_t> integer() {
    const std::string_view token = number_token();
    int64_t i = 0;
    const auto [end, failed] = std::from_chars(token.data(), token.data() + token.size(), i);
    if (failed != std::errc() || end != token.data() + token.size()) return error("an integer is expected");
    return i;
  }

  // --- Graphs
  StatusOr<ValueId> value_of(Graph& g, const std::string& n) {
    ValueId v = g.find_value(n);
    if (!v.valid()) v = g.add_value(n);
    return v;
  }

  Status graph(Graph& g, int depth) {
    if (depth > kMaxDepth) return error("bodies are nested too deep");
    RETURN_IF_ERROR(expect("graph"));
    if (!peek("(")) {
      ASSIGN_OR_RETURN(g.name, word());
    }
    RETURN_IF_ERROR(expect("("));
    while (!eat(")")) {
      ASSIGN_OR_RETURN(const std::string n, value_name());
      if (g.find_value(n).valid()) return error("the name is taken");
      const ValueId v = g.add_input(n, {}, {});
      RETURN_IF_ERROR(expect(":"));
      RETURN_IF_ERROR(type(g.value(v)));
      if (eat("=")) {
        const auto dims = g.value(v).shape.numbers();
        if (!dims) return error("a default needs known dimensions");
        ASSIGN_OR_RETURN(g.value(v).default_value, contents(g.value(v).type.dtype(), *dims));
      }
      if (!eat(",") && !peek(")")) return error("',' or ')' expected");
    }
    RETURN_IF_ERROR(expect("{"));
    while (!eat_word("return")) {
      if (p_ >= s_.size()) return error("'return' is missing");
      if (eat_word("const")) {
        ASSIGN_OR_RETURN(const std::string n, value_name());
        ASSIGN_OR_RETURN(const ValueId v, value_of(g, n));
        RETURN_IF_ERROR(expect(":"));
        RETURN_IF_ERROR(type(g.value(v)));
        RETURN_IF_ERROR(expect("="));
        const auto dims = g.value(v).shape.numbers();
        if (!dims || !g.value(v).type.is_tensor()) return error("a constant needs a tensor type with known dimensions");
        ASSIGN_OR_RETURN(g.value(v).constant, contents(g.value(v).type.dtype(), *dims));
      } else {
        RETURN_IF_ERROR(node(g, depth));
      }
      skip();
    }
    if (!peek("}")) {
      do {
        ASSIGN_OR_RETURN(const std::string n, value_name());
        const ValueId v = g.find_value(n);
        if (!v.valid()) return error(absl::StrCat("there is no value %", n));
        g.add_output(v);
      } while (eat(","));
    }
    return expect("}");
  }

  Status node(Graph& g, int depth) {
    std::vector<ValueId> outputs, inputs;
    if (peek("%") || peek("_")) {
      do {
        if (eat_word("_")) {
          outputs.push_back({});
          continue;
        }
        ASSIGN_OR_RETURN(const std::string n, value_name());
        ASSIGN_OR_RETURN(const ValueId v, value_of(g, n));
        if (g.value(v).producer.valid()) return error(absl::StrCat("%", n, " is written twice"));
        if (eat(":")) RETURN_IF_ERROR(type(g.value(v)));
        outputs.push_back(v);
      } while (eat(","));
      RETURN_IF_ERROR(expect("="));
    }
    OpId op;
    ASSIGN_OR_RETURN(std::string op_name, word("_.@-"));
    if (eat(".")) {  // a quoted domain
      op.domain = op_name;
      ASSIGN_OR_RETURN(op.type, word("_"));
    } else if (const size_t dot = op_name.rfind('.'); dot != std::string::npos) {
      op.domain = op_name.substr(0, dot);
      op.type = op_name.substr(dot + 1);
    } else {
      op.type = op_name;
    }
    Attributes attributes;
    if (eat("<")) {
      do {
        ASSIGN_OR_RETURN(const std::string key, word());
        RETURN_IF_ERROR(expect("="));
        ASSIGN_OR_RETURN(AttributeValue value, attribute());
        attributes.set(key, std::move(value));
      } while (eat(","));
      RETURN_IF_ERROR(expect(">"));
    }
    RETURN_IF_ERROR(expect("("));
    int captures = 0;
    bool after = false;
    while (!eat(")")) {
      if (eat(";")) {
        after = true;
        continue;
      }
      ValueId v;
      if (peek("%")) {
        ASSIGN_OR_RETURN(const std::string n, value_name());
        ASSIGN_OR_RETURN(v, value_of(g, n));
      } else if (!eat_word("_")) {
        ASSIGN_OR_RETURN(Tensor t, literal());
        v = g.add_constant("", std::move(t));
      }
      inputs.push_back(v);
      captures += after;
      if (!eat(",") && !peek(")") && !peek(";")) return error("',' or ')' expected");
    }
    std::string node_name;
    if (peek("\"")) {
      ASSIGN_OR_RETURN(node_name, quoted());
    }
    const NodeId id = g.add_node(std::move(op), node_name, inputs, outputs, std::move(attributes));
    g.node(id).captures = captures;
    if (!eat("{")) return absl::OkStatus();
    while (!eat("}")) {
      ASSIGN_OR_RETURN(const std::string key, word("_"));
      RETURN_IF_ERROR(expect(":"));
      auto body = std::make_unique<Graph>();
      RETURN_IF_ERROR(graph(*body, depth + 1));
      g.node(id).bodies.emplace_back(key, std::move(body));
    }
    return absl::OkStatus();
  }

  std::string_view s_;
  size_t p_ = 0;
};

}  // namespace

StatusOr<std::unique_ptr<Graph>> graph_from_text(std::string_view text) { return Reader(text).read(); }

}  // namespace forethought
