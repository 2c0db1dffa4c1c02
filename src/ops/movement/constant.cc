// Constant: a value that stands in an attribute.
#include <algorithm>
#include <cstring>

#include "ops/movement/moves.h"

namespace forethought {

struct Constant {
  std::optional<Tensor> value;
  std::optional<float> value_float;
  std::optional<int64_t> value_int;
  std::optional<std::string> value_string;
  std::optional<std::vector<float>> value_floats;
  std::optional<std::vector<int64_t>> value_ints;
  std::optional<std::vector<std::string>> value_strings;
  static constexpr OpName name{"Constant"};
  static constexpr auto attrs = std::tuple{attr("value", &Constant::value),
                                           attr("value_float", &Constant::value_float),
                                           attr("value_floats", &Constant::value_floats),
                                           attr("value_int", &Constant::value_int),
                                           attr("value_ints", &Constant::value_ints),
                                           attr("value_string", &Constant::value_string),
                                           attr("value_strings", &Constant::value_strings)};
  static constexpr Traits traits{.min_inputs = 0, .max_inputs = 0};

  Status init(const GraphNode&);
  Status infer(InferCtx& c) const {
    c.set(0, tensor_.dtype, SymShape::of(tensor_.dims));
    if (auto v = decode_value(tensor_)) c.set_value(0, *std::move(v));
    return absl::OkStatus();
  }
  Status run(RunCtx& c) const {
    if (tensor_.dtype == DType::kString) {
      std::copy_n(tensor_.as<std::string>(), tensor_.elements(), c.out_as<std::string>(0));
    } else if (tensor_.bytes() > 0) {
      std::memcpy(c.out(0).data, tensor_.data, static_cast<size_t>(tensor_.bytes()));
    }
    return absl::OkStatus();
  }

 private:
  template <typename T>
  Status take(std::span<const int64_t> dims, const T* values) {
    ASSIGN_OR_RETURN(tensor_, make_tensor(dtype_of<T>, dims));
    std::copy_n(values, tensor_.elements(), tensor_.as<T>());
    return absl::OkStatus();
  }
  Tensor tensor_;
};
DEFINE_OP(Constant)

Status Constant::init(const GraphNode&) {
  const int given = value.has_value() + value_float.has_value() + value_floats.has_value() + value_int.has_value() +
                    value_ints.has_value() + value_string.has_value() + value_strings.has_value();
  if (given != 1) return invalid(absl::StrCat("has ", given, " of the value attributes; it needs exactly one"));
  const auto many = [](const auto& v) { return Dims{static_cast<int64_t>(v.size())}; };
  if (value_float) return take<float>({}, &*value_float);
  if (value_int) return take<int64_t>({}, &*value_int);
  if (value_string) return take<std::string>({}, &*value_string);
  if (value_floats) return take<float>(many(*value_floats), value_floats->data());
  if (value_ints) return take<int64_t>(many(*value_ints), value_ints->data());
  if (value_strings) return take<std::string>(many(*value_strings), value_strings->data());
  tensor_ = *value;
  return absl::OkStatus();
}

}  // namespace forethought
