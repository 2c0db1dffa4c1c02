// Writes the messages of onnx.proto with protozero.
#include <protozero/pbf_writer.hpp>

#include "graph/schema/schema.h"
#include "onnx/wire/wire.h"

namespace forethought::wire {
namespace {

using protozero::pbf_writer;

void text(pbf_writer& w, uint32_t tag, std::string_view value) {
  if (!value.empty()) w.add_string(tag, value.data(), value.size());
}
void texts(pbf_writer& w, uint32_t tag, const std::vector<std::string_view>& values) {
  for (const std::string_view v : values) w.add_string(tag, v.data(), v.size());
}
void ints(pbf_writer& w, uint32_t tag, const std::vector<int64_t>& values) {
  for (const int64_t v : values) w.add_int64(tag, v);
}
void entries(pbf_writer& w, uint32_t tag, const std::vector<StringEntry>& values) {
  for (const StringEntry& e : values) {
    pbf_writer sub(w, tag);
    sub.add_string(1, e.key.data(), e.key.size());
    sub.add_string(2, e.value.data(), e.value.size());
  }
}

// Each write() fills one message; all() writes a list of them as field `tag`.
void write(pbf_writer& w, const Graph& g);

template <typename T>
void all(pbf_writer& w, uint32_t tag, const std::vector<T>& messages);

void write(pbf_writer& w, const Tensor& t) {
  ints(w, 1, t.dims);
  w.add_int32(2, t.data_type);
  texts(w, 6, t.strings);
  text(w, 8, t.name);
  if (t.has_raw) w.add_bytes(9, t.raw.data(), t.raw.size());
  text(w, 12, t.doc);
  entries(w, 13, t.external_data);
  if (t.external) w.add_int32(14, 1);
  entries(w, 16, t.metadata);
}

void write(pbf_writer& w, const SparseTensor& s) {
  {
    pbf_writer values(w, 1);
    write(values, s.values);
  }
  {
    pbf_writer indices(w, 2);
    write(indices, s.indices);
  }
  ints(w, 3, s.dims);
}

void write(pbf_writer& w, const Type& t);

void write_tensor_type(pbf_writer& parent, uint32_t tag, const Type& t) {
  pbf_writer w(parent, tag);
  w.add_int32(1, t.elem_type);
  if (!t.has_shape) return;
  // A nested pbf_writer drops empty messages, but an empty shape is a scalar's and an empty dim an unknown one.
  std::string shape_bytes;
  pbf_writer shape(shape_bytes);
  for (const Dim& d : t.dims) {
    std::string dim_bytes;
    pbf_writer dim(dim_bytes);
    if (d.kind == Dim::Kind::kValue) dim.add_int64(1, d.value);
    if (d.kind == Dim::Kind::kParam) dim.add_string(2, d.param.data(), d.param.size());
    shape.add_message(1, dim_bytes);
  }
  w.add_message(2, shape_bytes);
}

void write_element_type(pbf_writer& parent, uint32_t tag, const Type& t) {
  pbf_writer w(parent, tag);
  if (t.kind == Type::Kind::kMap) w.add_int32(1, t.elem_type);
  if (!t.element) return;
  pbf_writer element(w, t.kind == Type::Kind::kMap ? 2 : 1);
  write(element, *t.element);
}

void write(pbf_writer& w, const Type& t) {
  switch (t.kind) {
    case Type::Kind::kNone:
      break;
    case Type::Kind::kTensor:
      write_tensor_type(w, 1, t);
      break;
    case Type::Kind::kSparseTensor:
      write_tensor_type(w, 8, t);
      break;
    case Type::Kind::kSequence:
      write_element_type(w, 4, t);
      break;
    case Type::Kind::kMap:
      write_element_type(w, 5, t);
      break;
    case Type::Kind::kOptional:
      write_element_type(w, 9, t);
      break;
    case Type::Kind::kOpaque:
      w.add_bytes(7, "", 0);
      break;
  }
}

void write(pbf_writer& w, const ValueInfo& v) {
  text(w, 1, v.name);
  if (v.type.kind != Type::Kind::kNone) {
    pbf_writer type(w, 2);
    write(type, v.type);
  }
  text(w, 3, v.doc);
}

void write(pbf_writer& w, const Attribute& a) {
  text(w, 1, a.name);
  text(w, 13, a.doc);
  w.add_int32(20, a.type);
  text(w, 21, a.ref_name);
  if (!a.ref_name.empty()) return;
  switch (static_cast<AttrType>(a.type)) {
    case AttrType::kUndefined:
      break;
    case AttrType::kFloat:
      w.add_float(2, a.f);
      break;
    case AttrType::kInt:
      w.add_int64(3, a.i);
      break;
    case AttrType::kString:
      w.add_bytes(4, a.s.data(), a.s.size());
      break;
    case AttrType::kTensor:
      all(w, 5, a.tensors);
      break;
    case AttrType::kGraph:
      all(w, 6, a.graphs);
      break;
    case AttrType::kFloats:
      for (const float f : a.floats) w.add_float(7, f);
      break;
    case AttrType::kInts:
      ints(w, 8, a.ints);
      break;
    case AttrType::kStrings:
      texts(w, 9, a.strings);
      break;
    case AttrType::kTensors:
      all(w, 10, a.tensors);
      break;
    case AttrType::kGraphs:
      all(w, 11, a.graphs);
      break;
    case AttrType::kTypeProto:
      all(w, 14, a.types);
      break;
    case AttrType::kTypeProtos:
      all(w, 15, a.types);
      break;
    case AttrType::kSparseTensor:
      all(w, 22, a.sparse_tensors);
      break;
    case AttrType::kSparseTensors:
      all(w, 23, a.sparse_tensors);
      break;
  }
}

void write(pbf_writer& w, const Node& n) {
  texts(w, 1, n.inputs);
  texts(w, 2, n.outputs);
  text(w, 3, n.name);
  text(w, 4, n.op_type);
  all(w, 5, n.attributes);
  text(w, 6, n.doc);
  text(w, 7, n.domain);
  text(w, 8, n.overload);
  entries(w, 9, n.metadata);
}

void write(pbf_writer& w, const Graph& g) {
  all(w, 1, g.nodes);
  text(w, 2, g.name);
  all(w, 5, g.initializers);
  text(w, 10, g.doc);
  all(w, 11, g.inputs);
  all(w, 12, g.outputs);
  all(w, 13, g.value_infos);
  all(w, 15, g.sparse_initializers);
  entries(w, 16, g.metadata);
}

void write(pbf_writer& w, const OpsetId& o) {
  text(w, 1, o.domain);
  w.add_int64(2, o.version);
}

void write(pbf_writer& w, const Function& f) {
  text(w, 1, f.name);
  texts(w, 4, f.inputs);
  texts(w, 5, f.outputs);
  texts(w, 6, f.attributes);
  all(w, 7, f.nodes);
  text(w, 8, f.doc);
  all(w, 9, f.opsets);
  text(w, 10, f.domain);
  all(w, 11, f.default_attributes);
  all(w, 12, f.value_infos);
  text(w, 13, f.overload);
}

template <typename T>
void all(pbf_writer& w, uint32_t tag, const std::vector<T>& messages) {
  for (const T& m : messages) {
    pbf_writer sub(w, tag);
    write(sub, m);
  }
}

}  // namespace

std::string serialize(const Model& m) {
  std::string out;
  pbf_writer w(out);
  w.add_int64(1, m.ir_version);
  text(w, 2, m.producer_name);
  text(w, 3, m.producer_version);
  text(w, 4, m.domain);
  if (m.model_version) w.add_int64(5, m.model_version);
  text(w, 6, m.doc);
  {
    pbf_writer graph(w, 7);
    write(graph, m.graph);
  }
  all(w, 8, m.opsets);
  entries(w, 14, m.metadata);
  all(w, 25, m.functions);
  return out;
}

std::string serialize(const Tensor& tensor) {
  std::string out;
  pbf_writer w(out);
  write(w, tensor);
  return out;
}

}  // namespace forethought::wire
