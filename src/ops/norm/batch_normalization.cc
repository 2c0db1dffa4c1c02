// BatchNormalization: y = (x − mean) / √(var + ε) · scale + B for each channel; in training the moments are the
// batch's.
#include <algorithm>

#include "base/checked.h"
#include "kernels/norm/norm.h"
#include "ops/op.h"

namespace forethought {

struct BatchNormalization {
  float epsilon = 1e-5f;
  float momentum = 0.9f;
  bool training_mode = false;

  static constexpr OpName name{"BatchNormalization"};
  static constexpr auto attrs =
      std::tuple{attr("epsilon", &BatchNormalization::epsilon), attr("momentum", &BatchNormalization::momentum),
                 attr("training_mode", &BatchNormalization::training_mode)};
  static constexpr Traits traits{.min_inputs = 5,
                                 .max_inputs = 5,
                                 .max_outputs = 3,
                                 .in = {kFloats, kFloats, kFloats, kFloats, kFloats},
                                 .may_overwrite = 1};

  Status init(const GraphNode& node) const {
    if (!training_mode && node.outputs.size() > 1) return invalid("has 3 outputs, which only training_mode 1 gives");
    return absl::OkStatus();
  }

  Status infer(InferCtx& c) const {
    const SymShape& x = c.shape(0);
    if (x.has_rank && x.rank() == 0) return invalid("input 0 (X) is a scalar; it needs a batch axis");
    Dim channels = !x.has_rank ? Dim() : x.rank() > 1 ? x.dims[1] : Dim(1);
    static constexpr const char* kNames[] = {"X", "scale", "B", "input_mean", "input_var"};
    for (int i = 1; i < 5; ++i) {
      const SymShape& s = c.shape(i);
      if (!s.has_rank) continue;
      if (s.rank() != 1) return invalid(absl::StrCat("input ", i, " (", kNames[i], ") has rank ", s.rank(), ", not 1"));
      if (!channels.is_known()) continue;
      if (s.dims[0].is_known() && s.dims[0].value() != channels.value())
        return invalid(absl::StrCat("input ", i, " (", kNames[i], ") has ", s.dims[0].value(), " elements for ",
                                    channels.value(), " channels"));
    }
    for (int pair : {1, 3})
      if (c.dtype(pair) != DType::kUndefined && c.dtype(pair + 1) != DType::kUndefined &&
          c.dtype(pair) != c.dtype(pair + 1))
        return invalid(absl::StrCat("inputs ", pair, " and ", pair + 1, " have the types ", to_string(c.type(pair)),
                                    " and ", to_string(c.type(pair + 1)), ", which must be one"));
    c.set(0, c.dtype(0), x);
    SymShape stats(true, {channels});
    c.set(1, c.dtype(3), stats);
    c.set(2, c.dtype(3), stats);
    c.by_formula();
    return absl::OkStatus();
  }

  bool accepts(LayoutQuery& q) const {
    if (training_mode || !q.input_shapes[0]->has_rank || q.input_shapes[0]->rank() < 3) return false;
    for (size_t i = 1; i < q.inputs.size(); ++i)
      if (!q.inputs[i].is_plain()) return false;
    q.outputs[0] = q.inputs[0];
    return true;
  }

  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    KernelFacts facts = default_facts(name, traits, ctx);
    const Operand& x = ctx.inputs[0];
    if (!x.known) return facts;
    const Channels ch = channels_of(x.dims, x.layout);
    facts.scratch_shared = moments_bytes(ch) + kernels::batch_norm_params_bytes(x.dtype, ch.rows.channels);
    return facts;
  }

  Status run(RunCtx& c) const {
    constexpr int64_t kGrain = 16384;  // elements a block normalises at least
    const Arg& x = c.in(0);
    const Channels ch = channels_of(x.dims(), x.layout);
    const auto& [channels, batch, rows] = ch;
    for (int i = 1; i < 5; ++i)
      if (c.in(i).elements != channels)
        return invalid(absl::StrCat("input ", i, " has ", c.in(i).elements, " elements for ", channels, " channels"));
    std::byte* params = c.scratch() + moments_bytes(ch);
    if (c.scratch_shared < moments_bytes(ch) + kernels::batch_norm_params_bytes(x.dtype, rows.channels))
      return internal("there is too little scratch memory");
    const Isa isa = active_isa();
    DType moment_type = c.in(3).dtype;
    const void *mean = c.in(3).data, *var = c.in(4).data;
    if (training_mode) {
      double* m = reinterpret_cast<double*>(c.scratch());
      const int64_t each = std::max<int64_t>(batch * rows.inner, 1);
      parallel_ranges(c, channels, std::max<int64_t>(kGrain / each, 1), [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          const auto got = kernels::channel_moments(isa, x.dtype, x.data, batch, channels, rows.inner, i);
          m[i] = got.mean;
          m[channels + i] = got.variance;
        }
      });
      update_running(c, 1, c.in(3), m);
      update_running(c, 2, c.in(4), m + channels);
      moment_type = DType::kDouble;
      mean = m;
      var = m + channels;
    }
    kernels::batch_norm_params(isa, x.dtype, channels, rows.channels, epsilon, c.in(1).dtype, c.in(1).data,
                               c.in(2).data, moment_type, mean, var, params);
    const int64_t size = rows.inner * rows.block;
    if (size == 0) return absl::OkStatus();
    parallel_ranges(c, batch * (rows.channels / rows.block), std::max<int64_t>(kGrain / size, 1),
                    [&](int64_t begin, int64_t end, int) {
                      kernels::batch_norm(isa, x.dtype, rows, params, x.data, c.out(0).data, begin, end);
                    });
    return absl::OkStatus();
  }

 private:
  struct Channels {
    int64_t channels, batch;
    kernels::ChannelRows rows;
  };
  static Channels channels_of(std::span<const int64_t> dims, Layout layout) {
    Channels r{dims.size() > 1 ? dims[1] : 1, dims[0], {}};
    r.rows = {r.channels, 1, 1};
    for (size_t i = 2; i < dims.size(); ++i) r.rows.inner *= dims[i];
    if (layout.kind == Layout::Kind::channels_last) r.rows.block = std::max<int64_t>(r.channels, 1);
    if (layout.is_blocked()) {
      r.rows.block = layout.block;
      r.rows.channels = (r.channels + layout.block - 1) / layout.block * layout.block;
    }
    return r;
  }
  size_t moments_bytes(const Channels& ch) const {
    return training_mode ? round_up(2 * sizeof(double) * static_cast<size_t>(ch.channels), 64) : 0;
  }

  // running = given · momentum + current · (1 − momentum)
  void update_running(RunCtx& c, int slot, const Arg& given, const double* current) const {
    if (!c.has_out(slot)) return;
    dispatch(given.dtype, FloatTypes{}, [&]<typename T>() {
      const T* g = given.as<T>();
      T* out = c.out_as<T>(slot);
      for (int64_t i = 0; i < given.elements; ++i) {
        if constexpr (std::is_same_v<T, double>) {
          out[i] = g[i] * static_cast<double>(momentum) + current[i] * (1 - static_cast<double>(momentum));
        } else {
          out[i] = T(static_cast<float>(g[i]) * momentum + static_cast<float>(current[i]) * (1 - momentum));
        }
      }
    });
  }
};
DEFINE_OP(BatchNormalization)

}  // namespace forethought
