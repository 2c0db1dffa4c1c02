// Direct convolution, share by share.
#include "kernels/conv/direct.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/checked.h"
#include "kernels/gemm/sgemm.h"
#include "kernels/movement/transpose_2d.h"

namespace forethought::kernels {
namespace {

// Fewer input channels than this in a group are read from a plain image: a block of them would be mostly padding.
// oneDNN's AVX2 kernels read at most 3.
int64_t plain_source_limit(Isa isa, int64_t groups) { return isa == Isa::avx512 && groups > 1 ? 16 : 4; }

// A share is worth a thread's while from about 40 µs on; more than 16 shares gain nothing on the machines at hand and
// cost a few per cent.
constexpr double kShareFlops = 4e6;
constexpr int64_t kMaxShares = 16;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Blocks of a share: about blocks / wanted, preferring a divisor so that all shares are one primitive.
int64_t blocks_per_share(int64_t blocks, int64_t wanted) {
  const int64_t least = ceil_div(blocks, std::clamp<int64_t>(wanted, 1, blocks));
  for (int64_t b = least; b <= least + least / 3; ++b)
    if (blocks % b == 0) return b;
  return least;
}

std::array<int64_t, 3> three(const WindowDims& dims, int64_t fill) {
  std::array<int64_t, 3> r{fill, fill, fill};
  std::copy(dims.begin(), dims.end(), r.end() - static_cast<int64_t>(dims.size()));
  return r;
}

int64_t product(const std::array<int64_t, 3>& a) { return a[0] * a[1] * a[2]; }

// What we apply ourselves, to a share that is still in cache: oneDNN's comparing activations turn NaN into a number,
// and its GELU and swish are less exact than ours.
bool is_ours(Activation a) {
  return a == Activation::relu || a == Activation::leaky_relu || a == Activation::clip ||
         a == Activation::hard_sigmoid || a == Activation::gelu || a == Activation::swish;
}

// From so many columns on, our code is as fast as what oneDNN generates; below, oneDNN gains by leaving out the taps
// that read padding.
constexpr int64_t kWideRow = 28;

// oneDNN's generated code addresses with 32-bit offsets.
bool fits(int64_t elements) { return elements < (int64_t{1} << 29); }

}  // namespace

std::string ConvPack::name() const {
  switch (form) {
    case ConvForm::blocked:
      return absl::StrCat("OIhw", block, "i", block, "o");
    case ConvForm::plain_source:
      return absl::StrCat("Ohwi", block, "o");
    case ConvForm::depthwise:
      return absl::StrCat("Goihw", block, "g");
  }
  return "";
}

StatusOr<ConvPack> choose_conv_pack(Isa isa, int64_t out_channels, int64_t group_in, int64_t groups,
                                    std::span<const int64_t> kernel) {
  if (!onednn::serves(isa)) return unsupported(absl::StrCat("oneDNN does not serve the tier ", name(isa)));
  if (kernel.empty() || kernel.size() > 3)
    return unsupported(absl::StrCat("oneDNN convolves in 1 to 3 dimensions, not ", kernel.size()));
  if (groups < 1 || out_channels < 1 || group_in < 1 || out_channels % groups != 0)
    return unsupported("no output channels, or not a whole number of them per group");
  const auto taps = checked_product(kernel);
  if (!taps || *taps < 1) return unsupported("an empty kernel");
  ConvPack p;
  p.block = onednn::channel_block(isa);
  p.groups = groups;
  p.group_in = group_in;
  p.group_out = out_channels / groups;
  p.taps = *taps;
  if (groups > 1 && p.group_in == 1 && p.group_out == 1 && kernel.size() < 3) {
    p.form = ConvForm::depthwise;
  } else if (group_in < plain_source_limit(isa, groups)) {
    p.form = ConvForm::plain_source;
  }
  return p;
}

template <typename T>
void pack_conv_weights(const ConvPack& p, const T* w, float* packed) {
  const int64_t b = p.block, in = p.group_in, out = p.group_out, taps = p.taps;
  std::fill(packed, packed + p.weight_elements(), 0.0f);
  if (p.form == ConvForm::depthwise) {
    for (int64_t g = 0; g < p.groups; ++g)
      for (int64_t t = 0; t < taps; ++t)
        packed[(g / b * taps + t) * b + g % b] = static_cast<float>(load_any(w, g * taps + t));
    return;
  }
  // Filters are read as they lie; what is written at a time is one tile of a block of outputs by a block of inputs.
  const int64_t in_block = p.form == ConvForm::blocked ? b : in, in_blocks = p.padded_in() / in_block;
  const int64_t tile = taps * in_block * b;
  for (int64_t g = 0; g < p.groups; ++g) {
    for (int64_t o0 = 0; o0 < out; o0 += b) {
      for (int64_t i0 = 0; i0 < in; i0 += in_block) {
        float* to = packed + ((g * p.padded_out() + o0) / b * in_blocks + i0 / in_block) * tile;
        for (int64_t o = o0; o < std::min(o0 + b, out); ++o) {
          for (int64_t i = i0; i < std::min(i0 + in_block, in); ++i) {
            const int64_t filter = ((g * out + o) * in + i) * taps;
            for (int64_t t = 0; t < taps; ++t)
              to[(t * in_block + i - i0) * b + o - o0] = static_cast<float>(load_any(w, filter + t));
          }
        }
      }
    }
  }
}

template <typename T>
void pack_conv_bias(const ConvPack& p, const T* bias, float* packed) {
  std::fill(packed, packed + p.bias_elements(), 0.0f);
  if (!bias) return;
  const bool depthwise = p.form == ConvForm::depthwise;
  const int64_t groups = depthwise ? 1 : p.groups, out = depthwise ? p.groups : p.group_out;
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t o = 0; o < out; ++o) packed[g * p.padded_out() + o] = static_cast<float>(load_any(bias, g * out + o));
}

template <typename T>
void unpack_conv_weights(const ConvPack& p, const float* packed, T* w, int64_t begin, int64_t end) {
  const int64_t b = p.block, taps = p.taps;
  const bool depthwise = p.form == ConvForm::depthwise;
  const int64_t in = depthwise ? 1 : p.group_in, out = depthwise ? 1 : p.group_out;
  const int64_t in_block = depthwise ? 1 : p.form == ConvForm::blocked ? b : in;
  const int64_t in_blocks = depthwise ? 1 : p.padded_in() / in_block, tile = taps * in_block * b;
  for (int64_t channel = begin; channel < end; ++channel) {
    const int64_t lane = depthwise ? channel : channel / out * p.padded_out() + channel % out;
    for (int64_t i = 0; i < in; ++i) {
      const float* from = packed + (lane / b * in_blocks + i / in_block) * tile + i % in_block * b + lane % b;
      for (int64_t t = 0; t < taps; ++t) w[(channel * in + i) * taps + t] = static_cast<T>(from[t * in_block * b]);
    }
  }
}

template <typename T>
void unpack_conv_bias(const ConvPack& p, const float* packed, T* bias) {
  const bool depthwise = p.form == ConvForm::depthwise;
  const int64_t groups = depthwise ? 1 : p.groups, out = depthwise ? p.groups : p.group_out;
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t o = 0; o < out; ++o) bias[g * out + o] = static_cast<T>(packed[g * p.padded_out() + o]);
}

#define INSTANTIATE(T)                                                                       \
  template void pack_conv_weights<T>(const ConvPack&, const T*, float*);                     \
  template void pack_conv_bias<T>(const ConvPack&, const T*, float*);                        \
  template void unpack_conv_weights<T>(const ConvPack&, const float*, T*, int64_t, int64_t); \
  template void unpack_conv_bias<T>(const ConvPack&, const float*, T*);
INSTANTIATE(float)
INSTANTIATE(Float16)
INSTANTIATE(BFloat16)
#undef INSTANTIATE

bool DirectConv::generates_nothing(Isa isa, const ConvPack& pack, const Window& w, const Epilogue& epilogue) {
  if (pack.form == ConvForm::plain_source || w.rank() > 2) return false;
  if (!serves_blocked_conv(isa, w.strides.back(), epilogue.activation)) return false;
  const bool wide = w.out.back() >= kWideRow || pack.taps == 1;
  // Of depthwise ones oneDNN's are faster where a tap's weights are used by few outputs at a time.
  return wide && (pack.form != ConvForm::depthwise || (isa == Isa::avx512 && pack.taps <= 9));
}

Status DirectConv::generate(onednn::ConvKey key, int64_t source_channels) {
  auto made = onednn::make_convolution(key);
  if (!made.ok()) {
    // Padding of a whole kernel and more, and any padding of 1×1 kernels: pad a copy of the source instead.
    bool padded = false;
    for (int d = 0; d < 3; ++d) {
      padded |= key.pads_begin[d] > 0 || key.pads_end[d] > 0;
      offset_[d] = key.pads_begin[d];
      source_[d] = (key.out[d] - 1) * key.strides[d] + (key.kernel[d] - 1) * key.dilations[d] + 1;
    }
    if (!padded) return made.status();
    if (!checked_product(source_).has_value()) return unsupported("padded sizes overflow");
    copies_source_ = true;
    key.in = source_;
    key.pads_begin = key.pads_end = {0, 0, 0};
    made = onednn::make_convolution(key);
    if (!made.ok()) return made.status();
  }
  whole_ = *made;
  source_volume_ = product(source_);
  if (!fits(source_volume_) || !fits(source_channels * source_volume_) || !fits(key.channels_out * out_volume_) ||
      !fits(pack_.weight_elements()))
    return unsupported("an image or weights of 2 GiB or more");
  if (out_blocks_ % part_blocks_ != 0) {
    key.channels_out = out_blocks_ % part_blocks_ * pack_.block;
    if (key.depthwise) key.channels_in = key.channels_out;
    ASSIGN_OR_RETURN(tail_, onednn::make_convolution(key));
  }
  return absl::OkStatus();
}

StatusOr<std::shared_ptr<const DirectConv>> DirectConv::make(Isa isa, const ConvPack& pack, const ConvShape& shape,
                                                             const DirectConvOptions& options) {
  const Window& w = shape.window;
  const int64_t b = pack.block;
  const bool depthwise = pack.form == ConvForm::depthwise;
  auto c = std::make_shared<DirectConv>();
  c->isa_ = isa;
  c->pack_ = pack;
  c->options_ = options;
  c->in_channels_ = shape.in_channels;
  c->out_channels_ = shape.out_channels;
  c->groups_run_ = depthwise ? 1 : pack.groups;
  c->in_ = three(w.in, 1);
  onednn::ConvKey key;
  key.isa = isa;
  key.rank = w.rank() == 3 ? 3 : 2;
  key.depthwise = depthwise;
  key.plain_source = pack.form == ConvForm::plain_source;
  key.in = c->in_;
  key.out = three(w.out, 1);
  key.kernel = three(w.kernel, 1);
  key.strides = three(w.strides, 1);
  key.dilations = three(w.dilations, 1);
  key.pads_begin = three(w.pads_begin, 0);
  key.pads_end = three(w.pads_end, 0);
  key.bias = options.bias;
  key.sum = options.sum;
  if (!is_ours(options.epilogue.activation)) key.epilogue = options.epilogue;
  c->in_volume_ = product(c->in_);
  c->out_volume_ = product(key.out);
  if (c->in_volume_ < 1 || c->out_volume_ < 1) return unsupported("an empty image");
  for (int d = 0; d < 3; ++d)
    if (key.pads_begin[d] < 0 || key.pads_end[d] < 0) return unsupported("negative padding");
  if (key.plain_source && options.source_blocked) return unsupported("few input channels are read from a plain source");
  if (c->groups_run_ > 1 &&
      ((options.source_blocked && pack.group_in % b != 0) || (options.dest_blocked && pack.group_out % b != 0)))
    return unsupported(absl::StrCat("groups that are not whole blocks of ", b, " channels need plain channels"));

  const int64_t group_out = depthwise ? pack.groups : pack.group_out;
  c->out_blocks_ = ceil_div(group_out, b);
  const double flops = 2.0 * static_cast<double>(c->out_volume_) * static_cast<double>(pack.taps) *
                       static_cast<double>(group_out) * static_cast<double>(depthwise ? 4 : pack.group_in);
  const int64_t already = std::max<int64_t>(1, shape.batch * c->groups_run_);
  const double wanted = std::min(flops / kShareFlops, static_cast<double>(ceil_div(kMaxShares, already)));
  c->part_blocks_ = blocks_per_share(c->out_blocks_, static_cast<int64_t>(wanted));
  c->parts_ = ceil_div(c->out_blocks_, c->part_blocks_);
  key.channels_out = c->part_blocks_ * b;
  key.channels_in = depthwise ? key.channels_out : pack.padded_in();
  const int64_t source_channels = depthwise ? c->out_blocks_ * b : pack.padded_in();

  c->source_ = c->in_;
  c->source_volume_ = c->in_volume_;
  c->copies_source_ = !key.plain_source && !options.source_blocked;
  if (generates_nothing(isa, pack, w, options.epilogue)) {
    c->geometry_ = {key.in[1],        key.in[2],        key.out[1],        key.out[2],
                    key.kernel[1],    key.kernel[2],    key.strides[1],    key.strides[2],
                    key.dilations[1], key.dilations[2], key.pads_begin[1], key.pads_begin[2]};
  } else {
    RETURN_IF_ERROR(c->generate(key, source_channels));
  }
  c->units_ = shape.batch * c->groups_run_ * c->parts_;
  if (c->copies_source_) {
    const int64_t step = key.plain_source ? source_channels : source_channels / b;
    c->source_units_ = shape.batch * c->groups_run_ * step;
    const auto elements = checked_product(std::array<int64_t, 4>{
        shape.batch, c->groups_run_, source_channels, c->source_volume_ * static_cast<int64_t>(sizeof(float))});
    if (!elements) return unsupported("padded sizes overflow");
    c->shared_bytes_ = static_cast<size_t>(*elements);
  }
  for (const auto& p : {c->whole_, c->tail_})
    if (p) c->primitive_bytes_ = std::max(c->primitive_bytes_, round_up(p->scratch_bytes(), 64));
  c->worker_bytes_ = c->primitive_bytes_;
  if (!options.dest_blocked)
    c->worker_bytes_ += static_cast<size_t>(c->part_blocks_ * b * c->out_volume_) * sizeof(float);
  return std::shared_ptr<const DirectConv>(std::move(c));
}

void DirectConv::prepare_source(const float* x, float* shared, int64_t begin, int64_t end) const {
  const bool plain = pack_.form == ConvForm::plain_source, padded = source_ != in_;
  const int64_t lanes = plain ? 1 : pack_.block;
  const int64_t group_in = pack_.form == ConvForm::depthwise ? pack_.groups : pack_.group_in;
  const int64_t steps = ceil_div(group_in, lanes), size = source_volume_ * lanes;
  for (int64_t u = begin; u < end; ++u) {
    const int64_t image = u / (groups_run_ * steps), g = u / steps % groups_run_, step = u % steps;
    const int64_t first = g * group_in + step * lanes, channels = std::min(lanes, group_in - step * lanes);
    float* out = shared + u * size;
    const float* in = x + image * in_channels_ * in_volume_ + first * in_volume_;
    // A blocked source has whole blocks per image; only then do they start at multiples of the padded channel count.
    if (options_.source_blocked) {
      const int64_t image_blocks = groups_run_ * steps;
      in = x + (image * image_blocks + g * steps + step) * in_volume_ * lanes;
    }
    if (padded || channels < lanes) std::memset(out, 0, static_cast<size_t>(size) * sizeof(float));
    if (!padded) {
      transpose_2d(isa_, Element::w4, in, in_volume_, out, lanes, channels, in_volume_);
      continue;
    }
    // Columns that no tap reads are left out, so the copy may be narrower than the image.
    const auto last = [&](int d) { return std::min(in_[d], source_[d] - offset_[d]); };
    const int64_t cols = last(2);
    if (cols <= 0) continue;
    for (int64_t d = 0; d < last(0); ++d) {
      for (int64_t h = 0; h < last(1); ++h) {
        const int64_t from = (d * in_[1] + h) * in_[2];
        float* row = out + (((d + offset_[0]) * source_[1] + h + offset_[1]) * source_[2] + offset_[2]) * lanes;
        if (options_.source_blocked) {
          std::memcpy(row, in + from * lanes, static_cast<size_t>(cols * lanes) * sizeof(float));
        } else {
          transpose_2d(isa_, Element::w4, in + from, in_volume_, row, lanes, channels, cols);
        }
      }
    }
  }
}

Status DirectConv::run(int64_t unit, const float* x, const float* w, const float* bias, const float* addend, float* y,
                       const float* shared, void* worker) const {
  const int64_t b = pack_.block, part = unit % parts_, g = unit / parts_ % groups_run_;
  const int64_t image = unit / (parts_ * groups_run_);
  const bool depthwise = pack_.form == ConvForm::depthwise;
  const int64_t first = part * part_blocks_, blocks = std::min(part_blocks_, out_blocks_ - first);
  const int64_t group_in = depthwise ? pack_.groups : pack_.group_in;
  const int64_t group_out = depthwise ? pack_.groups : pack_.group_out;

  const float* src;
  if (copies_source_) {
    const int64_t padded_in = depthwise ? out_blocks_ * b : pack_.padded_in();
    src = shared + (image * groups_run_ + g) * padded_in * source_volume_;
  } else if (options_.source_blocked) {
    const int64_t image_blocks = ceil_div(in_channels_, b);
    src = x + (image * image_blocks + g * (group_in / b)) * in_volume_ * b;
  } else {
    src = x + (image * in_channels_ + g * group_in) * in_volume_;
  }
  if (depthwise) src += first * b * source_volume_;
  const int64_t per_output = depthwise ? pack_.taps : pack_.padded_in() * pack_.taps;
  const int64_t out_at = g * out_blocks_ * b + first * b;

  const int64_t channel = g * group_out + first * b;  // first output channel of this share, in the image
  const int64_t channels = std::min(blocks * b, group_out - first * b);
  float* dst = nullptr;
  const int64_t elements = blocks * b * out_volume_;
  if (options_.dest_blocked) {
    const int64_t at = (image * ceil_div(out_channels_, b) + channel / b) * b * out_volume_;
    dst = y + at;
    if (options_.sum && addend != y) std::memcpy(dst, addend + at, static_cast<size_t>(elements) * sizeof(float));
  } else {
    dst = reinterpret_cast<float*>(static_cast<char*>(worker) + primitive_bytes_);
  }
  const int64_t plain_at = (image * out_channels_ + channel) * out_volume_;
  if (options_.sum && !options_.dest_blocked) {
    for (int64_t k = 0; k < blocks; ++k) {
      const int64_t lanes = std::min(b, channels - k * b);
      float* out = dst + k * b * out_volume_;
      if (lanes < b) std::memset(out, 0, static_cast<size_t>(b * out_volume_) * sizeof(float));
      transpose_2d(isa_, Element::w4, addend + plain_at + k * b * out_volume_, out_volume_, out, b, lanes, out_volume_);
    }
  }
  const float *weights = w + out_at * per_output, *biases = bias ? bias + out_at : nullptr;
  if (whole_) {
    const auto& primitive = blocks == part_blocks_ ? whole_ : tail_;
    RETURN_IF_ERROR(primitive->run(src, weights, biases, dst, worker));
    if (is_ours(options_.epilogue.activation))
      sgemm_finish(isa_, {1, 1, {nullptr, 0, 0}, options_.epilogue}, dst, elements, 0, 1, 0, elements);
  } else if (depthwise) {
    blocked_depthwise(isa_, geometry_, src, weights, biases, dst, blocks, options_.sum, options_.epilogue);
  } else {
    blocked_conv(isa_, geometry_, src, pack_.padded_in() / b, weights, biases, dst, blocks, options_.sum,
                 options_.epilogue);
  }
  if (!options_.dest_blocked) {
    for (int64_t k = 0; k < blocks; ++k)
      transpose_2d(isa_, Element::w4, dst + k * b * out_volume_, b, y + plain_at + k * b * out_volume_, out_volume_,
                   out_volume_, std::min(b, channels - k * b));
  } else if (channels < blocks * b && activate(options_.epilogue, 0.0f) != 0.0f) {
    // Lanes beyond the channels are zero by contract; this activation made them something else.
    float* block = dst + (blocks - 1) * b * out_volume_;
    for (int64_t s = 0; s < out_volume_; ++s) std::fill(block + s * b + channels % b, block + (s + 1) * b, 0.0f);
  }
  return absl::OkStatus();
}

}  // namespace forethought::kernels
