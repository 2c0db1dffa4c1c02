// Attributes of a node as the file gives them: a name and one of ONNX's attribute kinds. Graph attributes are bodies of
// the node (Node::bodies), not attributes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tensor/value.h"

namespace forethought {

using AttributeValue =
    std::variant<int64_t, float, std::string, Tensor, std::vector<int64_t>, std::vector<float>,
                 std::vector<std::string>, std::vector<Tensor>, ValueType, std::shared_ptr<const SparseTensor>>;
const char* kind_name(const AttributeValue& value);  // "int", "floats" …

// Few per node: a sorted vector.
class Attributes {
 public:
  const AttributeValue* find(std::string_view name) const;
  void set(std::string_view name, AttributeValue value);
  bool erase(std::string_view name);
  bool empty() const { return items_.empty(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

  // The attribute's value, or the fallback if it is absent or of another kind.
  int64_t get_int(std::string_view name, int64_t fallback) const;
  float get_float(std::string_view name, float fallback) const;
  std::string get_string(std::string_view name, std::string_view fallback) const;
  const std::vector<int64_t>* get_ints(std::string_view name) const;

 private:
  std::vector<std::pair<std::string, AttributeValue>> items_;
};

// Equal kind and contents (tensors by bytes).
bool equal(const AttributeValue& a, const AttributeValue& b);

}  // namespace forethought
