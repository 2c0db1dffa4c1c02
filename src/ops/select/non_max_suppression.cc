// NonMaxSuppression: of each class the boxes with the best scores that do not overlap a better one too much.
#include <algorithm>

#include "base/checked.h"
#include "kernels/select/select.h"
#include "ops/op.h"

namespace forethought {

struct NonMaxSuppression {
  int64_t center_point_box = 0;

  static constexpr OpName name{"NonMaxSuppression"};
  static constexpr auto attrs = std::tuple{attr("center_point_box", &NonMaxSuppression::center_point_box)};
  static constexpr Traits traits{
      .min_inputs = 2, .max_inputs = 5, .in = {DType::kFloat, DType::kFloat, DType::kInt64, DType::kFloat}};
  enum Input { kBoxes, kScores, kMost, kOverlap, kThreshold };

  Status init(const GraphNode&) {
    if (center_point_box == 0 || center_point_box == 1) return absl::OkStatus();
    return invalid(absl::StrCat("center_point_box is ", center_point_box, "; it must be 0 or 1"));
  }

  Status infer(InferCtx& c) const {
    const SymShape &boxes = c.shape(kBoxes), &scores = c.shape(kScores);
    for (const SymShape* s : {&boxes, &scores})
      if (s->has_rank && s->rank() != 3)
        return invalid(absl::StrCat("boxes are ", to_string(boxes), " and scores ", to_string(scores),
                                    "; they must be [batches,boxes,4] and [batches,classes,boxes]"));
    if (boxes.has_rank && boxes.dims[2].known().value_or(4) != 4)
      return invalid(absl::StrCat("boxes are ", to_string(boxes), "; each has four numbers"));
    SymShape out(true, {Dim(), Dim(3)});
    if (scores.has_rank) {
      Dim most = scores.dims[2];
      const std::optional<int64_t> limit = c.has_in(kMost) ? c.scalar_int(kMost) : 0;
      if (limit) most = min(most, Dim(std::max<int64_t>(*limit, 0)));
      out.dims[0] = c.data_dim(0, 0, scores.dims[0] * scores.dims[1] * most);
    }
    c.set(0, DType::kInt64, std::move(out));
    return absl::OkStatus();
  }

  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    KernelFacts facts = default_facts(name, traits, ctx);
    if (!ctx.outputs[0].known) facts.sized_at_run = 1;
    const std::span<const int64_t> dims = ctx.inputs[kScores].dims;
    const auto bytes = checked_mul(element_count(dims).value_or(0), static_cast<int64_t>(sizeof(int64_t)));
    if (!bytes) return invalid("there are more scores than memory could hold");
    const int64_t classes = dims.size() == 3 ? dims[0] * dims[1] : 0, n = dims.size() == 3 ? dims[2] : 0;
    facts.scratch_shared = static_cast<size_t>(*bytes) + static_cast<size_t>(classes) * sizeof(int64_t);
    facts.scratch_per_worker = static_cast<size_t>(n) * sizeof(kernels::Ranked);
    return facts;
  }

  Status run(RunCtx& c) const {
    const Arg &boxes = c.in(kBoxes), &scores = c.in(kScores);
    if (boxes.rank != 3 || scores.rank != 3 || boxes.dim(0) != scores.dim(0) || boxes.dim(1) != scores.dim(2) ||
        boxes.dim(2) != 4)
      return invalid(absl::StrCat("boxes are ", to_string(SymShape::of(boxes.dims())), " and scores ",
                                  to_string(SymShape::of(scores.dims())),
                                  "; they must be [batches,boxes,4] and [batches,classes,boxes]"));
    for (int i = kMost; i <= kThreshold; ++i)
      if (c.has_in(i) && c.in(i).elements != 1)
        return invalid(absl::StrCat("input ", i, " has ", c.in(i).elements, " elements; it must have one"));
    const int64_t per_batch = scores.dim(1), classes = scores.dim(0) * per_batch, n = scores.dim(2);
    kernels::Suppression rules;
    rules.centered = center_point_box == 1;
    rules.most = c.has_in(kMost) ? std::clamp<int64_t>(*c.in_as<int64_t>(kMost), 0, n) : 0;
    rules.overlap = c.has_in(kOverlap) ? *c.in_as<float>(kOverlap) : 0;
    rules.has_threshold = c.has_in(kThreshold);
    if (rules.has_threshold) rules.threshold = *c.in_as<float>(kThreshold);
    if (c.scratch_shared < static_cast<size_t>(classes * (n + 1)) * sizeof(int64_t) ||
        c.scratch_per_worker < static_cast<size_t>(n) * sizeof(kernels::Ranked))
      return internal("there is too little scratch memory");
    auto* const counts = reinterpret_cast<int64_t*>(c.scratch());  // of each class, then those it selects
    int64_t* const selected = counts + classes;
    c.parallel_for(rules.most > 0 ? classes : 0, [&](int64_t k, int worker) {
      auto* const room = reinterpret_cast<kernels::Ranked*>(c.worker_scratch(worker));
      counts[k] =
          kernels::suppress(rules, boxes.as<const float>() + k / per_batch * n * 4, scores.as<const float>() + k * n, n,
                            {room, static_cast<size_t>(n)}, selected + k * n);
    });
    int64_t rows = 0;
    for (int64_t k = 0; k < classes && rules.most > 0; ++k) rows += counts[k];
    const int64_t dims[] = {rows, 3};
    ASSIGN_OR_RETURN(void* made, c.host->output(0, dims));
    auto* out = static_cast<int64_t*>(made);
    for (int64_t k = 0; k < classes && rows > 0; ++k)
      for (int64_t i = 0; i < counts[k]; ++i, out += 3) {
        out[0] = k / per_batch;
        out[1] = k % per_batch;
        out[2] = selected[k * n + i];
      }
    return absl::OkStatus();
  }
};
DEFINE_OP(NonMaxSuppression)

}  // namespace forethought
