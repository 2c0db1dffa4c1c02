// The type of a value as ONNX declares it: tensor, sequence, optional, map or sparse tensor; and where a value lives.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/dtype.h"

namespace forethought {

// Value semantics; nested types are shared, immutable.
class ValueType {
 public:
  enum class Kind : uint8_t { unknown, tensor, sequence, optional, map, sparse_tensor };

  ValueType() = default;
  static ValueType tensor(DType elem) { return ValueType(Kind::tensor, elem, nullptr); }
  static ValueType sparse_tensor(DType elem) { return ValueType(Kind::sparse_tensor, elem, nullptr); }
  static ValueType sequence(ValueType of) { return ValueType(Kind::sequence, DType::kUndefined, share(std::move(of))); }
  static ValueType optional(ValueType of) { return ValueType(Kind::optional, DType::kUndefined, share(std::move(of))); }
  static ValueType map(DType key, ValueType of) { return ValueType(Kind::map, key, share(std::move(of))); }

  Kind kind() const { return kind_; }
  bool is_tensor() const { return kind_ == Kind::tensor; }
  bool is_unknown() const { return kind_ == Kind::unknown; }
  DType dtype() const { return dtype_; }                   // element type of a (sparse) tensor, key type of a map
  const ValueType* inner() const { return inner_.get(); }  // of sequence, optional, map
  // True for what is a frame object and never bytes in a slab: everything but tensors of fixed-width elements.
  bool is_object() const { return kind_ != Kind::tensor || dtype_ == DType::kString; }
  bool operator==(const ValueType& o) const;

 private:
  ValueType(Kind k, DType d, std::shared_ptr<const ValueType> inner) : kind_(k), dtype_(d), inner_(std::move(inner)) {}
  static std::shared_ptr<const ValueType> share(ValueType t) { return std::make_shared<const ValueType>(std::move(t)); }
  Kind kind_ = Kind::unknown;
  DType dtype_ = DType::kUndefined;
  std::shared_ptr<const ValueType> inner_;
};

std::string to_string(
    const ValueType& type);  // ONNX's spelling: "tensor(float)", "seq(tensor(int64))", "map(string,tensor(float))"
std::optional<ValueType> value_type_from_name(std::string_view text);

enum class DeviceKind : uint8_t { cpu, gpu, npu, other };
enum class MemoryKind : uint8_t { device, host_visible };  // host_visible: the device's memory that the host may touch
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  MemoryKind memory = MemoryKind::device;
  uint16_t index = 0;  // which provider device; 0 is the host for cpu
  constexpr bool is_host() const { return kind == DeviceKind::cpu; }
  constexpr bool operator==(const Device&) const = default;
};
std::string to_string(Device device);  // "cpu", "gpu:1"

}  // namespace forethought
