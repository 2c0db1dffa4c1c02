// Public values as handles of inner ones.
#include "forethought/value.h"

#include <exception>
#include <new>

#include "absl/strings/str_cat.h"
#include "api/rep.h"
#include "base/checked.h"
#include "session/lent_inputs.h"
#include "tensor/strides.h"

namespace forethought::v1 {
namespace {

const Tensor* tensor_of_rep(const std::shared_ptr<Value::Rep>& rep) {
  return rep && rep->value.is_tensor() ? &rep->value.tensor() : nullptr;
}

Status refuse(std::string message) { return Status(ErrorCode::invalid_argument, std::move(message)); }

StatusOr<DType> inner_dtype(ElementType type) {
  const int number = static_cast<int>(type);
  if (!is_valid_dtype(number)) return invalid(absl::StrCat(number, " is no element type"));
  return static_cast<DType>(number);
}

}  // namespace

const char* name(ElementType type) {
  const auto dtype = inner_dtype(type);
  return dtype.ok() ? info(*dtype).type_name : "undefined";
}

Status caught() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return Status(ErrorCode::exhausted, "the system has no more memory");
  } catch (const std::exception& e) {
    return Status(ErrorCode::internal, e.what());
  }
}

Status public_status(const ::forethought::Status& s) {
  ErrorCode code = ErrorCode::internal;
  switch (s.code()) {
    case absl::StatusCode::kOk:
      return Status();
    case absl::StatusCode::kInvalidArgument:
      code = ErrorCode::invalid_argument;
      break;
    case absl::StatusCode::kNotFound:
      code = ErrorCode::not_found;
      break;
    case absl::StatusCode::kUnimplemented:
      code = ErrorCode::unsupported;
      break;
    case absl::StatusCode::kResourceExhausted:
      code = ErrorCode::exhausted;
      break;
    case absl::StatusCode::kCancelled:
      code = ErrorCode::cancelled;
      break;
    default:
      break;
  }
  return Status(code, std::string(s.message()));
}

Value public_value(::forethought::Value value) {
  if (value.is_none()) return Value();
  return Value(std::make_shared<Value::Rep>(Value::Rep{std::move(value)}));
}

const ::forethought::Value& inner_value(const Value& value) {
  static const ::forethought::Value none;
  return value.rep() ? value.rep()->value : none;
}

Value::Value() = default;
Value::Value(std::shared_ptr<Rep> rep) : rep_(std::move(rep)) {}
Value::Value(const Value&) = default;
Value::Value(Value&&) noexcept = default;
Value& Value::operator=(const Value&) = default;
Value& Value::operator=(Value&&) noexcept = default;
Value::~Value() = default;

Result<Value> Value::tensor(ElementType type, std::span<const int64_t> shape) try {
  const auto dtype = inner_dtype(type);
  if (!dtype.ok()) return public_status(dtype.status());
  auto made = make_tensor(*dtype, shape);
  if (!made.ok()) return public_status(made.status());
  return public_value(std::move(*made));
} catch (...) {
  return caught();
}

Result<Value> Value::borrow(ElementType type, std::span<const int64_t> shape, void* data, size_t bytes,
                            std::shared_ptr<void> owner) try {
  const auto dtype = inner_dtype(type);
  if (!dtype.ok()) return public_status(dtype.status());
  Tensor t;
  t.dtype = *dtype;
  t.dims.assign(shape.begin(), shape.end());
  const auto want = storage_bytes(*dtype, Layout::plain(), shape);
  if (!want) return refuse(absl::StrCat("the shape ", to_string(shape), " is impossible"));
  if (static_cast<size_t>(*want) != bytes)
    return refuse(
        absl::StrCat("a tensor of ", name(type), to_string(shape), " has ", *want, " bytes; ", bytes, " came"));
  if (!data && bytes) return refuse("the memory of the tensor is null");
  const size_t alignment =
      *dtype == DType::kString ? alignof(std::string) : std::max<size_t>(1, static_cast<size_t>(bit_width(*dtype)) / 8);
  if (reinterpret_cast<uintptr_t>(data) % alignment)
    return refuse(absl::StrCat("the memory of a tensor of ", name(type), " must be aligned to ", alignment, " bytes"));
  t.data = data;
  if (owner) t.owner = hold(std::move(owner));
  return public_value(std::move(t));
} catch (...) {
  return caught();
}

Result<Value> Value::borrow_strided(ElementType type, std::span<const int64_t> shape, std::span<const int64_t> strides,
                                    int64_t first, void* data, size_t bytes, std::shared_ptr<void> owner) try {
  const auto dtype = inner_dtype(type);
  if (!dtype.ok()) return public_status(dtype.status());
  Tensor t;
  t.dtype = *dtype;
  t.dims.assign(shape.begin(), shape.end());
  t.strides.assign(strides.begin(), strides.end());
  const auto elements = ::forethought::element_count(shape);
  if (!elements) return refuse(absl::StrCat("the shape ", to_string(shape), " is impossible"));
  if (const auto s = check_strides(t); !s.ok()) return public_status(s);
  const int64_t width = bit_width(*dtype) / 8;
  const auto [below, above] = *elements > 0 ? *reach_of(shape, strides) : Reach();  // check_strides() holds
  const auto most = static_cast<int64_t>(std::min<size_t>(bytes, size_t{1} << 60)) / width;
  if (*elements > 0 && (first < 0 || first >= most || first + below < 0 || first + above >= most))
    return refuse(absl::StrCat("a tensor of ", name(type), to_string(shape), " with strides ", to_string(strides),
                               " reaches from ", -below, " elements before its first one to ", above,
                               " behind it; the first is element ", first, " of memory that has ", most));
  if (!data && *elements > 0) return refuse("the memory of the tensor is null");
  if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(width))
    return refuse(absl::StrCat("the memory of a tensor of ", name(type), " must be aligned to ", width, " bytes"));
  t.data = static_cast<char*>(data) + (*elements > 0 ? first * width : 0);
  if (*elements == 0) t.strides.clear();
  if (owner) t.owner = hold(std::move(owner));
  return public_value(std::move(t));
} catch (...) {
  return caught();
}

Result<Value> Value::over(Lease lease, ElementType type, std::span<const int64_t> shape) try {
  if (!lease) return refuse("the lease is empty: it was moved from, or released; lease the memory anew");
  const auto dtype = inner_dtype(type);
  if (!dtype.ok()) return public_status(dtype.status());
  const auto want = *dtype == DType::kString ? std::nullopt : storage_bytes(*dtype, Layout::plain(), shape);
  if (!want) return refuse(absl::StrCat("leased memory cannot be a tensor of ", name(type), to_string(shape)));
  if (static_cast<size_t>(*want) > lease.bytes_)
    return refuse(absl::StrCat("a tensor of ", name(type), to_string(shape), " has ", *want, " bytes; the lease has ",
                               lease.bytes_));
  Tensor t;
  t.dtype = *dtype;
  t.dims.assign(shape.begin(), shape.end());
  t.data = lease.data_;
  t.owner = BufferRef(static_cast<BufferHeader*>(lease.holder_));
  return public_value(std::move(t));
} catch (...) {
  return caught();
}

void Lease::release() {
  data_ = nullptr;
  bytes_ = 0;
  auto* header = static_cast<BufferHeader*>(std::exchange(holder_, nullptr));
  if (!header) return;
  const BufferRef last(header);  // takes over what was counted for holder_
  header->references.fetch_sub(1, std::memory_order_acq_rel);
}

Result<Value> Value::sequence(ElementType element, std::span<const Value> elements) try {
  const auto dtype = inner_dtype(element);
  if (!dtype.ok()) return public_status(dtype.status());
  auto s = std::make_shared<Sequence>();
  s->element = ValueType::tensor(*dtype);
  for (const Value& v : elements) {
    if (v.element_type() != element)
      return refuse(absl::StrCat("element ", s->items.size(), " of the sequence is no tensor of ", name(element)));
    if (!v.strides().empty())
      return refuse(absl::StrCat("element ", s->items.size(), " of the sequence has strides: give it row-major"));
    s->items.push_back(v.rep_->value);
  }
  return public_value(std::shared_ptr<const Sequence>(std::move(s)));
} catch (...) {
  return caught();
}

ValueKind Value::kind() const {
  if (!rep_ || rep_->value.is_none()) return ValueKind::absent;
  if (rep_->value.is_tensor()) return ValueKind::tensor;
  if (rep_->value.sequence()) return ValueKind::sequence;
  return rep_->value.map() ? ValueKind::map : ValueKind::sparse_tensor;
}

ElementType Value::element_type() const {
  const Tensor* t = tensor_of_rep(rep_);
  return t ? static_cast<ElementType>(t->dtype) : ElementType::undefined;
}

std::span<const int64_t> Value::shape() const {
  const Tensor* t = tensor_of_rep(rep_);
  return t ? std::span<const int64_t>(t->dims) : std::span<const int64_t>();
}

std::span<const int64_t> Value::strides() const {
  const Tensor* t = tensor_of_rep(rep_);
  return t ? std::span<const int64_t>(t->strides) : std::span<const int64_t>();
}

int64_t Value::element_count() const {
  const Tensor* t = tensor_of_rep(rep_);
  return t ? t->elements() : 0;
}

size_t Value::byte_size() const {
  const Tensor* t = tensor_of_rep(rep_);
  return t ? static_cast<size_t>(t->bytes()) : 0;
}

const void* Value::data() const {
  const Tensor* t = tensor_of_rep(rep_);
  return t ? t->data : nullptr;
}

void* Value::mutable_data() { return read_only() ? nullptr : const_cast<void*>(data()); }

bool Value::read_only() const { return rep_ && rep_->read_only; }
size_t Value::copied_bytes() const { return rep_ ? static_cast<size_t>(rep_->copied_bytes) : 0; }

Result<Lease> Value::lease() const try {
  const Tensor* t = tensor_of_rep(rep_);
  if (!t) return refuse("only tensors have memory that can be leased");
  if (!t->strides.empty()) return refuse("the tensor has strides: lease row-major memory");
  if (!t->owner)
    return refuse("the memory of the tensor is kept by its caller, not by a lease: copy it, or give it an owner");
  if (read_only()) return refuse("the memory of the tensor is read-only: copy it");
  Lease lease;
  lease.data_ = t->data;
  lease.bytes_ = static_cast<size_t>(t->bytes());
  t->owner.header()->references.fetch_add(1, std::memory_order_relaxed);
  lease.holder_ = t->owner.header();
  return lease;
} catch (...) {
  return caught();
}

Status Value::require_elements(ElementType type) const try {
  if (kind() != ValueKind::tensor) return refuse("the value is no tensor");
  if (!strides().empty()) return refuse("the elements of the tensor do not follow one another: it has strides");
  if (element_type() == type) return Status();
  return refuse(absl::StrCat("the tensor has elements of ", name(element_type()), ", not ", name(type)));
} catch (...) {
  return caught();
}

size_t Value::size() const {
  const Sequence* s = rep_ ? rep_->value.sequence() : nullptr;
  return s ? s->items.size() : 0;
}

Value Value::at(size_t index) const {
  return index < size() ? public_value(rep_->value.sequence()->items[index]) : Value();
}

std::span<const int64_t> Value::int_keys() const {
  const MapValue* m = rep_ ? rep_->value.map() : nullptr;
  return m ? std::span<const int64_t>(m->int_keys) : std::span<const int64_t>();
}

std::span<const std::string> Value::string_keys() const {
  const MapValue* m = rep_ ? rep_->value.map() : nullptr;
  return m ? std::span<const std::string>(m->string_keys) : std::span<const std::string>();
}

Value Value::map_values() const {
  const MapValue* m = rep_ ? rep_->value.map() : nullptr;
  return m ? public_value(m->values) : Value();
}

}  // namespace forethought::v1
