#include "graph/attribute.h"

#include <algorithm>
#include <cstring>

namespace forethought {

const char* kind_name(const AttributeValue& value) {
  constexpr const char* names[] = {"int",    "float",   "string",  "tensor", "ints",
                                   "floats", "strings", "tensors", "type",   "sparse_tensor"};
  return names[value.index()];
}

const AttributeValue* Attributes::find(std::string_view name) const {
  const auto it = std::lower_bound(items_.begin(), items_.end(), name,
                                   [](const auto& item, std::string_view n) { return item.first < n; });
  return it != items_.end() && it->first == name ? &it->second : nullptr;
}

void Attributes::set(std::string_view name, AttributeValue value) {
  const auto it = std::lower_bound(items_.begin(), items_.end(), name,
                                   [](const auto& item, std::string_view n) { return item.first < n; });
  if (it != items_.end() && it->first == name) {
    it->second = std::move(value);
  } else {
    items_.emplace(it, std::string(name), std::move(value));
  }
}

bool Attributes::erase(std::string_view name) {
  const auto it = std::find_if(items_.begin(), items_.end(), [&](const auto& item) { return item.first == name; });
  if (it == items_.end()) return false;
  items_.erase(it);
  return true;
}

namespace {
template <typename T>
const T* as(const AttributeValue* v) {
  return v ? std::get_if<T>(v) : nullptr;
}
}  // namespace

int64_t Attributes::get_int(std::string_view name, int64_t fallback) const {
  const auto* v = as<int64_t>(find(name));
  return v ? *v : fallback;
}
float Attributes::get_float(std::string_view name, float fallback) const {
  const auto* v = as<float>(find(name));
  return v ? *v : fallback;
}
std::string Attributes::get_string(std::string_view name, std::string_view fallback) const {
  const auto* v = as<std::string>(find(name));
  return v ? *v : std::string(fallback);
}
const std::vector<int64_t>* Attributes::get_ints(std::string_view name) const {
  return as<std::vector<int64_t>>(find(name));
}

namespace {

bool equal_tensors(const Tensor& a, const Tensor& b) {
  if (a.dtype != b.dtype || a.dims != b.dims) return false;
  if (a.dtype == DType::kString) return std::equal(a.strings().begin(), a.strings().end(), b.strings().begin());
  const int64_t n = a.bytes();
  return n == b.bytes() && (n == 0 || std::memcmp(a.data, b.data, static_cast<size_t>(n)) == 0);
}

struct Equal {
  const AttributeValue& other;
  template <typename T>
  bool operator()(const T& a) const {
    return a == std::get<T>(other);
  }
  bool operator()(const Tensor& a) const { return equal_tensors(a, std::get<Tensor>(other)); }
  bool operator()(const std::vector<Tensor>& a) const {
    const auto& b = std::get<std::vector<Tensor>>(other);
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal_tensors);
  }
  bool operator()(const std::shared_ptr<const SparseTensor>& a) const {
    const auto& b = std::get<std::shared_ptr<const SparseTensor>>(other);
    if (!a || !b) return a == b;
    return a->dims == b->dims && equal_tensors(a->values, b->values) && equal_tensors(a->indices, b->indices);
  }
};

}  // namespace

bool equal(const AttributeValue& a, const AttributeValue& b) {
  return a.index() == b.index() && std::visit(Equal{b}, a);
}

}  // namespace forethought
