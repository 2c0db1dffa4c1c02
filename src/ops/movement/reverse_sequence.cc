// ReverseSequence: of each batch entry the first so many steps in reverse, the others as they are.
#include <algorithm>

#include "ops/movement/moves.h"

namespace forethought {

struct ReverseSequence {
  int64_t batch_axis = 1;
  int64_t time_axis = 0;

  static constexpr OpName name{"ReverseSequence"};
  static constexpr auto attrs =
      std::tuple{attr("batch_axis", &ReverseSequence::batch_axis), attr("time_axis", &ReverseSequence::time_axis)};
  static constexpr Traits traits{.min_inputs = 2, .max_inputs = 2, .in = {movement::kMoved, DType::kInt64}};
  static constexpr int64_t kGrain = 64 * 1024;  // elements worth a block

  Status init(const GraphNode&) {
    if ((batch_axis == 0 && time_axis == 1) || (batch_axis == 1 && time_axis == 0)) return absl::OkStatus();
    return invalid(
        absl::StrCat("batch_axis is ", batch_axis, " and time_axis ", time_axis, "; one must be 0 and the other 1"));
  }

  Status infer(InferCtx& c) const {
    const SymShape &in = c.shape(0), &lengths = c.shape(1);
    if (in.has_rank && in.rank() < 2)
      return invalid(absl::StrCat("input 0 is ", to_string(in), "; it must have two dims or more"));
    if (lengths.has_rank && lengths.rank() != 1)
      return invalid(absl::StrCat("sequence_lens is ", to_string(lengths), "; it must have one dim"));
    if (in.has_rank && lengths.has_rank) {
      const auto batches = in.dims[static_cast<size_t>(batch_axis)].known(), given = lengths.dims[0].known();
      if (batches && given && *batches != *given)
        return invalid(absl::StrCat("there are ", *given, " lengths for ", *batches, " batch entries"));
    }
    return movement::set_moved(c, 0, in);
  }

  Status run(RunCtx& c) const {
    const Arg &x = c.in(0), &lengths = c.in(1);
    const int64_t batches = x.dim(static_cast<int>(batch_axis)), steps = x.dim(static_cast<int>(time_axis));
    if (lengths.elements != batches)
      return invalid(absl::StrCat("there are ", lengths.elements, " lengths for ", batches, " batch entries"));
    const auto* const length = lengths.as<const int64_t>();
    for (int64_t b = 0; b < batches; ++b)
      if (length[b] < 0 || length[b] > steps)
        return invalid(
            absl::StrCat("sequence_lens has ", length[b], " at ", b, "; the sequences have ", steps, " steps"));
    if (x.elements == 0) return absl::OkStatus();
    const int64_t rows = batches * steps, inner = x.elements / rows, columns = x.dim(1);
    parallel_ranges(c, rows, std::max<int64_t>(1, kGrain / inner), [&](int64_t begin, int64_t end, int) {
      kernels::with_element(kernels::element_of(x.dtype), [&]<typename T>() {
        for (int64_t row = begin; row < end; ++row) {
          const int64_t b = batch_axis == 0 ? row / columns : row % columns;
          const int64_t t = batch_axis == 0 ? row % columns : row / columns;
          const int64_t from = t < length[b] ? length[b] - 1 - t : t;
          const int64_t at = batch_axis == 0 ? b * columns + from : from * columns + b;
          kernels::copy_run<T>(x.data, at * inner, c.out(0).data, row * inner, inner);
        }
      });
    });
    return absl::OkStatus();
  }
};
DEFINE_OP(ReverseSequence)

}  // namespace forethought
