// GatherElements: of each place the element that an index along one axis names.
#include "kernels/movement/gather.h"
#include "kernels/movement/gather_points.h"
#include "ops/movement/moves.h"

namespace forethought {

struct GatherElements {
  int64_t axis = 0;

  static constexpr OpName name{"GatherElements"};
  static constexpr auto attrs = std::tuple{attr("axis", &GatherElements::axis)};
  static constexpr Traits traits{.min_inputs = 2, .max_inputs = 2, .in = {movement::kMoved, kIndices}};
  static constexpr int64_t kGrain = 16 * 1024;  // elements worth a block

  Status infer(InferCtx& c) const {
    RETURN_IF_ERROR(c.require(1, kIndices, "indices"));
    const SymShape &data = c.shape(0), &indices = c.shape(1);
    if (data.has_rank && indices.has_rank) {
      ASSIGN_OR_RETURN(const int at, c.axis(axis, data.rank()));
      bool fits = data.rank() == indices.rank();
      for (int d = 0; fits && d < data.rank(); ++d) {
        const auto a = data.dims[static_cast<size_t>(d)].known(), b = indices.dims[static_cast<size_t>(d)].known();
        fits = d == at || !a || !b || *b <= *a;
      }
      if (!fits) return refuse(to_string(data), to_string(indices));
    }
    return movement::set_moved(c, 0, indices);
  }

  Status run(RunCtx& c) const { return c.in(1).dtype == DType::kInt32 ? run_as<int32_t>(c) : run_as<int64_t>(c); }

 private:
  static Status refuse(const std::string& data, const std::string& indices) {
    return invalid(absl::StrCat("the data is ", data, " and the indices ", indices,
                                "; their ranks must be equal, and beside the axis no dim of the indices larger"));
  }

  template <typename I>
  Status run_as(RunCtx& c) const {
    const Arg &data = c.in(0), &indices = c.in(1);
    const kernels::ElementsShape s{data.dims(), indices.dims(), static_cast<int>(axis < 0 ? axis + data.rank : axis)};
    bool fits = data.rank == indices.rank;
    for (int d = 0; fits && d < data.rank; ++d) fits = d == s.axis || indices.dim(d) <= data.dim(d);
    if (!fits) return refuse(to_string(data.dims()), to_string(indices.dims()));
    const int64_t extent = data.dim(s.axis);
    if (const int64_t bad = kernels::first_bad_index<I>(indices.data, indices.elements, extent); bad >= 0)
      return invalid(absl::StrCat("index ", kernels::load_element<I>(indices.data, bad), " (element ", bad,
                                  " of input 1) is outside [", -extent, ", ", extent - 1, "] of axis ", s.axis, " of ",
                                  to_string(data.dims())));
    parallel_ranges(c, indices.elements, kGrain, [&](int64_t begin, int64_t end, int) {
      kernels::gather_elements<I>(kernels::element_of(data.dtype), s, data.data, indices.as<const I>(), c.out(0).data,
                                  begin, end);
    });
    return absl::OkStatus();
  }
};
DEFINE_OP(GatherElements)

}  // namespace forethought
