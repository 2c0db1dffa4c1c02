// Reads tensors, attributes and types.
#include <fmt/format.h>

#include "graph/schema/schema.h"
#include "onnx/wire/parser.h"

namespace forethought::wire {

using protozero::pbf_reader;

void Parser::tensor(std::string_view data, Tensor& t) {
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

void Parser::attribute(std::string_view data, Attribute& a) {
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
void Parser::check_attribute(const Attribute& a) {
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

void Parser::sparse_tensor(std::string_view data, SparseTensor& s) {
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

void Parser::type(std::string_view data, Type& t) {
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

void Parser::tensor_type(std::string_view data, Type::Kind kind, Type& t) {
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
void Parser::element_type(std::string_view data, Type::Kind kind, Type& t) {
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

void Parser::dim(std::string_view data, Dim& d) {
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

}  // namespace forethought::wire
