// Reads the messages of onnx.proto with protozero; whatever is wrong with the bytes ends as a status.
#include <fmt/format.h>

#include <exception>
#include <optional>
#include <protozero/pbf_reader.hpp>
#include <utility>

#include "graph/schema/schema.h"
#include "onnx/wire/wire.h"

namespace forethought::wire {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;
using protozero::tag_and_type;

constexpr uint32_t varint(uint32_t tag) { return tag_and_type(tag, pbf_wire_type::varint); }
constexpr uint32_t bytes(uint32_t tag) { return tag_and_type(tag, pbf_wire_type::length_delimited); }
constexpr uint32_t fixed32(uint32_t tag) { return tag_and_type(tag, pbf_wire_type::fixed32); }

// Thrown within this file only; protozero throws its own kinds.
struct Refused : std::exception {
  explicit Refused(std::string m) : message(std::move(m)) {}
  const char* what() const noexcept override { return message.c_str(); }
  std::string message;
};

std::string_view view(pbf_reader& r) {
  const auto v = r.get_view();
  return {v.data(), v.size()};
}
pbf_reader reader(std::string_view v) { return pbf_reader(v.data(), v.size()); }

class Parser {
 public:
  explicit Parser(const Limits& limits) : limits_(limits) {}

  // Runs `parse` on a fresh T and turns exceptions into a status that tells the place in the file.
  template <typename T>
  StatusOr<T> run(std::string_view data, const char* what, void (Parser::*parse)(std::string_view, T&)) {
    T result;
    try {
      (this->*parse)(data, result);
    } catch (const Refused& e) {
      return invalid(fmt::format("the {} cannot be read: {}{}", what, e.message, place()));
    } catch (const protozero::exception& e) {
      return invalid(fmt::format("the {} is damaged or is no ONNX file: {}{}", what, e.what(), place()));
    } catch (const std::bad_alloc&) {
      return exhausted(fmt::format("no memory to read the {}{}", what, place()));
    }
    return result;
  }

  void model(std::string_view data, Model& m) {
    for (pbf_reader r = reader(data); r.next();) {
      switch (r.tag_and_type()) {
        case varint(1):
          m.ir_version = r.get_int64();
          break;
        case bytes(2):
          m.producer_name = view(r);
          break;
        case bytes(3):
          m.producer_version = view(r);
          break;
        case bytes(4):
          m.domain = view(r);
          break;
        case varint(5):
          m.model_version = r.get_int64();
          break;
        case bytes(6):
          m.doc = view(r);
          break;
        case bytes(7):
          m.has_graph = true;
          within("graph", -1, &Parser::graph, view(r), m.graph);
          break;
        case bytes(8):
          append("opset import", &Parser::opset, view(r), m.opsets);
          break;
        case bytes(14):
          append("metadata", &Parser::entry, view(r), m.metadata);
          break;
        case bytes(25):
          append("function", &Parser::function, view(r), m.functions);
          break;
        default:
          r.skip();
      }
    }
  }

  void graph(std::string_view data, Graph& g) {
    if (++graph_depth_ > limits_.graph_depth) {
      throw Refused(fmt::format("graphs are nested more than {} deep", limits_.graph_depth));
    }
    for (pbf_reader r = reader(data); r.next();) {
      switch (r.tag_and_type()) {
        case bytes(1):
          append("node", &Parser::node, view(r), g.nodes);
          break;
        case bytes(2):
          g.name = view(r);
          break;
        case bytes(5):
          append("initializer", &Parser::tensor, view(r), g.initializers);
          break;
        case bytes(10):
          g.doc = view(r);
          break;
        case bytes(11):
          append("input", &Parser::value_info, view(r), g.inputs);
          break;
        case bytes(12):
          append("output", &Parser::value_info, view(r), g.outputs);
          break;
        case bytes(13):
          append("value_info", &Parser::value_info, view(r), g.value_infos);
          break;
        case bytes(15):
          append("sparse initializer", &Parser::sparse_tensor, view(r), g.sparse_initializers);
          break;
        case bytes(16):
          append("metadata", &Parser::entry, view(r), g.metadata);
          break;
        default:
          r.skip();
      }
    }
    --graph_depth_;
  }

  void function(std::string_view data, Function& f) {
    for (pbf_reader r = reader(data); r.next();) {
      switch (r.tag_and_type()) {
        case bytes(1):
          f.name = view(r);
          break;
        case bytes(4):
          add_text(view(r), f.inputs);
          break;
        case bytes(5):
          add_text(view(r), f.outputs);
          break;
        case bytes(6):
          add_text(view(r), f.attributes);
          break;
        case bytes(7):
          append("node", &Parser::node, view(r), f.nodes);
          break;
        case bytes(8):
          f.doc = view(r);
          break;
        case bytes(9):
          append("opset import", &Parser::opset, view(r), f.opsets);
          break;
        case bytes(10):
          f.domain = view(r);
          break;
        case bytes(11):
          append("attribute", &Parser::attribute, view(r), f.default_attributes);
          break;
        case bytes(12):
          append("value_info", &Parser::value_info, view(r), f.value_infos);
          break;
        case bytes(13):
          f.overload = view(r);
          break;
        default:
          r.skip();
      }
    }
  }

  void tensor(std::string_view data, Tensor& t) {
    t.message = data;
    for (pbf_reader r = reader(data); r.next();) {
      switch (r.tag_and_type()) {
        case varint(1):
          add_number(r.get_int64(), t.dims);
          break;
        case bytes(1):
          packed_ints(r, t.dims);
          break;
        case varint(2):
          t.data_type = r.get_int32();
          break;
        case bytes(3):
          t.has_segment = true;
          r.skip();
          break;
        case bytes(6):
          add_text(view(r), t.strings);
          break;
        case bytes(8):
          t.name = view(r);
          break;
        case bytes(9):
          t.raw = view(r);
          t.has_raw = true;
          break;
        case bytes(12):
          t.doc = view(r);
          break;
        case bytes(13):
          append("external_data", &Parser::entry, view(r), t.external_data);
          break;
        case varint(14):
          t.external = r.get_int32() == 1;
          break;
        case bytes(16):
          append("metadata", &Parser::entry, view(r), t.metadata);
          break;
        default:
          if (const uint32_t tag = r.tag(); tag == 4 || tag == 5 || tag == 7 || tag == 10 || tag == 11)
            t.has_typed = true;
          r.skip();
      }
    }
  }

 private:
  void node(std::string_view data, Node& n) {
    for (pbf_reader r = reader(data); r.next();) {
      switch (r.tag_and_type()) {
        case bytes(1):
          add_text(view(r), n.inputs);
          break;
        case bytes(2):
          add_text(view(r), n.outputs);
          break;
        case bytes(3):
          n.name = view(r);
          break;
        case bytes(4):
          n.op_type = view(r);
          break;
        case bytes(5):
          append("attribute", &Parser::attribute, view(r), n.attributes);
          break;
        case bytes(6):
          n.doc = view(r);
          break;
        case bytes(7):
          n.domain = view(r);
          break;
        case bytes(8):
          n.overload = view(r);
          break;
        case bytes(9):
          append("metadata", &Parser::entry, view(r), n.metadata);
          break;
        default:
          r.skip();
      }
    }
  }

  void attribute(std::string_view data, Attribute& a) {
    AttrType seen = AttrType::kUndefined;
    for (pbf_reader r = reader(data); r.next();) {
      switch (r.tag_and_type()) {
        case bytes(1):
          a.name = view(r);
          continue;
        case bytes(13):
          a.doc = view(r);
          continue;
        case varint(20):
          a.type = r.get_int32();
          continue;
        case bytes(21):
          a.ref_name = view(r);
          continue;
        case fixed32(2):
          a.f = r.get_float();
          seen = AttrType::kFloat;
          break;
        case varint(3):
          a.i = r.get_int64();
          seen = AttrType::kInt;
          break;
        case bytes(4):
          a.s = view(r);
          seen = AttrType::kString;
          break;
        case bytes(5):
          append("tensor", &Parser::tensor, view(r), a.tensors);
          seen = AttrType::kTensor;
          break;
        case bytes(6):
          append("graph", &Parser::graph, view(r), a.graphs);
          seen = AttrType::kGraph;
          break;
        case fixed32(7):
          add_number(r.get_float(), a.floats);
          seen = AttrType::kFloats;
          break;
        case bytes(7):
          for (const float f : r.get_packed_float()) add_number(f, a.floats);
          seen = AttrType::kFloats;
          break;
        case varint(8):
          add_number(r.get_int64(), a.ints);
          seen = AttrType::kInts;
          break;
        case bytes(8):
          packed_ints(r, a.ints);
          seen = AttrType::kInts;
          break;
        case bytes(9):
          add_text(view(r), a.strings);
          seen = AttrType::kStrings;
          break;
        case bytes(10):
          append("tensor", &Parser::tensor, view(r), a.tensors);
          seen = AttrType::kTensors;
          break;
        case bytes(11):
          append("graph", &Parser::graph, view(r), a.graphs);
          seen = AttrType::kGraphs;
          break;
        case bytes(14):
          append("type", &Parser::type, view(r), a.types);
          seen = AttrType::kTypeProto;
          break;
        case bytes(15):
          append("type", &Parser::type, view(r), a.types);
          seen = AttrType::kTypeProtos;
          break;
        case bytes(22):
          append("sparse tensor", &Parser::sparse_tensor, view(r), a.sparse_tensors);
          seen = AttrType::kSparseTensor;
          break;
        case bytes(23):
          append("sparse tensor", &Parser::sparse_tensor, view(r), a.sparse_tensors);
          seen = AttrType::kSparseTensors;
          break;
        default:
          r.skip();
      }
    }
    if (a.type == 0) a.type = static_cast<int32_t>(seen);
    check_attribute(a);
  }

  // A type names the field that counts; a message attribute must have exactly its one message.
  static void check_attribute(const Attribute& a) {
    if (a.type < 0 || a.type >= kAttrTypeCount) {
      throw Refused(fmt::format("attribute '{}' has the unknown type {}", a.name, a.type));
    }
    if (!a.ref_name.empty()) return;
    const auto need_one = [&](size_t count) {
      if (count != 1) {
        throw Refused(fmt::format("attribute '{}' says it is a {} but holds {} of them", a.name,
                                  forethought::name(static_cast<AttrType>(a.type)), count));
      }
    };
    switch (static_cast<AttrType>(a.type)) {
      case AttrType::kTensor:
        need_one(a.tensors.size());
        break;
      case AttrType::kGraph:
        need_one(a.graphs.size());
        break;
      case AttrType::kSparseTensor:
        need_one(a.sparse_tensors.size());
        break;
      case AttrType::kTypeProto:
        need_one(a.types.size());
        break;
      default:
        break;
    }
  }

  void sparse_tensor(std::string_view data, SparseTensor& s) {
    for (pbf_reader r = reader(data); r.next();) {
      switch (r.tag_and_type()) {
        case bytes(1):
          within("values", -1, &Parser::tensor, view(r), s.values);
          break;
        case bytes(2):
          within("indices", -1, &Parser::tensor, view(r), s.indices);
          break;
        case varint(3):
          add_number(r.get_int64(), s.dims);
          break;
        case bytes(3):
          packed_ints(r, s.dims);
          break;
        default:
          r.skip();
      }
    }
  }

  void value_info(std::string_view data, ValueInfo& v) {
    for (pbf_reader r = reader(data); r.next();) {
      switch (r.tag_and_type()) {
        case bytes(1):
          v.name = view(r);
          break;
        case bytes(2):
          within("type", -1, &Parser::type, view(r), v.type);
          break;
        case bytes(3):
          v.doc = view(r);
          break;
        default:
          r.skip();
      }
    }
  }

  void type(std::string_view data, Type& t) {
    if (++type_depth_ > limits_.type_depth) {
      throw Refused(fmt::format("types are nested more than {} deep", limits_.type_depth));
    }
    for (pbf_reader r = reader(data); r.next();) {
      switch (r.tag_and_type()) {
        case bytes(1):
          tensor_type(view(r), Type::Kind::kTensor, t);
          break;
        case bytes(8):
          tensor_type(view(r), Type::Kind::kSparseTensor, t);
          break;
        case bytes(4):
          element_type(view(r), Type::Kind::kSequence, t);
          break;
        case bytes(9):
          element_type(view(r), Type::Kind::kOptional, t);
          break;
        case bytes(5):
          element_type(view(r), Type::Kind::kMap, t);
          break;
        case bytes(7):
          t.kind = Type::Kind::kOpaque;
          r.skip();
          break;
        default:
          r.skip();
      }
    }
    --type_depth_;
  }

  void tensor_type(std::string_view data, Type::Kind kind, Type& t) {
    t = Type{.kind = kind};
    for (pbf_reader r = reader(data); r.next();) {
      switch (r.tag_and_type()) {
        case varint(1):
          t.elem_type = r.get_int32();
          break;
        case bytes(2):
          t.has_shape = true;
          for (pbf_reader shape(r.get_view()); shape.next();) {
            if (shape.tag_and_type() == bytes(1)) {
              append("dim", &Parser::dim, view(shape), t.dims);
            } else {
              shape.skip();
            }
          }
          break;
        default:
          r.skip();
      }
    }
  }

  // Sequence and Optional hold their element in field 1; Map its key type in 1 and its value in 2.
  void element_type(std::string_view data, Type::Kind kind, Type& t) {
    t = Type{.kind = kind};
    const uint32_t element_tag = bytes(kind == Type::Kind::kMap ? 2 : 1);
    for (pbf_reader r = reader(data); r.next();) {
      if (r.tag_and_type() == element_tag) {
        count();
        t.element = std::make_unique<Type>();
        type(view(r), *t.element);
      } else if (kind == Type::Kind::kMap && r.tag_and_type() == varint(1)) {
        t.elem_type = r.get_int32();
      } else {
        r.skip();
      }
    }
  }

  void dim(std::string_view data, Dim& d) {
    for (pbf_reader r = reader(data); r.next();) {
      switch (r.tag_and_type()) {
        case varint(1):
          d = {Dim::Kind::kValue, r.get_int64(), {}};
          break;
        case bytes(2):
          d = {Dim::Kind::kParam, 0, view(r)};
          break;
        default:
          r.skip();
      }
    }
  }

  void opset(std::string_view data, OpsetId& o) {
    for (pbf_reader r = reader(data); r.next();) {
      switch (r.tag_and_type()) {
        case bytes(1):
          o.domain = view(r);
          break;
        case varint(2):
          o.version = r.get_int64();
          break;
        default:
          r.skip();
      }
    }
  }

  void entry(std::string_view data, StringEntry& e) {
    for (pbf_reader r = reader(data); r.next();) {
      switch (r.tag_and_type()) {
        case bytes(1):
          e.key = view(r);
          break;
        case bytes(2):
          e.value = view(r);
          break;
        default:
          r.skip();
      }
    }
  }

  void packed_ints(pbf_reader& r, std::vector<int64_t>& out) {
    for (const int64_t v : r.get_packed_int64()) add_number(v, out);
  }
  template <typename T>
  void add_number(T value, std::vector<T>& out) {
    out.push_back(value);
  }
  void add_text(std::string_view text, std::vector<std::string_view>& out) {
    count();
    out.push_back(text);
  }

  template <typename T>
  void append(const char* what, void (Parser::*parse)(std::string_view, T&), std::string_view data,
              std::vector<T>& out) {
    const auto index = static_cast<int64_t>(out.size());
    within(what, index, parse, data, out.emplace_back());
  }

  // The place is left standing when an exception flies, so that place() can tell it.
  template <typename T>
  void within(const char* what, int64_t index, void (Parser::*parse)(std::string_view, T&), std::string_view data,
              T& out) {
    count();
    place_.emplace_back(what, index);
    (this->*parse)(data, out);
    place_.pop_back();
  }

  void count() {
    if (++messages_ > limits_.messages) throw Refused(fmt::format("it has more than {} parts", limits_.messages));
  }

  std::string place() const {
    std::string text;
    for (size_t i = 0; i < place_.size(); ++i) {
      if (i >= 8 && i + 4 < place_.size()) {
        if (i == 8) text += " › …";
        continue;
      }
      text += text.empty() ? " (at " : " › ";
      text += place_[i].first;
      if (place_[i].second >= 0) text += fmt::format(" {}", place_[i].second);
    }
    return text.empty() ? text : text + ")";
  }

  const Limits limits_;
  int graph_depth_ = 0, type_depth_ = 0;
  int64_t messages_ = 0;
  std::vector<std::pair<const char*, int64_t>> place_;
};

}  // namespace

StatusOr<Model> parse_model(std::string_view data, const Limits& limits) {
  if (data.empty()) return invalid("the model is empty");
  return Parser(limits).run(data, "model", &Parser::model);
}
StatusOr<Graph> parse_graph(std::string_view data, const Limits& limits) {
  return Parser(limits).run(data, "graph", &Parser::graph);
}
StatusOr<Function> parse_function(std::string_view data, const Limits& limits) {
  return Parser(limits).run(data, "function", &Parser::function);
}
StatusOr<Tensor> parse_tensor(std::string_view data, const Limits& limits) {
  return Parser(limits).run(data, "tensor", &Parser::tensor);
}

}  // namespace forethought::wire
