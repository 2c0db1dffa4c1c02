// SplitToSequence: pieces of a tensor along an axis as a sequence: of one size, of given sizes, or of one element each.
// Pieces along the first axis share the tensor's bytes.
#include <algorithm>

#include "kernels/movement/strided_copy.h"
#include "ops/movement/moves.h"
#include "ops/sequence/position.h"

namespace forethought {

struct SplitToSequence {
  int64_t axis = 0;
  bool keepdims = true;
  static constexpr OpName name{"SplitToSequence"};
  static constexpr auto attrs =
      std::tuple{attr("axis", &SplitToSequence::axis), attr("keepdims", &SplitToSequence::keepdims)};
  static constexpr Traits traits{
      .min_inputs = 1, .max_inputs = 2, .in = {movement::kMoved, kIndices}, .foldable = false};

  Status infer(InferCtx& c) const {
    if (c.shape(0).has_rank) RETURN_IF_ERROR(c.axis(axis, c.shape(0).rank()).status());
    if (c.has_in(1) && c.shape(1).has_rank && c.shape(1).rank() > 1)
      return invalid(absl::StrCat("split is ", to_string(c.shape(1)), "; it must be one size or a list of sizes"));
    c.set_type(0, ValueType::sequence(c.type(0)));
    return absl::OkStatus();
  }

  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    KernelFacts facts = default_facts(name, traits, ctx);
    if (axis == 0 && ctx.inputs[0].dtype != DType::kString) facts.escapes = 1;
    facts.host_inputs = 1u << 1;
    return facts;
  }

  Status run(RunCtx& c) const {
    const Arg& x = c.in(0);
    if (axis < -x.rank || axis >= x.rank) return invalid(absl::StrCat("axis ", axis, " of a tensor of rank ", x.rank));
    const int at = static_cast<int>(axis < 0 ? axis + x.rank : axis);
    ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, piece_sizes(c, x.dim(at)));
    auto s = std::make_shared<Sequence>();
    s->element = ValueType::tensor(x.dtype);
    s->items.reserve(sizes.size());
    Value whole;
    if (at == 0 && x.dtype != DType::kString) {
      ASSIGN_OR_RETURN(whole, c.host->escape(0));
    }
    int64_t begin = 0;
    for (const int64_t size : sizes) {
      if (whole.is_tensor() && whole.tensor().owner) {
        s->items.push_back(share(whole.tensor(), begin, size));
      } else {
        ASSIGN_OR_RETURN(Tensor piece, cut(c, at, begin, size));
        s->items.push_back(std::move(piece));
      }
      Dims& dims = const_cast<Value&>(s->items.back()).tensor().dims;
      if (!keepdims && !c.has_in(1)) dims.erase(dims.begin() + at);
      begin += size;
    }
    return c.host->set_output(0, Value(std::shared_ptr<const Sequence>(std::move(s))));
  }

 private:
  static StatusOr<std::vector<int64_t>> piece_sizes(const RunCtx& c, int64_t extent) {
    if (!c.has_in(1)) return std::vector<int64_t>(static_cast<size_t>(extent), 1);
    const Arg& split = c.in(1);
    const auto size_at = [&](int64_t i) {
      return split.dtype == DType::kInt32 ? int64_t{split.as<int32_t>()[i]} : split.as<int64_t>()[i];
    };
    std::vector<int64_t> sizes;
    if (split.rank == 0) {
      const int64_t size = size_at(0);
      if (size <= 0) return invalid(absl::StrCat("split is ", size, "; pieces must have at least one element"));
      for (int64_t left = extent; left > 0; left -= size) sizes.push_back(std::min(size, left));
      return sizes;
    }
    int64_t left = extent;
    for (int64_t i = 0; i < split.elements; ++i) {
      sizes.push_back(size_at(i));
      if (sizes.back() < 0 || sizes.back() > left)
        return invalid(
            absl::StrCat("piece ", i, " would have ", sizes.back(), " elements; ", left, " of ", extent, " are left"));
      left -= sizes.back();
    }
    if (left != 0) return invalid(absl::StrCat("the pieces leave ", left, " of ", extent, " elements over"));
    return sizes;
  }

  static Tensor share(const Tensor& whole, int64_t begin, int64_t size) {
    Tensor t = whole;
    t.dims[0] = 1;
    t.data = static_cast<std::byte*>(whole.data) + begin * t.bytes();
    t.dims[0] = size;
    return t;
  }

  static StatusOr<Tensor> cut(const RunCtx& c, int at, int64_t begin, int64_t size) {
    const Arg& x = c.in(0);
    Dims dims(x.dims().begin(), x.dims().end());
    int64_t outer = 1, inner = 1;
    for (int d = 0; d < at; ++d) outer *= dims[d];
    for (int d = at + 1; d < x.rank; ++d) inner *= dims[d];
    dims[at] = size;
    ASSIGN_OR_RETURN(Tensor piece, c.host->make_escaping(x.dtype, dims));
    const kernels::Element e = kernels::element_of(x.dtype);
    const kernels::StridedCopy copy = kernels::window_copy(e, outer, size * inner, x.dim(at) * inner, size * inner);
    copy.run(active_isa(), kernels::advance(static_cast<const void*>(x.data), e, begin * inner), piece.data, 0,
             copy.units());
    return piece;
  }
};
DEFINE_OP(SplitToSequence)

}  // namespace forethought
