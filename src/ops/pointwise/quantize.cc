// QuantizeLinear and DequantizeLinear: one scale and zero point for the tensor, for each index of an axis, or for each
// block of it.
#include <algorithm>

#include "kernel_api/instance_cache.h"
#include "ops/pointwise/pointwise.h"

namespace forethought {
namespace {
using kernels::Broadcast;
using kernels::Program;

constexpr TypeSet kScales = TypeSet(DType::kFloat) | DType::kFloat16 | DType::kBFloat16;
constexpr TypeSet kQuantized = TypeSet(DType::kInt8) | DType::kUint8 | DType::kInt16 | DType::kUint16;

constexpr uint64_t kZeroPoint = 0;  // of any type

// How elements of x, in memory order, meet the scales. Where the last block of an axis is shorter than the others, one
// slice of the axis is mapped (its whole blocks, then the rest) and `slices` of them follow each other.
struct Mapping {
  Broadcast whole;
  Broadcast rest;  // of no elements where the blocks are even
  int64_t slices = 1;
  int64_t scales_in_whole = 0, scales_in_slice = 0;
};

// The operands x, scale and zero point; the zero point has the scale's shape, or is one element where it is not given.
std::optional<Broadcast> map_three(bool has_zero, std::initializer_list<int64_t> x,
                                   std::initializer_list<int64_t> scale) {
  const std::span<const int64_t> xs(x.begin(), x.size()), ss(scale.begin(), scale.size());
  const std::span<const int64_t> shapes[] = {xs, ss, has_zero ? ss : std::span<const int64_t>()};
  return Broadcast::from_shapes(xs, shapes);
}

int64_t product(std::span<const int64_t> dims) { return element_count(dims).value_or(0); }

// `stored`: the elements of x with the padding of its layout.
StatusOr<Mapping> map_scales(std::span<const int64_t> x, std::span<const int64_t> scale, int64_t stored, int64_t axis,
                             int64_t block, bool has_zero) {
  Mapping m;
  m.rest = Broadcast::same(0, 3);
  std::optional<Broadcast> whole;
  const auto rank = static_cast<int64_t>(x.size());
  if (product(scale) == 1) {
    whole = map_three(has_zero, {stored}, {});
  } else {
    const int64_t a = axis < 0 ? axis + rank : axis;
    if (a < 0 || a >= rank) return invalid(absl::StrCat("axis ", axis, " is outside a tensor of rank ", rank));
    const int64_t outer = product(x.first(a)), length = x[a], inner = product(x.subspan(a + 1));
    if (block == 0) {
      if (scale.size() != 1 || scale[0] != length)
        return invalid(absl::StrCat("input 1 (scale) has shape ", to_string(scale), "; axis ", axis, " of ",
                                    to_string(x), " asks for [", length, "]"));
      whole = map_three(has_zero, {outer, length, inner}, {length, 1});
    } else {
      Dims expected(x.begin(), x.end());
      const int64_t blocks = length / block + (length % block != 0);
      expected[a] = blocks;
      if (!std::equal(expected.begin(), expected.end(), scale.begin(), scale.end()))
        return invalid(absl::StrCat("input 1 (scale) has shape ", to_string(scale), "; blocks of ", block,
                                    " along axis ", axis, " of ", to_string(x), " ask for ", to_string(expected)));
      const int64_t full = length / block, left = length % block;
      m.scales_in_whole = full * inner;
      m.scales_in_slice = blocks * inner;
      if (left == 0) {
        whole = map_three(has_zero, {outer, full, block, inner}, {outer, full, 1, inner});
      } else {
        m.slices = outer;
        whole = map_three(has_zero, {full, block, inner}, {full, 1, inner});
        if (auto rest = map_three(has_zero, {left, inner}, {1, inner})) m.rest = *std::move(rest);
      }
    }
  }
  if (!whole)
    return invalid(absl::StrCat("input 1 (scale) of shape ", to_string(scale), " does not fit ", to_string(x)));
  m.whole = *std::move(whole);
  return m;
}

struct Axis {
  int64_t axis;
  int64_t block;
};

// Operands: x, scale, zero point.
class QuantizeInstance final : public Runnable {
 public:
  QuantizeInstance(Program program, Axis axis, std::optional<Mapping> mapping)
      : program_(std::move(program)), axis_(axis), mapping_(std::move(mapping)) {}

  Status run(RunCtx& c) const override {
    if (mapping_) {
      run_over(c, *mapping_);
    } else {
      ASSIGN_OR_RETURN(const Mapping m, map_scales(c.in(0).dims(), c.in(1).dims(), c.in(0).storage(), axis_.axis,
                                                   axis_.block, c.has_in(2)));
      run_over(c, m);
    }
    if (c.out(0).layout.is_blocked()) clear_channel_padding(c.out(0));
    return absl::OkStatus();
  }

 private:
  void run_over(const RunCtx& c, const Mapping& m) const {
    const bool has_zero = c.has_in(2);
    const void* data[] = {c.in(0).data, c.in(1).data, has_zero ? c.in(2).data : &kZeroPoint};
    if (m.slices == 1 && m.rest.size() == 0) {
      parallel_ranges(c, m.whole.size(), kPointwiseGrain,
                      [&](int64_t begin, int64_t end, int) { program_.run(m.whole, data, c.out(0).data, begin, end); });
      return;
    }
    c.parallel_for(m.slices, [&](int64_t slice, int) {
      const int64_t first = slice * (m.whole.size() + m.rest.size()), scale = slice * m.scales_in_slice;
      run_part(c, m.whole, first, scale);
      run_part(c, m.rest, first + m.whole.size(), scale + m.scales_in_whole);
    });
  }
  void run_part(const RunCtx& c, const Broadcast& part, int64_t element, int64_t scale) const {
    const auto at = [](const Arg& a, int64_t i) { return a.as<char>() + i * (bit_width(a.dtype) / 8); };
    const void* data[] = {at(c.in(0), element), at(c.in(1), scale),
                          c.has_in(2) ? at(c.in(2), scale) : static_cast<const void*>(&kZeroPoint)};
    program_.run(part, data, at(c.out(0), element), 0, part.size());
  }

  Program program_;
  Axis axis_;
  std::optional<Mapping> mapping_;
};

Status check_scales(const InferCtx& c, int64_t axis, int64_t block) {
  if (block < 0) return invalid(absl::StrCat("attribute 'block_size' is ", block, "; it must not be negative"));
  const auto x = c.shape(0).numbers(), scale = c.shape(1).numbers(),
             zero = c.has_in(2) ? c.shape(2).numbers() : std::nullopt;
  if (scale && zero && *scale != *zero && (product(*scale) != 1 || product(*zero) != 1))
    return invalid(
        absl::StrCat("input 2 (zero point) has shape ", to_string(*zero), ", input 1 (scale) ", to_string(*scale)));
  if (x && scale) return map_scales(*x, *scale, product(*x), axis, block, c.has_in(2)).status();
  return absl::OkStatus();
}

StatusOr<KernelFacts> choose_quantize(const ChooseCtx& ctx, const OpName& name, const Traits& traits, Axis axis,
                                      DType zero_type, int64_t variant, BuildProgram build) {
  KernelFacts facts = default_facts(name, traits, ctx);
  facts.kernel.append(".").append(forethought::name(ctx.isa));
  const Operand &x = ctx.inputs[0], &scale = ctx.inputs[1], &out = ctx.outputs[0];
  const bool has_zero = ctx.inputs.size() > 2 && ctx.inputs[2].present;
  InstanceKey key(name.type);
  key.add(ctx.isa).add(axis.axis).add(axis.block).add(variant).add(out.dtype).add(has_zero);
  for (const Operand* o : {&x, &scale})
    key.add(o->dtype).add(o->layout.kind).add(o->layout.block).add(o->known).add_dims(o->dims);
  const auto make = [&]() -> StatusOr<std::shared_ptr<const Runnable>> {
    Program p(ctx.isa);
    const int v[] = {p.add_input(x.dtype), p.add_input(scale.dtype), p.add_input(zero_type)};
    RETURN_IF_ERROR(p.finish(build(p, v), out.dtype));
    std::optional<Mapping> mapping;
    if (x.known && scale.known) {
      const int64_t stored = storage_elements(x.layout, x.dims).value_or(0);
      ASSIGN_OR_RETURN(mapping, map_scales(x.dims, scale.dims, stored, axis.axis, axis.block, has_zero));
    }
    return std::shared_ptr<const Runnable>(std::make_shared<QuantizeInstance>(std::move(p), axis, std::move(mapping)));
  };
  ASSIGN_OR_RETURN(facts.instance, cached_instance(ctx.cache, key, sizeof(QuantizeInstance), make));
  return facts;
}

// An attribute that names an element type, 0 for none.
StatusOr<DType> optional_type(int64_t number, TypeSet allowed, std::string_view attribute) {
  if (number == 0) return DType::kUndefined;
  if (is_valid_dtype(number) && allowed.contains(static_cast<DType>(number))) return static_cast<DType>(number);
  return unsupported(
      absl::StrCat("attribute '", absl::string_view(attribute.data(), attribute.size()), "' is ",
                   is_valid_dtype(number) ? forethought::name(static_cast<DType>(number)) : std::to_string(number),
                   "; this build has ", to_string(allowed)));
}

}  // namespace

// y = saturate(round(x / scale) + zero point), half to even; the quotient has the precision of the scale's type.
struct QuantizeLinear {
  int64_t axis = 1;
  int64_t block_size = 0;
  int64_t output_dtype = 0;
  int64_t precision = 0;
  int64_t saturate = 1;  // of float8 alone
  static constexpr OpName name{"QuantizeLinear"};
  static constexpr auto attrs =
      std::tuple{attr("axis", &QuantizeLinear::axis), attr("block_size", &QuantizeLinear::block_size),
                 attr("output_dtype", &QuantizeLinear::output_dtype), attr("precision", &QuantizeLinear::precision),
                 attr("saturate", &QuantizeLinear::saturate)};
  static constexpr Traits traits{.min_inputs = 2,
                                 .max_inputs = 3,
                                 .in = {kScales | DType::kInt32, kScales | DType::kInt32, kQuantized},
                                 .may_overwrite = 1,
                                 .elementwise = true};

  Status infer(InferCtx& c) const {
    ASSIGN_OR_RETURN(DType out, optional_type(output_dtype, kQuantized, "output_dtype"));
    RETURN_IF_ERROR(optional_type(precision, kScales, "precision").status());
    if (c.has_in(2) && c.dtype(2) != DType::kUndefined) {
      if (out != DType::kUndefined && out != c.dtype(2))
        return invalid(absl::StrCat("attribute 'output_dtype' is ", forethought::name(out), ", input 2 (zero point) ",
                                    forethought::name(c.dtype(2))));
      out = c.dtype(2);
    }
    RETURN_IF_ERROR(check_scales(c, axis, block_size));
    c.set(0, out == DType::kUndefined ? DType::kUint8 : out, c.shape(0));
    if (block_size == 0) c.by_formula();
    return absl::OkStatus();
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    const DType scale = ctx.inputs[1].dtype;
    // Integer scales divide in f64, where the quotient of two of them rounds once.
    const DType quotient = precision != 0           ? static_cast<DType>(precision)
                           : scale == DType::kInt32 ? DType::kDouble
                                                    : scale;
    return choose_quantize(ctx, name, traits, {axis, block_size}, ctx.outputs[0].dtype, precision,
                           [&](Program& p, std::span<const int> v) {
                             const DType work = kernels::work_type(quotient);
                             const int q = p.apply(kernels::PointwiseOp::Div, {p.cast(v[0], work), p.cast(v[1], work)});
                             return p.quantize(p.cast(q, quotient), v[2]);
                           });
  }
};
DEFINE_OP(QuantizeLinear)

// y = (x - zero point) · scale, in f32, stored as the scale's type or as output_dtype.
struct DequantizeLinear {
  int64_t axis = 1;
  int64_t block_size = 0;
  int64_t output_dtype = 0;
  static constexpr OpName name{"DequantizeLinear"};
  static constexpr auto attrs =
      std::tuple{attr("axis", &DequantizeLinear::axis), attr("block_size", &DequantizeLinear::block_size),
                 attr("output_dtype", &DequantizeLinear::output_dtype)};
  static constexpr Traits traits{.min_inputs = 2,
                                 .max_inputs = 3,
                                 .in = {kQuantized | DType::kInt32, kScales, kQuantized | DType::kInt32},
                                 .may_overwrite = 1,
                                 .elementwise = true};

  Status infer(InferCtx& c) const {
    ASSIGN_OR_RETURN(const DType out, optional_type(output_dtype, kScales, "output_dtype"));
    if (c.has_in(2) && c.dtype(2) != DType::kUndefined && c.dtype(0) != DType::kUndefined && c.dtype(2) != c.dtype(0))
      return invalid(absl::StrCat("input 2 (zero point) is ", forethought::name(c.dtype(2)), ", input 0 ",
                                  forethought::name(c.dtype(0))));
    RETURN_IF_ERROR(check_scales(c, axis, block_size));
    c.set(0, out == DType::kUndefined ? c.dtype(1) : out, c.shape(0));
    if (block_size == 0) c.by_formula();
    return absl::OkStatus();
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    return choose_quantize(
        ctx, name, traits, {axis, block_size}, ctx.inputs[0].dtype, 0, [](Program& p, std::span<const int> v) {
          return p.apply(kernels::PointwiseOp::Mul, {p.dequantize(v[0], v[2]), p.cast(v[1], DType::kFloat)});
        });
  }
};
DEFINE_OP(DequantizeLinear)

}  // namespace forethought
