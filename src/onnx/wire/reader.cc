// Reads models, graphs, nodes and functions; whatever is wrong with the bytes ends as a status.
#include <fmt/format.h>

#include "onnx/wire/parser.h"

namespace forethought::wire {

using protozero::pbf_reader;

void Parser::model(std::string_view data, Model& m) {
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

void Parser::graph(std::string_view data, Graph& g) {
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

void Parser::function(std::string_view data, Function& f) {
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

void Parser::node(std::string_view data, Node& n) {
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

void Parser::value_info(std::string_view data, ValueInfo& v) {
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

void Parser::opset(std::string_view data, OpsetId& o) {
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

void Parser::entry(std::string_view data, StringEntry& e) {
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
