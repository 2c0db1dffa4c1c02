#include "ops/conv/conv_instance.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "base/checked.h"
#include "kernel_api/instance_cache.h"
#include "kernel_api/run_ctx.h"
#include "kernels/conv/reference.h"
#include "kernels/convert/half_tile.h"
#include "kernels/movement/blocked.h"

namespace forethought {
namespace {

using kernels::ConvPack;

constexpr int64_t kConvertGrain = 16 * 1024;
constexpr int64_t kInstanceBytes = 24 * 1024;  // about, generated code included

// Copies a tensor to f32 or back, in blocks that follow from its size.
void widen_all(const RunCtx& ctx, Isa isa, DType dtype, const void* in, float* out, int64_t n) {
  parallel_ranges(ctx, n, kConvertGrain, [&](int64_t begin, int64_t end, int) {
    if (dtype == DType::kFloat16) {
      kernels::widen(isa, static_cast<const Float16*>(in) + begin, out + begin, end - begin);
    } else {
      kernels::widen(isa, static_cast<const BFloat16*>(in) + begin, out + begin, end - begin);
    }
  });
}

void narrow_all(const RunCtx& ctx, Isa isa, DType dtype, const float* in, void* out, int64_t n) {
  parallel_ranges(ctx, n, kConvertGrain, [&](int64_t begin, int64_t end, int) {
    if (dtype == DType::kFloat16) {
      kernels::narrow(isa, in + begin, static_cast<Float16*>(out) + begin, end - begin);
    } else {
      kernels::narrow(isa, in + begin, static_cast<BFloat16*>(out) + begin, end - begin);
    }
  });
}

// The first error of blocks that run at the same time.
class FirstError {
 public:
  void take(Status s) {
    if (s.ok()) return;
    std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = std::move(s);
  }
  Status status() const { return status_; }

 private:
  std::mutex mutex_;
  Status status_;
};

// Scratch laid out as pieces of 64-byte multiples.
class Pieces {
 public:
  // The offset of a piece; elements that do not fit an address are refused by total().
  size_t add(int64_t elements) {
    const size_t at = bytes_;
    const auto bytes = checked_mul(elements, sizeof(float));
    if (!bytes || *bytes > (int64_t{1} << 62)) {
      overflow_ = true;
    } else {
      bytes_ += round_up(static_cast<size_t>(*bytes), 64);
    }
    return at;
  }
  StatusOr<size_t> total() const {
    if (overflow_ || bytes_ > (size_t{1} << 62)) return unsupported("scratch sizes overflow");
    return bytes_;
  }

 private:
  size_t bytes_ = 0;
  bool overflow_ = false;
};

template <typename F>
Status with_type(DType dtype, F&& f) {
  if (!dispatch(dtype, FloatTypes{}, std::forward<F>(f)))
    return unsupported(absl::StrCat("there is no convolution in ", name(dtype)));
  return absl::OkStatus();
}

class DirectInstance final : public Runnable {
 public:
  static StatusOr<std::shared_ptr<const DirectInstance>> make(const ConvProblem& p) {
    auto r = std::make_shared<DirectInstance>();
    r->p_ = p;
    ASSIGN_OR_RETURN(
        r->conv_, kernels::DirectConv::make(p.isa, p.pack, p.shape,
                                            {p.source_blocked, p.dest_blocked, p.bias, p.residual >= 0, p.epilogue}));
    Pieces pieces;
    r->shared_ = pieces.add(static_cast<int64_t>(r->conv_->shared_scratch_bytes() / sizeof(float)));
    if (!p.weights_packed) r->weights_ = pieces.add(p.pack.weight_elements());
    if (p.bias && !p.bias_packed) r->bias_ = pieces.add(p.pack.bias_elements());
    if (p.dtype != DType::kFloat) {
      r->in_elements_ = p.shape.batch * p.shape.in_channels * kernels::volume(p.shape.window.in);
      r->out_elements_ = p.shape.batch * p.shape.out_channels * kernels::volume(p.shape.window.out);
      r->x_ = pieces.add(r->in_elements_);
      r->y_ = pieces.add(r->out_elements_);
    }
    ASSIGN_OR_RETURN(r->scratch_, pieces.total());
    return std::shared_ptr<const DirectInstance>(std::move(r));
  }

  Status run(RunCtx& ctx) const override {
    std::byte* scratch = ctx.scratch();
    const auto piece = [&](size_t at) { return reinterpret_cast<float*>(scratch + at); };
    const bool half = p_.dtype != DType::kFloat;
    const float *x = ctx.in_as<float>(0), *w = nullptr, *bias = nullptr;
    float* y = ctx.out_as<float>(0);
    if (half) {
      widen_all(ctx, p_.isa, p_.dtype, ctx.in(0).data, piece(x_), in_elements_);
      x = piece(x_);
      y = piece(y_);
    }
    if (p_.weights_packed) {
      w = reinterpret_cast<const float*>(ctx.packed[1].data());
    } else {
      RETURN_IF_ERROR(with_type(p_.dtype, [&]<typename T>() {
        if constexpr (!std::is_same_v<T, double>) pack_conv_weights(p_.pack, ctx.in_as<T>(1), piece(weights_));
      }));
      w = piece(weights_);
    }
    if (p_.bias && p_.bias_packed) {
      bias = reinterpret_cast<const float*>(ctx.packed[2].data());
    } else if (p_.bias) {
      RETURN_IF_ERROR(with_type(p_.dtype, [&]<typename T>() {
        if constexpr (!std::is_same_v<T, double>) kernels::pack_conv_bias(p_.pack, ctx.in_as<T>(2), piece(bias_));
      }));
      bias = piece(bias_);
    }
    const float* addend = p_.residual >= 0 ? ctx.in_as<float>(p_.residual) : nullptr;
    float* shared = piece(shared_);
    ctx.parallel_for(conv_->source_units(),
                     [&](int64_t unit, int) { conv_->prepare_source(x, shared, unit, unit + 1); });
    FirstError error;
    ctx.parallel_for(conv_->units(), [&](int64_t unit, int worker) {
      error.take(conv_->run(unit, x, w, bias, addend, y, shared, ctx.worker_scratch(worker)));
    });
    RETURN_IF_ERROR(error.status());
    if (half) narrow_all(ctx, p_.isa, p_.dtype, y, ctx.out(0).data, out_elements_);
    return absl::OkStatus();
  }

  size_t scratch() const { return scratch_; }
  const kernels::DirectConv& conv() const { return *conv_; }

 private:
  ConvProblem p_;
  std::shared_ptr<const kernels::DirectConv> conv_;
  size_t shared_ = 0, weights_ = 0, bias_ = 0, x_ = 0, y_ = 0, scratch_ = 0;
  int64_t in_elements_ = 0, out_elements_ = 0;
};

class ReferenceInstance final : public Runnable {
 public:
  ReferenceInstance(const ConvProblem& p, int64_t block) : p_(p) {
    in_ = {p.shape.batch, p.shape.in_channels, kernels::volume(p.shape.window.in), block};
    out_ = {p.shape.batch, p.shape.out_channels, kernels::volume(p.shape.window.out), block};
  }

  StatusOr<size_t> plan_scratch() {
    Pieces pieces;
    if (p_.source_blocked) x_ = pieces.add(in_.batch * in_.channels * in_.spatial);
    if (p_.dest_blocked) y_ = pieces.add(out_.batch * out_.channels * out_.spatial);
    if (p_.dest_blocked && p_.residual >= 0) z_ = pieces.add(out_.batch * out_.channels * out_.spatial);
    if (p_.weights_packed) w_ = pieces.add(p_.pack.weight_elements());
    if (p_.bias_packed) bias_ = pieces.add(p_.pack.bias_elements());
    return pieces.total();
  }

  Status run(RunCtx& ctx) const override {
    return with_type(p_.dtype, [&]<typename T>() { run_typed<T>(ctx); });
  }

 private:
  template <typename T>
  void run_typed(RunCtx& ctx) const {
    const T* x = ctx.in_as<T>(0);
    T* y = ctx.out_as<T>(0);
    const T* z = p_.residual >= 0 ? ctx.in_as<T>(p_.residual) : nullptr;
    if constexpr (std::is_same_v<T, float>) {
      const auto piece = [&](size_t at) { return reinterpret_cast<float*>(ctx.scratch() + at); };
      if (p_.source_blocked) {
        from_blocks(ctx, in_, x, piece(x_));
        x = piece(x_);
      }
      if (p_.dest_blocked && z) {
        from_blocks(ctx, out_, z, piece(z_));
        z = piece(z_);
      }
      if (p_.dest_blocked) y = piece(y_);
    }
    const int64_t planes = p_.shape.batch * p_.shape.out_channels, size = out_.spatial;
    const T* w = p_.weights_packed ? unpacked_weights<T>(ctx) : ctx.in_as<T>(1);
    const T* bias = p_.bias_packed ? unpacked_bias<T>(ctx) : p_.bias ? ctx.in_as<T>(2) : nullptr;
    ctx.parallel_for(planes, [&](int64_t plane, int) {
      kernels::conv_reference<T>(p_.shape, x, w, bias, y, plane, plane + 1);
      if constexpr (std::is_same_v<T, float>) {
        float* row = y + plane * size;
        for (int64_t i = 0; z && i < size; ++i) row[i] += z[plane * size + i];
        kernels::activate(p_.epilogue, row, size);
      }
    });
    if constexpr (std::is_same_v<T, float>) {
      if (p_.dest_blocked)
        parallel_ranges(ctx, out_.units(), out_.grain(), [&](int64_t begin, int64_t end, int) {
          kernels::to_blocked(p_.isa, out_, y, ctx.out_as<float>(0), begin, end);
        });
    }
  }
  // What is packed is kept in that form alone.
  template <typename T>
  const T* unpacked_weights(const RunCtx& ctx) const {
    auto* const w = reinterpret_cast<T*>(ctx.scratch() + w_);
    if constexpr (!std::is_same_v<T, double>)
      ctx.parallel_for(p_.shape.out_channels, [&](int64_t channel, int) {
        kernels::unpack_conv_weights(p_.pack, reinterpret_cast<const float*>(ctx.packed[1].data()), w, channel,
                                     channel + 1);
      });
    return w;
  }
  template <typename T>
  const T* unpacked_bias(const RunCtx& ctx) const {
    auto* const bias = reinterpret_cast<T*>(ctx.scratch() + bias_);
    if constexpr (!std::is_same_v<T, double>)
      kernels::unpack_conv_bias(p_.pack, reinterpret_cast<const float*>(ctx.packed[2].data()), bias);
    return bias;
  }
  void from_blocks(RunCtx& ctx, const kernels::BlockedShape& s, const float* in, float* out) const {
    parallel_ranges(ctx, s.units(), s.grain(),
                    [&](int64_t begin, int64_t end, int) { kernels::from_blocked(p_.isa, s, in, out, begin, end); });
  }

  ConvProblem p_;
  kernels::BlockedShape in_, out_;
  size_t x_ = 0, y_ = 0, z_ = 0, w_ = 0, bias_ = 0;
};

void add_window(InstanceKey& key, const kernels::Window& w) {
  for (const auto* list : {&w.in, &w.out, &w.kernel, &w.strides, &w.dilations, &w.pads_begin, &w.pads_end})
    key.add_dims(*list);
}

InstanceKey key_of(const ConvProblem& p) {
  InstanceKey key("conv");
  key.add(p.isa).add(p.dtype).add(p.shape.batch).add(p.shape.in_channels).add(p.shape.out_channels);
  key.add(p.shape.groups).add(p.pack.form).add(p.pack.block);
  key.add(p.epilogue.activation).add(p.epilogue.alpha).add(p.epilogue.beta);
  key.add(p.residual).add(p.bias).add(p.source_blocked).add(p.dest_blocked).add(p.weights_packed).add(p.bias_packed);
  add_window(key, p.shape.window);
  return key;
}

}  // namespace

StatusOr<KernelFacts> choose_direct_conv(const ConvProblem& p, InstanceCache* cache) {
  if (p.dtype != DType::kFloat && p.residual >= 0) return unsupported("a residual is added in f32 only");
  if (p.shape.batch < 1) return unsupported("an empty batch");
  const auto make = [&]() -> StatusOr<std::shared_ptr<const Runnable>> {
    ASSIGN_OR_RETURN(auto made, DirectInstance::make(p));
    return std::shared_ptr<const Runnable>(std::move(made));
  };
  // What has no code of its own costs less to make than to look up.
  const bool cheap = kernels::DirectConv::generates_nothing(p.isa, p.pack, p.shape.window, p.epilogue);
  ASSIGN_OR_RETURN(auto runnable, cached_instance(cheap ? nullptr : cache, key_of(p), kInstanceBytes, make));
  const auto& instance = static_cast<const DirectInstance&>(*runnable);
  KernelFacts facts;
  facts.kernel = absl::StrCat(cheap ? "conv.blocked." : "conv.onednn.direct.", name(p.dtype), ".", name(p.isa));
  facts.reason = absl::StrCat(instance.conv().implementation(), ", weights ", p.pack.name(), ", ",
                              instance.conv().units(), instance.conv().units() == 1 ? " share" : " shares");
  if (instance.conv().source_units() > 0) absl::StrAppend(&facts.reason, "; the source is copied to blocks in scratch");
  if (!p.dest_blocked) absl::StrAppend(&facts.reason, "; each share is copied from blocks to plain channels");
  if (p.dtype != DType::kFloat) absl::StrAppend(&facts.reason, "; ", name(p.dtype), " through f32");
  if (!p.weights_packed) absl::StrAppend(&facts.reason, "; weights are packed at each run");
  facts.scratch_shared = instance.scratch();
  facts.scratch_per_worker = instance.conv().worker_scratch_bytes();
  facts.instance = std::move(runnable);
  return facts;
}

StatusOr<KernelFacts> choose_reference_conv(const ConvProblem& p) {
  if (p.dtype != DType::kFloat && (p.source_blocked || p.dest_blocked))
    return unsupported("blocked channels are for f32 only");
  auto instance = std::make_shared<ReferenceInstance>(p, kernels::onednn::channel_block(p.isa));
  KernelFacts facts;
  facts.kernel = absl::StrCat("conv.reference.", name(p.dtype));
  ASSIGN_OR_RETURN(facts.scratch_shared, instance->plan_scratch());
  facts.instance = std::move(instance);
  return facts;
}

Status pack_conv(const ConvPack& pack, const Tensor& weights, float* packed) {
  return with_type(weights.dtype, [&]<typename T>() {
    if constexpr (!std::is_same_v<T, double>) kernels::pack_conv_weights(pack, weights.as<T>(), packed);
  });
}

Status pack_conv_bias(const ConvPack& pack, const Tensor& bias, float* packed) {
  return with_type(bias.dtype, [&]<typename T>() {
    if constexpr (!std::is_same_v<T, double>) kernels::pack_conv_bias(pack, bias.as<T>(), packed);
  });
}

}  // namespace forethought
