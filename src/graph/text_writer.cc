// Writes the text form of a graph.
#include <cctype>
#include <cmath>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "graph/text.h"

namespace forethought {
namespace {

bool is_name(std::string_view s) {
  if (s.empty()) return false;
  for (unsigned char c : s)
    if (!(std::isalnum(c) || c == '_' || c == '.' || c == '/' || c == ':' || c == '@' || c == '-')) return false;
  return true;
}

std::string escaped(std::string_view s) {
  return absl::StrCat("\"", absl::CEscape(absl::string_view(s.data(), s.size())), "\"");
}
std::string word(std::string_view s) { return is_name(s) ? std::string(s) : escaped(s); }

std::string number(double v, bool single) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  std::string s = single ? absl::StrFormat("%.9g", v) : absl::StrFormat("%.17g", v);
  if (s.find_first_of(".en") == std::string::npos) s += ".0";
  return s;
}

class Writer {
 public:
  explicit Writer(const TextOptions& options) : options_(options) {}

  void graph(const Graph& g, int indent) {
    absl::StrAppend(&out_, "graph");
    if (!g.name.empty()) absl::StrAppend(&out_, " ", word(g.name));
    absl::StrAppend(&out_, "(");
    for (size_t i = 0; i < g.inputs().size(); ++i) {
      const GraphValue& v = g.value(g.inputs()[i]);
      absl::StrAppend(&out_, i ? ", " : "", "%", word(v.name), ": ", type(v));
      if (v.default_value) absl::StrAppend(&out_, " = ", contents(*v.default_value));
    }
    absl::StrAppend(&out_, ") {\n");
    const std::string pad(indent + 2, ' ');
    for (uint32_t i = 0; i < g.value_capacity(); ++i) {
      const GraphValue& v = g.value(ValueId{i});
      if (!v.removed && v.constant)
        absl::StrAppend(&out_, pad, "const %", word(v.name), ": ", type(v), " = ", contents(*v.constant), "\n");
    }
    for (NodeId id : g.order()) {
      absl::StrAppend(&out_, pad);
      node(g, g.node(id), indent + 2);
      absl::StrAppend(&out_, "\n");
    }
    absl::StrAppend(&out_, pad, "return");
    for (size_t i = 0; i < g.outputs().size(); ++i)
      absl::StrAppend(&out_, i ? ", %" : " %", word(g.value(g.outputs()[i]).name));
    absl::StrAppend(&out_, "\n", std::string(indent, ' '), "}");
  }

  std::string take() { return std::move(out_); }

 private:
  static std::string type(const GraphValue& v) {
    std::string s = v.type.is_tensor()    ? absl::StrCat(name(v.type.dtype()), to_string(v.shape))
                    : v.type.is_unknown() ? "?"
                                          : to_string(v.type);
    if (!v.layout.is_plain()) absl::StrAppend(&s, "{", to_string(v.layout), "}");
    if (!v.device.is_host()) absl::StrAppend(&s, "{", to_string(v.device), "}");
    return s;
  }

  std::string contents(const Tensor& t) const {
    const int64_t n = t.elements();
    if (t.dtype == DType::kString) {
      return absl::StrCat(
          "[", absl::StrJoin(t.strings(), ", ", [](std::string* o, const std::string& s) { *o += escaped(s); }), "]");
    }
    const std::string_view raw(static_cast<const char*>(t.data), static_cast<size_t>(t.bytes()));
    std::vector<std::string> items;
    // Elements may lie unaligned, in the file.
    auto print = [&]<typename T>() {
      for (int64_t i = 0; i < n; ++i) {
        T x;
        std::memcpy(&x, raw.data() + i * sizeof(T), sizeof(T));
        if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
          items.push_back(number(static_cast<float>(x), true));
        } else if constexpr (std::is_floating_point_v<T>) {
          items.push_back(number(x, sizeof(T) == 4));
        } else {
          items.push_back(absl::StrCat(+x));
        }
      }
    };
    if (n <= options_.max_elements && !has_nan(t)) {
      if (dispatch(t.dtype, NumberTypes{}, print)) return absl::StrCat("[", absl::StrJoin(items, ", "), "]");
      if (t.dtype == DType::kBool) {
        print.template operator()<uint8_t>();
        return absl::StrCat("[", absl::StrJoin(items, ", "), "]");
      }
    }
    if (options_.elide) return absl::StrCat("… ", raw.size(), " bytes");
    return absl::StrCat("base64 \"", absl::Base64Escape(absl::string_view(raw.data(), raw.size())), "\"");
  }

  // NaNs carry bits that a word would lose.
  static bool has_nan(const Tensor& t) {
    bool nan = false;
    dispatch(t.dtype, FloatTypes{}, [&]<typename T>() {
      for (int64_t i = 0; i < t.elements(); ++i) {
        T x;
        std::memcpy(&x, static_cast<const char*>(t.data) + i * sizeof(T), sizeof(T));
        if constexpr (std::is_floating_point_v<T>) {
          nan = nan || std::isnan(x);
        } else {
          nan = nan || std::isnan(static_cast<float>(x));
        }
      }
    });
    return nan;
  }

  std::string attribute(const AttributeValue& v) const {
    if (const auto* i = std::get_if<int64_t>(&v)) return absl::StrCat(*i);
    if (const auto* f = std::get_if<float>(&v)) return number(*f, true);
    if (const auto* s = std::get_if<std::string>(&v)) return escaped(*s);
    if (const auto* t = std::get_if<Tensor>(&v)) return tensor(*t);
    if (const auto* l = std::get_if<std::vector<int64_t>>(&v)) return absl::StrCat("[", absl::StrJoin(*l, ", "), "]");
    if (const auto* l = std::get_if<std::vector<float>>(&v)) {
      return absl::StrCat("floats[", absl::StrJoin(*l, ", ", [](std::string* o, float f) { *o += number(f, true); }),
                          "]");
    }
    if (const auto* l = std::get_if<std::vector<std::string>>(&v)) {
      return absl::StrCat("strings[",
                          absl::StrJoin(*l, ", ", [](std::string* o, const std::string& s) { *o += escaped(s); }), "]");
    }
    if (const auto* l = std::get_if<std::vector<Tensor>>(&v)) {
      return absl::StrCat("tensors[",
                          absl::StrJoin(*l, ", ", [&](std::string* o, const Tensor& t) { *o += tensor(t); }), "]");
    }
    if (const auto* t = std::get_if<ValueType>(&v)) return absl::StrCat("type ", to_string(*t));
    const SparseTensor& sparse = *std::get<std::shared_ptr<const SparseTensor>>(v);
    return absl::StrCat("sparse ", to_string(sparse.dims), " ", tensor(sparse.values), " ", tensor(sparse.indices));
  }
  std::string tensor(const Tensor& t) const { return absl::StrCat(name(t.dtype), to_string(t.dims), " ", contents(t)); }

  void node(const Graph& g, const GraphNode& n, int indent) {
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      absl::StrAppend(&out_, i ? ", " : "");
      if (!n.outputs[i].valid()) {
        absl::StrAppend(&out_, "_");
        continue;
      }
      const GraphValue& v = g.value(n.outputs[i]);
      absl::StrAppend(&out_, "%", word(v.name));
      if (options_.types) absl::StrAppend(&out_, ": ", type(v));
    }
    absl::StrAppend(&out_, n.outputs.empty() ? "" : " = ",
                    n.op.domain.empty() ? "" : absl::StrCat(word(n.op.domain), "."), n.op.type);
    if (!n.attributes.empty()) {
      const char* separator = "<";
      for (const auto& [key, value] : n.attributes) {
        absl::StrAppend(&out_, separator, word(key), "=", attribute(value));
        separator = ", ";
      }
      absl::StrAppend(&out_, ">");
    }
    absl::StrAppend(&out_, "(");
    for (int i = 0; i < static_cast<int>(n.inputs.size()); ++i) {
      absl::StrAppend(&out_, i == n.formal_inputs() ? "; " : i ? ", " : "");
      absl::StrAppend(&out_, n.inputs[i].valid() ? absl::StrCat("%", word(g.value(n.inputs[i]).name)) : "_");
    }
    absl::StrAppend(&out_, ")");
    if (options_.names && !n.name.empty()) absl::StrAppend(&out_, " ", escaped(n.name));
    if (n.bodies.empty()) return;
    absl::StrAppend(&out_, " {");
    for (const auto& [key, body] : n.bodies) {
      absl::StrAppend(&out_, "\n", std::string(indent + 2, ' '), key, ": ");
      graph(*body, indent + 2);
    }
    absl::StrAppend(&out_, "\n", std::string(indent, ' '), "}");
  }

  TextOptions options_;
  std::string out_;
};

}  // namespace

std::string described(const GraphNode& node) {
  return absl::StrCat(node.name.empty() ? "(unnamed)" : node.name, " (", to_string(node.op), ")");
}

std::string to_text(const Graph& graph, const TextOptions& options) {
  Writer w(options);
  w.graph(graph, 0);
  return w.take() + "\n";
}

}  // namespace forethought
