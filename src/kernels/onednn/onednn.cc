// oneDNN 2.6 behind plain objects.
#include "kernels/onednn/onednn.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <mutex>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"

namespace forethought::kernels::onednn {
namespace {

// oneDNN blocks and splits for the number of OpenMP threads that the calling thread sees. Our pool splits the work, so
// that number is one while we are inside, and the caller's again afterwards.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

const char* text(dnnl_status_t s) {
  switch (s) {
    case dnnl_success:
      return "success";
    case dnnl_out_of_memory:
      return "out of memory";
    case dnnl_invalid_arguments:
      return "invalid arguments";
    case dnnl_unimplemented:
      return "unimplemented";
    case dnnl_iterator_ends:
      return "no more implementations";
    case dnnl_runtime_error:
      return "run-time error";
    case dnnl_not_required:
      return "not required";
  }
  return "unknown status";
}

#define RETURN_IF_DNNL(expr, what)                                                                         \
  do {                                                                                                     \
    if (const dnnl_status_t ft_d_ = (expr); ft_d_ != dnnl_success) [[unlikely]]                            \
      return ft_d_ == dnnl_out_of_memory ? exhausted(absl::StrCat("oneDNN: ", what, ": out of memory"))    \
                                         : unsupported(absl::StrCat("oneDNN: ", what, ": ", text(ft_d_))); \
  } while (false)

// Set up once, never torn down: primitives may outlive main().
struct Library {
  bool usable = false;
  Isa isa = Isa::scalar;
  dnnl_engine_t engine = nullptr;
};

const Library& library() {
  static const Library lib = [] {
    Library l;
    l.isa = active_isa();
    if (l.isa == Isa::scalar) return l;
    if (l.isa == Isa::avx2 && dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2) != dnnl_success &&
        dnnl_get_effective_cpu_isa() != dnnl_cpu_isa_avx2)
      return l;
    OneThread one;
    l.usable = dnnl_set_primitive_cache_capacity(0) == dnnl_success &&
               dnnl_engine_create(&l.engine, dnnl_cpu, 0) == dnnl_success;
    return l;
  }();
  return lib;
}

struct Handles {
  dnnl_primitive_attr_t attr = nullptr;
  dnnl_post_ops_t post_ops = nullptr;
  dnnl_primitive_desc_t desc = nullptr;
  ~Handles() {
    if (desc) dnnl_primitive_desc_destroy(desc);
    if (post_ops) dnnl_post_ops_destroy(post_ops);
    if (attr) dnnl_primitive_attr_destroy(attr);
  }
};

dnnl_status_t append(dnnl_post_ops_t ops, const Epilogue& e) {
  const auto eltwise = [&](dnnl_alg_kind_t kind, float alpha, float beta) {
    return dnnl_post_ops_append_eltwise(ops, 1.0f, kind, alpha, beta);
  };
  switch (e.activation) {
    case Activation::none:
      return dnnl_success;
    case Activation::relu:
      return eltwise(dnnl_eltwise_relu, 0, 0);
    case Activation::leaky_relu:
      return eltwise(dnnl_eltwise_relu, e.alpha, 0);
    case Activation::clip:
      return eltwise(dnnl_eltwise_clip, e.alpha, e.beta);
    case Activation::elu:
      return eltwise(dnnl_eltwise_elu, e.alpha, 0);
    case Activation::sigmoid:
      return eltwise(dnnl_eltwise_logistic, 0, 0);
    case Activation::tanh:
      return eltwise(dnnl_eltwise_tanh, 0, 0);
    case Activation::hard_swish:
      return eltwise(dnnl_eltwise_hardswish, 0, 0);
    case Activation::hard_sigmoid: {
      const dnnl_status_t s = eltwise(dnnl_eltwise_linear, e.alpha, e.beta);
      return s == dnnl_success ? eltwise(dnnl_eltwise_clip, 0, 1) : s;
    }
    case Activation::gelu:
      return eltwise(dnnl_eltwise_gelu_erf, 0, 0);
    case Activation::swish:
      return eltwise(dnnl_eltwise_swish, 1, 0);
  }
  return dnnl_unimplemented;
}

Status make_attr(bool sum, const Epilogue& e, Handles& h) {
  RETURN_IF_DNNL(dnnl_primitive_attr_create(&h.attr), "attributes");
  RETURN_IF_DNNL(dnnl_primitive_attr_set_scratchpad_mode(h.attr, dnnl_scratchpad_mode_user), "scratchpad mode");
  RETURN_IF_DNNL(dnnl_post_ops_create(&h.post_ops), "post-ops");
  if (sum) RETURN_IF_DNNL(dnnl_post_ops_append_sum(h.post_ops, 1.0f), "sum");
  RETURN_IF_DNNL(append(h.post_ops, e), "activation");
  RETURN_IF_DNNL(dnnl_primitive_attr_set_post_ops(h.attr, h.post_ops), "post-ops");
  return absl::OkStatus();
}

// The memory objects of one execution. oneDNN binds data through them, so each concurrent execution needs a set; sets
// are kept for the next execution.
struct Binding {
  dnnl_stream_t stream = nullptr;
  std::array<dnnl_exec_arg_t, 5> args{};
  int count = 0;
  ~Binding() {
    for (int i = 0; i < count; ++i) dnnl_memory_destroy(args[i].memory);
    if (stream) dnnl_stream_destroy(stream);
  }
};

constexpr int kReadyBindings = 16;

class DnnlPrimitive final : public Primitive {
 public:
  ~DnnlPrimitive() override {
    free_.clear();
    if (primitive_) dnnl_primitive_destroy(primitive_);
  }

  static StatusOr<PrimitiveRef> make(dnnl_primitive_desc_t desc) {
    auto p = std::make_shared<DnnlPrimitive>();
    const char* impl = nullptr;
    RETURN_IF_DNNL(dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &impl), "implementation name");
    p->implementation_ = impl;
    if (p->implementation_.find("ref") != std::string::npos)
      return unsupported(absl::StrCat("oneDNN has only the implementation ", impl, " for it"));
    const auto md = [&](dnnl_query_t what) { return *dnnl_primitive_desc_query_md(desc, what, 0); };
    p->src_ = md(dnnl_query_src_md);
    p->weights_ = md(dnnl_query_weights_md);
    p->dst_ = md(dnnl_query_dst_md);
    p->bias_ = *dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 1);
    p->scratch_ = md(dnnl_query_scratchpad_md);
    p->scratch_bytes_ = dnnl_memory_desc_get_size(&p->scratch_);
    RETURN_IF_DNNL(dnnl_primitive_create(&p->primitive_, desc), "primitive");
    // One a core from the start, so that later executions at the same time allocate nothing here.
    static const int cores = allowed_cores();  // reads files
    for (int i = 0; i < std::min(cores, kReadyBindings); ++i) {
      ASSIGN_OR_RETURN(std::unique_ptr<Binding> binding, p->make_binding());
      p->free_.push_back(std::move(binding));
    }
    return PrimitiveRef(std::move(p));
  }

  Status run(const void* src, const void* weights, const float* bias, void* dst, void* scratch) const override {
    OneThread one;
    ASSIGN_OR_RETURN(std::unique_ptr<Binding> b, take());
    for (int i = 0; i < b->count; ++i) {
      void* data = nullptr;
      switch (b->args[i].arg) {
        case DNNL_ARG_SRC:
          data = const_cast<void*>(src);
          break;
        case DNNL_ARG_WEIGHTS:
          data = const_cast<void*>(weights);
          break;
        case DNNL_ARG_BIAS:
          data = const_cast<float*>(bias);
          break;
        case DNNL_ARG_DST:
          data = dst;
          break;
        default:
          data = scratch;
          break;
      }
      RETURN_IF_DNNL(dnnl_memory_set_data_handle(b->args[i].memory, data), "binding memory");
    }
    RETURN_IF_DNNL(dnnl_primitive_execute(primitive_, b->stream, b->count, b->args.data()), "execution");
    give(std::move(b));
    return absl::OkStatus();
  }
  size_t scratch_bytes() const override { return scratch_bytes_; }
  const std::string& implementation() const override { return implementation_; }

 private:
  StatusOr<std::unique_ptr<Binding>> make_binding() const {
    auto b = std::make_unique<Binding>();
    const dnnl_engine_t engine = library().engine;
    RETURN_IF_DNNL(dnnl_stream_create(&b->stream, engine, dnnl_stream_default_flags), "stream");
    const auto add = [&](int arg, const dnnl_memory_desc_t& md) {
      if (dnnl_memory_desc_get_size(&md) == 0) return dnnl_success;
      dnnl_exec_arg_t& a = b->args[b->count];
      a.arg = arg;
      const dnnl_status_t s = dnnl_memory_create(&a.memory, &md, engine, DNNL_MEMORY_NONE);
      if (s == dnnl_success) ++b->count;
      return s;
    };
    RETURN_IF_DNNL(add(DNNL_ARG_SRC, src_), "source memory");
    RETURN_IF_DNNL(add(DNNL_ARG_WEIGHTS, weights_), "weight memory");
    RETURN_IF_DNNL(add(DNNL_ARG_BIAS, bias_), "bias memory");
    RETURN_IF_DNNL(add(DNNL_ARG_DST, dst_), "destination memory");
    RETURN_IF_DNNL(add(DNNL_ARG_SCRATCHPAD, scratch_), "scratch memory");
    return b;
  }
  StatusOr<std::unique_ptr<Binding>> take() const {
    {
      std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        auto b = std::move(free_.back());
        free_.pop_back();
        return b;
      }
    }
    return make_binding();
  }
  void give(std::unique_ptr<Binding> b) const {
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(b));
  }

  dnnl_primitive_t primitive_ = nullptr;
  dnnl_memory_desc_t src_{}, weights_{}, bias_{}, dst_{}, scratch_{};
  size_t scratch_bytes_ = 0;
  std::string implementation_;
  mutable Mutex mutex_;
  mutable std::vector<std::unique_ptr<Binding>> free_;
};

struct ConvTags {
  dnnl_format_tag_t src, weights, dst;
};

ConvTags conv_tags(const ConvKey& k) {
  const bool wide = k.isa == Isa::avx512;
  if (k.rank == 2) {
    const dnnl_format_tag_t data = wide ? dnnl_nChw16c : dnnl_nChw8c;
    if (k.depthwise) return {data, wide ? dnnl_Goihw16g : dnnl_Goihw8g, data};
    if (k.plain_source) return {dnnl_nchw, wide ? dnnl_Ohwi16o : dnnl_Ohwi8o, data};
    return {data, wide ? dnnl_OIhw16i16o : dnnl_OIhw8i8o, data};
  }
  const dnnl_format_tag_t data = wide ? dnnl_nCdhw16c : dnnl_nCdhw8c;
  if (k.plain_source) return {dnnl_ncdhw, wide ? dnnl_Odhwi16o : dnnl_Odhwi8o, data};
  return {data, wide ? dnnl_OIdhw16i16o : dnnl_OIdhw8i8o, data};
}

}  // namespace

bool serves(Isa isa) { return library().usable && isa == library().isa; }

StatusOr<PrimitiveRef> make_convolution(const ConvKey& k) {
  if (!serves(k.isa)) return unsupported(absl::StrCat("oneDNN does not serve the tier ", name(k.isa)));
  if (k.rank != 2 && k.rank != 3) return unsupported("oneDNN convolves in 2 or 3 dimensions");
  if (k.depthwise && k.rank != 2) return unsupported("oneDNN has no depthwise convolution in 3 dimensions");
  OneThread one;
  const int first = 3 - k.rank, nd = k.rank + 2;
  const ConvTags tags = conv_tags(k);
  dnnl_dims_t src{1, k.channels_in}, dst{1, k.channels_out}, strides{}, dilates{}, begin{}, end{};
  dnnl_dims_t weights{k.channels_out, k.channels_in};
  if (k.depthwise) weights[1] = weights[2] = 1;
  for (int d = 0; d < k.rank; ++d) {
    src[2 + d] = k.in[first + d];
    dst[2 + d] = k.out[first + d];
    weights[2 + d + k.depthwise] = k.kernel[first + d];
    strides[d] = k.strides[first + d];
    dilates[d] = k.dilations[first + d] - 1;
    begin[d] = k.pads_begin[first + d];
    end[d] = k.pads_end[first + d];
  }
  dnnl_memory_desc_t src_md, weights_md, dst_md, bias_md;
  const dnnl_dims_t bias_dims{k.channels_out};
  RETURN_IF_DNNL(dnnl_memory_desc_init_by_tag(&src_md, nd, src, dnnl_f32, tags.src), "source");
  RETURN_IF_DNNL(dnnl_memory_desc_init_by_tag(&weights_md, nd + k.depthwise, weights, dnnl_f32, tags.weights),
                 "weights");
  RETURN_IF_DNNL(dnnl_memory_desc_init_by_tag(&dst_md, nd, dst, dnnl_f32, tags.dst), "destination");
  RETURN_IF_DNNL(dnnl_memory_desc_init_by_tag(&bias_md, 1, bias_dims, dnnl_f32, dnnl_x), "bias");
  dnnl_convolution_desc_t conv;
  RETURN_IF_DNNL(dnnl_dilated_convolution_forward_desc_init(&conv, dnnl_forward_inference, dnnl_convolution_direct,
                                                            &src_md, &weights_md, k.bias ? &bias_md : nullptr, &dst_md,
                                                            strides, dilates, begin, end),
                 "convolution");
  Handles h;
  RETURN_IF_ERROR(make_attr(k.sum, k.epilogue, h));
  RETURN_IF_DNNL(dnnl_primitive_desc_create(&h.desc, &conv, h.attr, library().engine, nullptr), "convolution");
  return DnnlPrimitive::make(h.desc);
}

bool serves_matmul(Isa isa, DType dtype) {
  if (!serves(isa) || isa != Isa::avx512) return false;
  if (dtype == DType::kFloat) return true;
  if (dtype != DType::kBFloat16) return false;
  const dnnl_cpu_isa_t best = dnnl_get_effective_cpu_isa();
  return (best & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
}

namespace {
constexpr int64_t kPackColumns = 64;
int64_t pack_rows(DType dtype) { return dtype == DType::kBFloat16 ? 32 : 16; }

// `kPair` consecutive rows lie beside each other within a column.
template <typename T, int kPair>
void pack_blocks(Matrix<T> b, int64_t k, int64_t n, T* out) {
  const int64_t rows = 16 * kPair;
  for (int64_t j0 = 0; j0 < n; j0 += kPackColumns) {
    for (int64_t p0 = 0; p0 < k; p0 += rows) {
      for (int64_t p = p0; p < p0 + rows; p += kPair) {
        for (int64_t j = j0; j < j0 + kPackColumns; ++j) {
          for (int64_t q = p; q < p + kPair; ++q, ++out)
            *out = q < k && j < n ? load_any(b.data, q * b.row_stride + j * b.col_stride) : T{};
        }
      }
    }
  }
}
}  // namespace

int64_t matmul_packed_size(DType dtype, int64_t k, int64_t n) {
  const int64_t rows = pack_rows(dtype);
  return (k + rows - 1) / rows * rows * ((n + kPackColumns - 1) / kPackColumns * kPackColumns);
}
void pack_matmul(Matrix<float> b, int64_t k, int64_t n, float* packed) { pack_blocks<float, 1>(b, k, n, packed); }
void pack_matmul(Matrix<BFloat16> b, int64_t k, int64_t n, BFloat16* packed) {
  pack_blocks<BFloat16, 2>(b, k, n, packed);
}

StatusOr<PrimitiveRef> make_matmul(const MatmulKey& key) {
  if (!serves_matmul(Isa::avx512, key.dtype))
    return unsupported(absl::StrCat("oneDNN has no fast packed matmul in ", name(key.dtype), " here"));
  OneThread one;
  const bool half = key.dtype == DType::kBFloat16;
  const dnnl_data_type_t type = half ? dnnl_bf16 : dnnl_f32;
  const dnnl_dims_t a{key.m, key.k}, b{key.k, key.n}, c{key.m, key.n}, bias{1, key.n};
  dnnl_memory_desc_t a_md, b_md, c_md, bias_md;
  RETURN_IF_DNNL(dnnl_memory_desc_init_by_tag(&a_md, 2, a, type, dnnl_ab), "source");
  RETURN_IF_DNNL(dnnl_memory_desc_init_by_tag(&b_md, 2, b, type, half ? dnnl_BA16a64b2a : dnnl_BA16a64b), "weights");
  RETURN_IF_DNNL(dnnl_memory_desc_init_by_tag(&c_md, 2, c, type, dnnl_ab), "destination");
  RETURN_IF_DNNL(dnnl_memory_desc_init_by_tag(&bias_md, 2, bias, dnnl_f32, dnnl_ab), "bias");
  dnnl_matmul_desc_t matmul;
  RETURN_IF_DNNL(dnnl_matmul_desc_init(&matmul, &a_md, &b_md, key.bias ? &bias_md : nullptr, &c_md), "matmul");
  Handles h;
  RETURN_IF_ERROR(make_attr(false, key.epilogue, h));
  RETURN_IF_DNNL(dnnl_primitive_desc_create(&h.desc, &matmul, h.attr, library().engine, nullptr), "matmul");
  return DnnlPrimitive::make(h.desc);
}

}  // namespace forethought::kernels::onednn
