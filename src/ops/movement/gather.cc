// Gather: slices of one axis by index; negative indices count from the end.
#include "kernels/movement/gather.h"

#include "ops/movement/moves.h"

namespace forethought {

struct Gather {
  int64_t axis = 0;
  static constexpr OpName name{"Gather"};
  static constexpr auto attrs = std::tuple{attr("axis", &Gather::axis)};
  static constexpr Traits traits{.min_inputs = 2, .max_inputs = 2, .in = {movement::kMoved, kIndices}};

  Status infer(InferCtx& c) const;
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    if (auto facts = movement::sized_at_run(*this, ctx)) return *std::move(facts);
    return default_facts(name, traits, ctx);
  }
  Status run(RunCtx& c) const { return c.in(1).dtype == DType::kInt32 ? run_as<int32_t>(c) : run_as<int64_t>(c); }

 private:
  template <typename I>
  Status run_as(RunCtx& c) const;
};
DEFINE_OP(Gather)

Status Gather::infer(InferCtx& c) const {
  RETURN_IF_ERROR(c.require(1, kIndices, "indices"));
  const SymShape& in = c.shape(0);
  const SymShape& indices = c.shape(1);
  SymShape out;
  if (in.has_rank) {
    ASSIGN_OR_RETURN(const int at, c.axis(axis, in.rank()));
    if (indices.has_rank) {
      out.has_rank = true;
      out.dims.assign(in.dims.begin(), in.dims.begin() + at);
      out.dims.insert(out.dims.end(), indices.dims.begin(), indices.dims.end());
      out.dims.insert(out.dims.end(), in.dims.begin() + at + 1, in.dims.end());
    }
    const SymValue* v = c.value(0);
    const auto picked = c.ints(1);
    if (v && picked && in.rank() == 1) {
      SymValue r;
      r.is_float = v->is_float;
      const auto n = static_cast<int64_t>(v->size());
      bool inside = picked->size() <= kMaxPropagated;
      for (size_t k = 0; inside && k < picked->size(); ++k) {
        const int64_t i = (*picked)[k] < 0 ? (*picked)[k] + n : (*picked)[k];
        inside = i >= 0 && i < n;  // the run will refuse it, if it comes to that
        if (!inside) break;
        if (v->is_float)
          r.floats.push_back(v->floats[i]);
        else
          r.ints.push_back(v->ints[i]);
      }
      if (inside) c.set_value(0, std::move(r));
    }
  }
  c.by_formula();
  return movement::set_moved(c, 0, std::move(out));
}

template <typename I>
Status Gather::run_as(RunCtx& c) const {
  const Arg& data = c.in(0);
  const Arg& indices = c.in(1);
  const int at = static_cast<int>(axis < 0 ? axis + data.rank : axis);
  kernels::GatherShape s;
  for (int d = 0; d < at; ++d) s.outer *= data.dim(d);
  for (int d = at + 1; d < data.rank; ++d) s.inner *= data.dim(d);
  s.extent = data.dim(at);
  s.count = indices.elements;
  if (const int64_t bad = kernels::first_bad_index<I>(indices.data, s.count, s.extent); bad >= 0)
    return invalid(absl::StrCat("index ", kernels::load_element<I>(indices.data, bad), " (element ", bad,
                                " of input 1) is outside [", -s.extent, ", ", s.extent - 1, "] of axis ", at, " of ",
                                to_string(data.dims())));
  const kernels::Element e = kernels::element_of(data.dtype);
  parallel_ranges(c, s.inner == 0 ? 0 : s.units(), s.grain(e), [&](int64_t begin, int64_t end, int) {
    kernels::gather<I>(e, s, data.data, indices.data, c.out(0).data, begin, end);
  });
  return absl::OkStatus();
}

}  // namespace forethought
