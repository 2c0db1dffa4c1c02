// The operators of one tensor that keep its shape and type; their formulas are in kernels/pointwise/functors.inc.
#include <cmath>

#include "ops/pointwise/pointwise.h"
#include "ops/pointwise/propagate.h"

namespace forethought {

// An operator without attributes on the types given; `rule` follows small tensors through it.
#define UNARY_OP(NAME, TYPES)                             \
  struct NAME : Unary<NAME, kernels::PointwiseOp::NAME> { \
    static constexpr OpName name{#NAME};                  \
    static constexpr Traits traits = unary_traits(TYPES); \
  };                                                      \
  DEFINE_OP(NAME)
#define UNARY_OP_FOLLOWED(NAME, TYPES, ...)               \
  struct NAME : Unary<NAME, kernels::PointwiseOp::NAME> { \
    static constexpr OpName name{#NAME};                  \
    static constexpr Traits traits = unary_traits(TYPES); \
    Status infer(InferCtx& c) const {                     \
      c.set(0, c.dtype(0), c.shape(0));                   \
      propagate(c, 1, c.dtype(0), __VA_ARGS__);           \
      c.by_formula();                                     \
      return absl::OkStatus();                            \
    }                                                     \
  };                                                      \
  DEFINE_OP(NAME)

namespace {
Dim negated(const Dim& a, const Dim&) { return Dim(0) - a; }
Dim absolute(const Dim& a, const Dim&) { return a.is_known() ? max(a, Dim(0) - a) : Dim(); }
}  // namespace

UNARY_OP_FOLLOWED(Abs, kNumbers, {&absolute, [](double a, double) { return std::fabs(a); }})
UNARY_OP_FOLLOWED(Ceil, kFloats, {nullptr, [](double a, double) { return std::ceil(a); }})
UNARY_OP(Erf, kFloats)
UNARY_OP(Exp, kFloats)
UNARY_OP_FOLLOWED(Floor, kFloats, {nullptr, [](double a, double) { return std::floor(a); }})
UNARY_OP(HardSwish, kFloats)
UNARY_OP(Log, kFloats)
UNARY_OP(Mish, kFloats)
UNARY_OP_FOLLOWED(Neg, kFloats | kSignedInts, {&negated, [](double a, double) { return -a; }})
UNARY_OP(Reciprocal, kFloats)
UNARY_OP(Sigmoid, kFloats)
UNARY_OP(Softplus, kFloats)
UNARY_OP(Softsign, kFloats)
UNARY_OP(Sqrt, kFloats)
UNARY_OP(Tanh, kFloats)

#undef UNARY_OP
#undef UNARY_OP_FOLLOWED

struct Elu : Unary<Elu, kernels::PointwiseOp::Elu> {
  float alpha = 1;
  static constexpr OpName name{"Elu"};
  static constexpr auto attrs = std::tuple{attr("alpha", &Elu::alpha)};
  static constexpr Traits traits = unary_traits(kFloats);
  kernels::TileParams params() const { return {alpha, 0}; }
};
DEFINE_OP(Elu)

struct HardSigmoid : Unary<HardSigmoid, kernels::PointwiseOp::HardSigmoid> {
  float alpha = 0.2f;
  float beta = 0.5f;
  static constexpr OpName name{"HardSigmoid"};
  static constexpr auto attrs = std::tuple{attr("alpha", &HardSigmoid::alpha), attr("beta", &HardSigmoid::beta)};
  static constexpr Traits traits = unary_traits(kFloats);
  kernels::TileParams params() const { return {alpha, beta}; }
};
DEFINE_OP(HardSigmoid)

struct LeakyRelu : Unary<LeakyRelu, kernels::PointwiseOp::LeakyRelu> {
  float alpha = 0.01f;
  static constexpr OpName name{"LeakyRelu"};
  static constexpr auto attrs = std::tuple{attr("alpha", &LeakyRelu::alpha)};
  static constexpr Traits traits = unary_traits(kFloats);
  kernels::TileParams params() const { return {alpha, 0}; }
};
DEFINE_OP(LeakyRelu)

struct Selu : Unary<Selu, kernels::PointwiseOp::Selu> {
  float alpha = 1.67326319217681884765625f;
  float gamma = 1.05070102214813232421875f;
  static constexpr OpName name{"Selu"};
  static constexpr auto attrs = std::tuple{attr("alpha", &Selu::alpha), attr("gamma", &Selu::gamma)};
  static constexpr Traits traits = unary_traits(kFloats);
  kernels::TileParams params() const { return {alpha, gamma}; }
};
DEFINE_OP(Selu)

}  // namespace forethought
