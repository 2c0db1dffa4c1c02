// Builds and runs pointwise programs.
#include "kernels/pointwise/program.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace forethought::kernels {
namespace {
// Rows shorter than this are put together into whole tiles.
constexpr int64_t kShortRow = 64;

template <typename T>
void copy_elements(const TileArg& arg, void* out, int64_t n) {
  if (arg.scalar) {
    const T v = *static_cast<const T*>(arg.data);
    std::fill_n(static_cast<T*>(out), n, v);
  } else if (arg.data != out) {
    std::memcpy(out, arg.data, static_cast<size_t>(n) * sizeof(T));
  }
}
template <typename T>
void copy_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  copy_elements<T>(args[0], out, n);
}
TileFn find_copy_tile(int width) {
  switch (width) {
    case 1:
      return &copy_tile<uint8_t>;
    case 2:
      return &copy_tile<uint16_t>;
    case 4:
      return &copy_tile<uint32_t>;
    case 8:
      return &copy_tile<uint64_t>;
    default:
      return nullptr;
  }
}
const void* advance(const void* p, int64_t elements, int width) {
  return static_cast<const char*>(p) + elements * width;
}
}  // namespace

int Program::fail(std::string_view message) {
  if (status_.ok()) status_ = unsupported(message);
  return 0;
}

int Program::add_value(DType dtype, int input) {
  values_.push_back({dtype, static_cast<int8_t>(bit_width(dtype) / 8), static_cast<int16_t>(input)});
  return static_cast<int>(values_.size()) - 1;
}

int Program::add_input(DType dtype) {
  if (!kFixedWidth.contains(dtype)) fail(absl::StrCat("no pointwise kernel reads elements of type ", name(dtype)));
  return add_value(dtype, inputs_++);
}

int Program::add_step(TileFn fn, DType out, std::initializer_list<int> args, TileParams params) {
  Step step;
  step.fn = fn;
  step.params = params;
  for (int a : args) step.args[step.count++] = static_cast<int16_t>(a);
  step.out = static_cast<int16_t>(add_value(out, -1));
  steps_.push_back(step);
  return step.out;
}

int Program::cast(int value, DType to) {
  const DType from = values_[value].dtype;
  if (from == to || !status_.ok()) return value;
  const TileFn fn = find_cast_tile(isa_, from, to);
  if (fn == nullptr) return fail(absl::StrCat("no kernel casts ", name(from), " to ", name(to)));
  for (const Step& s : steps_)
    if (s.fn == fn && s.args[0] == value) return s.out;
  return add_step(fn, to, {value}, {});
}

int Program::widened(int value) { return cast(value, work_type(values_[value].dtype)); }

int Program::apply(PointwiseOp op, std::initializer_list<int> args, TileParams params) {
  if (!status_.ok()) return 0;
  const int first = widened(*args.begin());
  const DType work = values_[first].dtype;
  const TileFn fn = find_tile(isa_, op, work);
  if (fn == nullptr || static_cast<int>(args.size()) != arity(op))
    return fail(
        absl::StrCat("no kernel of ", kernels::name(op), " works on ", args.size(), " operands of type ", name(work)));
  int w[3] = {first, first, first};
  for (size_t i = 1; i < args.size(); ++i) {
    w[i] = widened(args.begin()[i]);
    if (values_[w[i]].dtype != work)
      return fail(
          absl::StrCat(kernels::name(op), " of ", name(work), " and ", name(values_[w[i]].dtype), " has no kernel"));
  }
  switch (args.size()) {
    case 1:
      return add_step(fn, work, {w[0]}, params);
    case 2:
      return add_step(fn, work, {w[0], w[1]}, params);
    default:
      return add_step(fn, work, {w[0], w[1], w[2]}, params);
  }
}

int Program::pow(int base, int exponent) {
  if (!status_.ok()) return 0;
  base = widened(base);
  exponent = widened(exponent);
  const DType b = values_[base].dtype, e = values_[exponent].dtype;
  // A float base takes f64 exponents (f32 ones of an f32 base as they are), an integer base also 64-bit integers.
  DType to = DType::kDouble;
  if (b == DType::kFloat && e == DType::kFloat) to = e;
  if (!is_floating(b) && is_integer(e)) to = is_signed_integer(e) ? DType::kInt64 : DType::kUint64;
  exponent = cast(exponent, to);
  const TileFn fn = find_pow_tile(b, to);
  if (fn == nullptr)
    return fail(absl::StrCat("no kernel of Pow has a base of type ", name(b), " and an exponent of type ", name(e)));
  return add_step(fn, b, {base, exponent}, {});
}

int Program::equal(int a, int b) {
  if (!status_.ok()) return 0;
  const DType dtype = values_[a].dtype;
  if (values_[b].dtype != dtype)
    return fail(
        absl::StrCat("Equal compares ", name(dtype), " with ", name(values_[b].dtype), "; the types must be one"));
  a = widened(a);
  b = widened(b);
  return add_step(find_equal_tile(isa_, values_[a].dtype), DType::kBool, {a, b}, {});
}

int Program::less(int a, int b, bool or_equal) {
  if (!status_.ok()) return 0;
  const DType dtype = values_[a].dtype;
  a = widened(a);
  const TileFn fn = find_less_tile(values_[a].dtype, or_equal);
  if (values_[b].dtype != dtype || fn == nullptr)
    return fail(absl::StrCat("no kernel compares ", name(dtype), " with ", name(values_[b].dtype)));
  b = widened(b);
  return add_step(fn, DType::kBool, {a, b}, {});
}

int Program::logic(LogicOp op, int a, int b) {
  if (!status_.ok()) return 0;
  if (values_[a].dtype != DType::kBool || values_[b].dtype != DType::kBool)
    return fail(
        absl::StrCat("And, Or and Xor take bools, not ", name(values_[a].dtype), " and ", name(values_[b].dtype)));
  return add_step(find_logic_tile(op), DType::kBool, {a, b}, {});
}

int Program::integer(IntegerOp op, int a, int b) {
  if (!status_.ok()) return 0;
  const DType dtype = values_[a].dtype;
  a = widened(a);
  const DType work = values_[a].dtype;
  const TileFn fn = find_integer_tile(op, work);
  if (values_[b].dtype != dtype || fn == nullptr)
    return fail(absl::StrCat("no kernel of bits or remainders takes ", name(dtype), " and ", name(values_[b].dtype)));
  b = widened(b);
  return add_step(fn, work, {a, b}, {});
}

int Program::bit_not(int value) {
  if (!status_.ok()) return 0;
  const DType dtype = values_[value].dtype;
  const TileFn fn = find_bit_not_tile(dtype);
  if (fn == nullptr) return fail(absl::StrCat("BitwiseNot takes integers, not ", name(dtype)));
  return add_step(fn, dtype, {value}, {});
}

int Program::where(int condition, int a, int b) {
  if (!status_.ok()) return 0;
  const Value &va = values_[a], &vb = values_[b];
  if (values_[condition].dtype != DType::kBool || va.dtype != vb.dtype)
    return fail(absl::StrCat("Where takes bool and two of one type, not ", name(values_[condition].dtype), ", ",
                             name(va.dtype), " and ", name(vb.dtype)));
  return add_step(find_where_tile(isa_, va.width), va.dtype, {condition, a, b}, {});
}

int Program::logical_not(int value) {
  if (!status_.ok()) return 0;
  if (values_[value].dtype != DType::kBool)
    return fail(absl::StrCat("Not takes bool, not ", name(values_[value].dtype)));
  return add_step(find_not_tile(), DType::kBool, {value}, {});
}

int Program::quantize(int quotient, int zero_point) {
  if (!status_.ok()) return 0;
  quotient = widened(quotient);
  const DType from = values_[quotient].dtype, to = values_[zero_point].dtype;
  const TileFn fn = find_quantize_tile(isa_, from, to);
  if (fn == nullptr) return fail(absl::StrCat("no kernel quantises ", name(from), " to ", name(to)));
  return add_step(fn, to, {quotient, zero_point}, {});
}

int Program::dequantize(int value, int zero_point) {
  if (!status_.ok()) return 0;
  const DType from = values_[value].dtype;
  const TileFn fn = values_[zero_point].dtype == from ? find_dequantize_tile(isa_, from) : nullptr;
  if (fn == nullptr)
    return fail(
        absl::StrCat("no kernel dequantises ", name(from), " with a zero point of ", name(values_[zero_point].dtype)));
  return add_step(fn, DType::kFloat, {value, zero_point}, {});
}

Status Program::finish(int result, DType dtype) {
  result = cast(result, dtype);
  RETURN_IF_ERROR(status_);
  if (values_[result].input >= 0) result = add_step(find_copy_tile(values_[result].width), dtype, {result}, {});
  FT_CHECK(steps_.back().out == result);
  result_ = result;
  direct_ = steps_.size() == 1 && steps_[0].count == inputs_;
  for (int i = 0; direct_ && i < inputs_; ++i) direct_ = steps_[0].args[i] == i;
  return assign_slots();
}

// Puts a loading step before the first use of each input, and gives every value but the result a slot from its birth to
// its last use. A result may take the slot of an operand of its own width that dies with the step.
Status Program::assign_slots() {
  absl::InlinedVector<Step, 4> all;
  absl::InlinedVector<bool, 16> loaded(values_.size());
  for (const Step& s : steps_) {
    for (int i = 0; i < s.count; ++i) {
      const int16_t v = s.args[i];
      if (values_[v].input < 0 || loaded[v]) continue;
      loaded[v] = true;
      Step load;
      load.args[0] = load.out = v;
      all.push_back(load);
    }
    all.push_back(s);
  }
  absl::InlinedVector<size_t, 16> last_use(values_.size());
  for (size_t i = 0; i < all.size(); ++i)
    for (int k = 0; k < all[i].count; ++k) last_use[all[i].args[k]] = i;

  uint32_t free_slots = (1u << kMaxSlots) - 1;
  absl::InlinedVector<int8_t, 16> slot_of(values_.size(), -1);
  const auto release = [&](const Step& s, size_t i, bool same_width) {
    for (int k = 0; k < s.count; ++k) {
      const int16_t v = s.args[k];
      if (last_use[v] != i || slot_of[v] < 0 || (values_[v].width == values_[s.out].width) != same_width) continue;
      free_slots |= 1u << slot_of[v];
      slot_of[v] = -1;
    }
  };
  for (size_t i = 0; i < all.size(); ++i) {
    Step& s = all[i];
    if (s.out == result_) break;
    if (s.fn != nullptr) release(s, i, true);
    if (free_slots == 0)
      return unsupported(absl::StrCat("a pointwise chain needs more than ", kMaxSlots, " values at once"));
    s.slot = slot_of[s.out] = static_cast<int8_t>(__builtin_ctz(free_slots));
    free_slots &= free_slots - 1;
    if (s.fn != nullptr) release(s, i, false);
  }
  steps_ = std::move(all);
  return absl::OkStatus();
}

void Program::run_direct(const Broadcast& shape, const void* const* inputs, void* out, int64_t begin,
                         int64_t end) const {
  TileArg args[3];
  bool all_scalar = true;
  for (int k = 0; k < inputs_; ++k) {
    const bool scalar = shape.access(k) == Broadcast::Access::kScalar;
    args[k] = {scalar ? inputs[k] : advance(inputs[k], begin, values_[k].width), scalar};
    all_scalar = all_scalar && scalar;
  }
  if (all_scalar) return run_tiles(shape, inputs, out, begin, end);
  const Step& step = steps_.back();
  const int width = values_[result_].width;
  step.fn(args, static_cast<char*>(out) + begin * width, end - begin, step.params);
}

// The place in the output while tiles go by: coordinates of the row, and each mixed operand's offset there.
struct Program::Walk {
  const Broadcast& shape;
  absl::InlinedVector<int64_t, 6> at;
  absl::InlinedVector<int64_t, 4> offset;
  int64_t column;

  Walk(const Broadcast& s, int64_t begin) : shape(s), at(s.rank()), offset(s.operands(), 0), column(0) {
    if (s.flat()) return;
    int64_t rest = begin / s.inner();
    column = begin % s.inner();
    for (int d = s.rank() - 2; d >= 0; --d) {
      at[d] = rest % s.dim(d);
      rest /= s.dim(d);
      for (int k = 0; k < s.operands(); ++k) offset[k] += at[d] * s.stride(k, d);
    }
  }
  void advance(int64_t n) {
    column += n;
    if (column < shape.inner()) return;
    column = 0;
    for (int d = shape.rank() - 2; d >= 0; --d) {
      const bool wraps = ++at[d] == shape.dim(d);
      const int64_t steps = wraps ? 1 - shape.dim(d) : 1;
      for (int k = 0; k < shape.operands(); ++k) offset[k] += steps * shape.stride(k, d);
      if (!wraps) return;
      at[d] = 0;
    }
  }
};

void Program::run_tiles(const Broadcast& shape, const void* const* inputs, void* out, int64_t begin,
                        int64_t end) const {
  alignas(64) char slots[kMaxSlots][kTile * 8];
  absl::InlinedVector<TileArg, 16> values(values_.size());
  const bool by_rows = !shape.flat() && shape.inner() >= kShortRow;
  const int out_width = values_[result_].width;
  Walk walk(shape, begin);
  for (int64_t pos = begin, n = 0; pos < end; pos += n) {
    n = std::min(kTile, end - pos);
    if (by_rows) n = std::min(n, shape.inner() - walk.column);
    for (const Step& step : steps_) {
      char* slot = step.slot >= 0 ? slots[step.slot] : nullptr;
      TileArg& result = values[step.out];
      if (step.fn == nullptr) {
        const int k = values_[step.out].input, width = values_[step.out].width;
        const int64_t stride = shape.stride(k, shape.rank() - 1);
        if (shape.access(k) == Broadcast::Access::kScalar) {
          result = {inputs[k], true};
        } else if (shape.access(k) == Broadcast::Access::kContiguous) {
          result = {advance(inputs[k], pos, width), false};
        } else if (by_rows && (stride == 0 || stride == 1)) {
          result = {advance(inputs[k], walk.offset[k] + walk.column * stride, width), stride == 0};
        } else {
          shape.gather(k, inputs[k], width, pos, n, slot);
          result = {slot, false};
        }
        continue;
      }
      TileArg args[3];
      bool scalar = true;
      for (int i = 0; i < step.count; ++i) {
        args[i] = values[step.args[i]];
        scalar = scalar && args[i].scalar;
      }
      if (slot != nullptr) {
        step.fn(args, slot, scalar ? 1 : n, step.params);
        result = {slot, scalar};
      } else if (char* target = static_cast<char*>(out) + pos * out_width; !scalar) {
        step.fn(args, target, n, step.params);
      } else {
        step.fn(args, slots[0], 1, step.params);
        find_copy_tile(out_width)(&(result = {slots[0], true}), target, n, {});
      }
    }
    if (by_rows) walk.advance(n);
  }
}

}  // namespace forethought::kernels
