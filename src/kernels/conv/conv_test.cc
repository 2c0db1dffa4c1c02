// Convolution: the reference against a sum written from the definition, and oneDNN's shares against the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/conv/direct.h"
#include "kernels/conv/reference.h"

namespace forethought::kernels {
namespace {

struct Case {
  const char* name;
  int64_t batch, in_channels, out_channels, groups;
  WindowDims in, kernel, strides, dilations, begin, end;
};

ConvShape shape_of(const Case& c) {
  ConvShape s{c.batch, c.in_channels, c.out_channels, c.groups, {}};
  s.window = {c.in, {}, c.kernel, c.strides, c.dilations, c.begin, c.end};
  for (size_t d = 0; d < c.in.size(); ++d)
    s.window.out.push_back((c.in[d] + c.begin[d] + c.end[d] - (c.kernel[d] - 1) * c.dilations[d] - 1) / c.strides[d] +
                           1);
  return s;
}

std::vector<float> random(int64_t n, unsigned seed) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<float> u(-1, 1);
  std::vector<float> v(n);
  for (float& f : v) f = u(rng);
  return v;
}

// Straight from the definition, in f64, one output at a time.
std::vector<double> by_definition(const ConvShape& s, const std::vector<float>& x, const std::vector<float>& w,
                                  const std::vector<float>& bias) {
  const Window& win = s.window;
  const int64_t in = volume(win.in), out = volume(win.out), taps = volume(win.kernel);
  const int64_t gi = s.in_channels / s.groups, go = s.out_channels / s.groups;
  std::vector<double> y;
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t m = 0; m < s.out_channels; ++m)
      for (int64_t o = 0; o < out; ++o) {
        double sum = bias.empty() ? 0 : bias[m];
        for (int64_t c = 0; c < gi; ++c)
          for (int64_t t = 0; t < taps; ++t) {
            int64_t at = 0, scale = 1, orest = o, trest = t;
            bool inside = true;
            for (int d = win.rank() - 1; d >= 0; --d) {
              const int64_t i =
                  orest % win.out[d] * win.strides[d] + trest % win.kernel[d] * win.dilations[d] - win.pads_begin[d];
              inside &= i >= 0 && i < win.in[d];
              at += i * scale;
              scale *= win.in[d];
              orest /= win.out[d];
              trest /= win.kernel[d];
            }
            if (inside) sum += double(w[(m * gi + c) * taps + t]) * x[(n * s.in_channels + m / go * gi + c) * in + at];
          }
        y.push_back(sum);
      }
  return y;
}

const Case kCases[] = {
    {"1x1", 1, 16, 32, 1, {5, 7}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {"1x1 stride 2", 2, 16, 16, 1, {7, 7}, {1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    {"1x1 padded", 1, 16, 16, 1, {4, 4}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"3x3", 2, 32, 48, 1, {9, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"3x3 odd channels", 1, 19, 37, 1, {6, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"3x3 asymmetric", 1, 16, 16, 1, {6, 9}, {3, 3}, {2, 1}, {1, 1}, {0, 1}, {1, 2}},
    {"3x3 dilated", 1, 20, 16, 1, {11, 12}, {3, 3}, {1, 2}, {2, 3}, {2, 1}, {2, 1}},
    {"pads beyond the kernel", 1, 16, 16, 1, {3, 3}, {3, 3}, {1, 1}, {1, 1}, {4, 4}, {5, 4}},
    {"few channels", 1, 3, 24, 1, {15, 13}, {7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}},
    {"one channel", 3, 1, 8, 1, {8, 8}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
    {"few channels, big pads", 1, 2, 8, 1, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {3, 3}, {3, 3}},
    {"depthwise", 1, 32, 32, 32, {8, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"depthwise odd", 2, 21, 21, 21, {8, 7}, {5, 3}, {2, 1}, {1, 2}, {2, 2}, {2, 2}},
    {"depthwise big pads", 1, 16, 16, 16, {3, 3}, {3, 3}, {1, 1}, {1, 1}, {4, 4}, {4, 4}},
    {"multiplier", 1, 6, 12, 6, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"groups of blocks", 2, 32, 64, 2, {5, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"groups of 4", 1, 16, 16, 4, {6, 6}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {"groups of 34", 1, 68, 68, 2, {7, 6}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {"1-d", 2, 24, 16, 1, {37}, {5}, {2}, {1}, {2}, {1}},
    {"1-d depthwise", 1, 24, 24, 24, {19}, {3}, {1}, {2}, {2}, {2}},
    {"3-d", 1, 17, 16, 1, {4, 5, 6}, {3, 3, 3}, {1, 2, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {"3-d few", 1, 3, 16, 1, {4, 5, 6}, {2, 3, 1}, {1, 1, 1}, {1, 1, 1}, {0, 1, 0}, {0, 1, 0}},
    {"3-d depthwise", 1, 16, 16, 16, {4, 5, 6}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {"3-d big pads", 1, 16, 16, 1, {2, 3, 2}, {1, 2, 1}, {1, 1, 1}, {1, 1, 1}, {2, 2, 2}, {2, 3, 2}},
    {"kernel as big as the image", 1, 32, 16, 1, {6, 6}, {6, 6}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {"stride leaves columns over", 1, 16, 16, 1, {9, 9}, {2, 2}, {3, 3}, {1, 1}, {0, 0}, {0, 0}},
    {"3x3 wide", 1, 37, 40, 1, {5, 43}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"3x3 wide stride 2", 2, 16, 48, 1, {6, 61}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {"3x3 wide dilated", 1, 16, 16, 1, {9, 40}, {3, 3}, {1, 1}, {2, 3}, {2, 3}, {2, 3}},
    {"5x2 wide uneven", 1, 20, 16, 1, {7, 35}, {5, 2}, {2, 1}, {1, 1}, {3, 0}, {1, 1}},
    {"wide pads beyond the kernel", 1, 16, 16, 1, {2, 30}, {3, 3}, {1, 1}, {1, 1}, {4, 5}, {4, 5}},
    {"wide groups", 1, 32, 64, 2, {3, 31}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"1-d wide", 2, 24, 16, 1, {70}, {5}, {2}, {1}, {2}, {1}},
    {"depthwise wide", 1, 37, 37, 37, {4, 43}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"depthwise wide stride 2", 2, 16, 16, 16, {5, 64}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {"depthwise wide row", 1, 16, 16, 16, {2, 31}, {1, 7}, {1, 1}, {1, 1}, {0, 3}, {0, 3}},
    {"many shares", 1, 64, 208, 1, {28, 28}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
};

TEST(ConvReference, AgreesWithTheDefinition) {
  for (const Case& c : kCases) {
    const ConvShape s = shape_of(c);
    const int64_t out = volume(s.window.out) * s.batch * s.out_channels;
    const auto x = random(s.batch * s.in_channels * volume(s.window.in), 1);
    const auto w = random(s.out_channels * s.in_channels / s.groups * volume(s.window.kernel), 2);
    const auto bias = random(s.out_channels, 3);
    std::vector<float> y(out, NAN);
    const int64_t planes = s.batch * s.out_channels, cut = planes / 3;
    conv_reference<float>(s, x.data(), w.data(), bias.data(), y.data(), 0, cut);
    conv_reference<float>(s, x.data(), w.data(), bias.data(), y.data(), cut, planes);
    const auto want = by_definition(s, x, w, bias);
    for (int64_t i = 0; i < out; ++i) ASSERT_NEAR(y[i], want[i], 1e-4) << c.name << " at " << i;
  }
}

// The transposed convolution is the adjoint of the convolution: <conv(x), y> = <x, conv_transpose(y)> with the same
// weights.
TEST(ConvTransposeReference, IsTheAdjointOfConvolution) {
  for (const Case& c : kCases) {
    const ConvShape s = shape_of(c);
    ConvShape t = s;
    std::swap(t.in_channels, t.out_channels);
    std::swap(t.window.in, t.window.out);
    const auto x = random(s.batch * s.in_channels * volume(s.window.in), 1);
    const auto w = random(s.out_channels * s.in_channels / s.groups * volume(s.window.kernel), 2);
    const auto y = random(s.batch * s.out_channels * volume(s.window.out), 3);
    std::vector<double> xd(x.begin(), x.end()), wd(w.begin(), w.end()), yd(y.begin(), y.end());
    std::vector<double> cx(y.size()), ty(x.size());
    conv_reference<double>(s, xd.data(), wd.data(), nullptr, cx.data(), 0, s.batch * s.out_channels);
    conv_transpose_reference<double>(t, yd.data(), wd.data(), nullptr, ty.data(), 0, t.batch * t.out_channels);
    double left = 0, right = 0;
    for (size_t i = 0; i < cx.size(); ++i) left += cx[i] * yd[i];
    for (size_t i = 0; i < ty.size(); ++i) right += ty[i] * xd[i];
    EXPECT_NEAR(left, right, 1e-9 * (1 + std::abs(left))) << c.name;
  }
}

TEST(ConvReference, HalfTypesRoundOnce) {
  const Case& c = kCases[4];
  const ConvShape s = shape_of(c);
  const auto xf = random(s.batch * s.in_channels * volume(s.window.in), 1);
  const auto wf = random(s.out_channels * s.in_channels * volume(s.window.kernel), 2);
  std::vector<Float16> x(xf.begin(), xf.end()), w(wf.begin(), wf.end());
  std::vector<float> x32, w32;
  for (Float16 v : x) x32.push_back(static_cast<float>(v));
  for (Float16 v : w) w32.push_back(static_cast<float>(v));
  const int64_t n = s.out_channels * volume(s.window.out);
  std::vector<Float16> y(n);
  std::vector<float> y32(n);
  conv_reference<Float16>(s, x.data(), w.data(), nullptr, y.data(), 0, s.out_channels);
  conv_reference<float>(s, x32.data(), w32.data(), nullptr, y32.data(), 0, s.out_channels);
  for (int64_t i = 0; i < n; ++i) EXPECT_EQ(y[i].bits, Float16(y32[i]).bits) << i;
}

std::vector<float> to_blocks(const std::vector<float>& x, int64_t batch, int64_t channels, int64_t spatial, int64_t b) {
  const int64_t blocks = (channels + b - 1) / b;
  std::vector<float> r(batch * blocks * spatial * b, 0.0f);
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t s = 0; s < spatial; ++s)
        r[((n * blocks + c / b) * spatial + s) * b + c % b] = x[(n * channels + c) * spatial + s];
  return r;
}

// Runs a case through DirectConv in the layouts asked for; the result as it lies in memory.
StatusOr<std::vector<float>> run_direct(Isa isa, const ConvShape& s, const DirectConvOptions& o,
                                        const std::vector<float>& x, const std::vector<float>& w,
                                        const std::vector<float>& bias, const std::vector<float>& addend,
                                        bool in_place) {
  ASSIGN_OR_RETURN(const ConvPack pack,
                   choose_conv_pack(isa, s.out_channels, s.in_channels / s.groups, s.groups, s.window.kernel));
  std::vector<float> pw(pack.weight_elements(), NAN), pb(pack.bias_elements(), NAN);
  pack_conv_weights(pack, w.data(), pw.data());
  pack_conv_bias(pack, bias.data(), pb.data());
  ASSIGN_OR_RETURN(const auto conv, DirectConv::make(isa, pack, s, o));
  const int64_t in = volume(s.window.in), out = volume(s.window.out), b = pack.block;
  const auto xs = o.source_blocked ? to_blocks(x, s.batch, s.in_channels, in, b) : x;
  auto zs = o.dest_blocked ? to_blocks(addend, s.batch, s.out_channels, out, b) : addend;
  std::vector<float> y(zs.size(), NAN);
  if (in_place) y = zs;
  // Vectors are 16-byte aligned only; scratch needs 64.
  std::vector<float> shared(conv->shared_scratch_bytes() / 4 + 16), worker(conv->worker_scratch_bytes() / 4 + 16);
  const auto align = [](std::vector<float>& v) {
    return reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(v.data()) + 63) & ~uintptr_t{63});
  };
  conv->prepare_source(xs.data(), align(shared), 0, conv->source_units());
  for (int64_t u = conv->units() - 1; u >= 0; --u)
    RETURN_IF_ERROR(conv->run(u, xs.data(), pw.data(), o.bias ? pb.data() : nullptr, in_place ? y.data() : zs.data(),
                              y.data(), align(shared), align(worker)));
  return y;
}

TEST(ConvPack, UnpacksToTheSameBits) {
  const Isa isa = active_isa();
  if (!onednn::serves(isa)) GTEST_SKIP() << "no oneDNN at this tier";
  for (const Case& c : kCases) {
    const ConvShape s = shape_of(c);
    const auto pack =
        choose_conv_pack(isa, s.out_channels, s.in_channels / s.groups, s.groups, s.window.kernel).value();
    const auto check = [&]<typename T>(T) {
      std::vector<T> w, bias;
      for (const float v : random(s.out_channels * s.in_channels / s.groups * volume(s.window.kernel), 2))
        w.push_back(static_cast<T>(v));
      for (const float v : random(s.out_channels, 3)) bias.push_back(static_cast<T>(v));
      std::vector<float> packed(pack.weight_elements()), packed_bias(pack.bias_elements());
      pack_conv_weights(pack, w.data(), packed.data());
      pack_conv_bias(pack, bias.data(), packed_bias.data());
      std::vector<T> got(w.size()), got_bias(bias.size());
      const int64_t half = s.out_channels / 2;
      unpack_conv_weights(pack, packed.data(), got.data(), half, s.out_channels);
      unpack_conv_weights(pack, packed.data(), got.data(), 0, half);
      unpack_conv_bias(pack, packed_bias.data(), got_bias.data());
      EXPECT_EQ(std::memcmp(got.data(), w.data(), w.size() * sizeof(T)), 0) << c.name;
      EXPECT_EQ(std::memcmp(got_bias.data(), bias.data(), bias.size() * sizeof(T)), 0) << c.name;
    };
    check(0.0f);
    check(Float16());
    check(BFloat16());
  }
}

TEST(DirectConv, AgreesWithTheReferenceInEveryLayout) {
  const Isa isa = active_isa();
  if (!onednn::serves(isa)) GTEST_SKIP() << "no oneDNN at this tier";
  int served = 0;
  for (const Case& c : kCases) {
    const ConvShape s = shape_of(c);
    const int64_t planes = s.batch * s.out_channels, out = volume(s.window.out);
    const auto x = random(s.batch * s.in_channels * volume(s.window.in), 1);
    const auto w = random(s.out_channels * s.in_channels / s.groups * volume(s.window.kernel), 2);
    const auto bias = random(s.out_channels, 3);
    const auto addend = random(planes * out, 4);
    for (int bits = 0; bits < 32; ++bits) {
      DirectConvOptions o{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0, {}};
      if (bits & 16) o.epilogue = {Activation::sigmoid, 0, 0};
      std::vector<float> want(planes * out);
      conv_reference<float>(s, x.data(), w.data(), o.bias ? bias.data() : nullptr, want.data(), 0, planes);
      for (size_t i = 0; i < want.size(); ++i) want[i] = activate(o.epilogue, want[i] + (o.sum ? addend[i] : 0.0f));
      if (o.dest_blocked) want = to_blocks(want, s.batch, s.out_channels, out, onednn::channel_block(isa));
      const auto got = run_direct(isa, s, o, x, w, bias, addend, o.sum && (bits & 4));
      if (!got.ok()) {
        EXPECT_EQ(got.status().code(), absl::StatusCode::kUnimplemented) << c.name << got.status();
        EXPECT_TRUE(o.source_blocked || o.dest_blocked) << c.name << ": plain layouts must be served: " << got.status();
        continue;
      }
      ++served;
      ASSERT_EQ(got->size(), want.size());
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR((*got)[i], want[i], 2e-4) << c.name << " options " << bits << " at " << i;
    }
  }
  EXPECT_GT(served, 500);
}

TEST(DirectConv, EveryActivationAgrees) {
  const Isa isa = active_isa();
  if (!onednn::serves(isa)) GTEST_SKIP() << "no oneDNN at this tier";
  const ConvShape s = shape_of(kCases[4]);
  const int64_t out = volume(s.window.out);
  const auto x = random(s.in_channels * volume(s.window.in), 1);
  const auto w = random(s.out_channels * s.in_channels * volume(s.window.kernel), 2);
  const auto bias = random(s.out_channels, 3);
  const Epilogue all[] = {
      {Activation::relu, 0, 0},     {Activation::leaky_relu, 0.1f, 0}, {Activation::clip, -0.5f, 0.75f},
      {Activation::clip, 0.25f, 6}, {Activation::elu, 1.5f, 0},        {Activation::sigmoid, 0, 0},
      {Activation::tanh, 0, 0},     {Activation::hard_swish, 0, 0},    {Activation::hard_sigmoid, 0.2f, 0.5f},
      {Activation::gelu, 0, 0},     {Activation::swish, 0, 0}};
  for (const Epilogue& e : all) {
    for (bool blocked : {false, true}) {
      std::vector<float> want(s.out_channels * out), zero(want.size());
      conv_reference<float>(s, x.data(), w.data(), bias.data(), want.data(), 0, s.out_channels);
      for (float& v : want) v = activate(e, v);
      if (blocked) want = to_blocks(want, 1, s.out_channels, out, onednn::channel_block(isa));
      const auto got = run_direct(isa, s, {false, blocked, true, false, e}, x, w, bias, zero, false);
      ASSERT_TRUE(got.ok()) << got.status();
      for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR((*got)[i], want[i], 1e-4) << name(e.activation) << " " << i;
    }
  }
}

// Wide cases and 1×1 ones run in code that serves any extents, others in what oneDNN generates for a shape.
TEST(DirectConv, BothKindsOfCodeAreReached) {
  const Isa isa = active_isa();
  if (!onednn::serves(isa)) GTEST_SKIP() << "no oneDNN at this tier";
  int ours = 0, generated = 0;
  for (const Case& c : kCases) {
    const ConvShape s = shape_of(c);
    const auto pack = choose_conv_pack(isa, s.out_channels, s.in_channels / s.groups, s.groups, s.window.kernel);
    if (!pack.ok()) continue;
    const bool any = DirectConv::generates_nothing(isa, *pack, s.window, {});
    const auto conv = DirectConv::make(isa, *pack, s, {});
    if (!conv.ok()) continue;
    EXPECT_EQ((*conv)->implementation() == "code for any extents", any) << c.name;
    ++(any ? ours : generated);
    EXPECT_FALSE(DirectConv::generates_nothing(isa, *pack, s.window, {Activation::elu, 1, 0})) << c.name;
  }
  EXPECT_GE(ours, isa == Isa::avx512 ? 14 : 11);
  EXPECT_GE(generated, 10);
}

// Every width of tile, at both strides, in each tier: blocks in threes leave one without a partner.
TEST(BlockedConv, EveryTileAgreesWithTheReference) {
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (isa > active_isa()) continue;
    const int64_t b = onednn::channel_block(isa), channels = 3 * b;
    for (int64_t width = 1; width <= 31; ++width) {
      for (const int64_t stride : {1, 2}) {
        for (const int64_t taps : {1, 3, 5}) {
          for (const bool depthwise : {false, true}) {
            const Case c{"",           1,         channels,    channels, depthwise ? channels : 1,
                         {3, width},   {2, taps}, {1, stride}, {1, 1},   {1, taps / 2},
                         {0, taps / 2}};
            const ConvShape s = shape_of(c);
            const int64_t out = volume(s.window.out), taps_all = 2 * taps;
            const auto x = random(channels * 3 * width, 1), bias = random(channels, 3),
                       addend = random(channels * out, 4);
            const auto w = random(channels * (depthwise ? 1 : channels) * taps_all, 2);
            std::vector<float> want(channels * out);
            conv_reference<float>(s, x.data(), w.data(), bias.data(), want.data(), 0, channels);
            ConvPack pack{depthwise ? ConvForm::depthwise : ConvForm::blocked,
                          b,
                          c.groups,
                          channels / c.groups,
                          channels / c.groups,
                          taps_all};
            std::vector<float> packed(pack.weight_elements());
            pack_conv_weights(pack, w.data(), packed.data());
            const auto xs = to_blocks(x, 1, channels, 3 * width, b);
            const BlockedConv g{3, width, s.window.out[0], s.window.out[1], 2, taps, 1, stride, 1, 1, 1, taps / 2};
            for (const bool sum : {false, true}) {
              for (const Epilogue& e : {Epilogue{}, Epilogue{Activation::relu, 0, 0},
                                        Epilogue{Activation::clip, -1, 0.5f}, Epilogue{Activation::hard_swish, 0, 0}}) {
                auto y = sum ? to_blocks(addend, 1, channels, out, b) : std::vector<float>(channels * out, NAN);
                auto split = y;
                const auto run = [&](std::vector<float>& to, int64_t first, int64_t blocks) {
                  const int64_t block_weights = static_cast<int64_t>(packed.size()) / 3;
                  const float *pw = packed.data() + first * block_weights, *pb = bias.data() + first * b;
                  float* at = to.data() + first * out * b;
                  if (depthwise) {
                    blocked_depthwise(isa, g, xs.data() + first * 3 * width * b, pw, pb, at, blocks, sum, e);
                  } else {
                    blocked_conv(isa, g, xs.data(), 3, pw, pb, at, blocks, sum, e);
                  }
                };
                run(y, 0, 3);
                std::vector<float> plain = want;
                for (size_t i = 0; i < plain.size(); ++i) plain[i] = activate(e, plain[i] + (sum ? addend[i] : 0.0f));
                const auto expected = to_blocks(plain, 1, channels, out, b);
                for (size_t i = 0; i < y.size(); ++i)
                  ASSERT_NEAR(y[i], expected[i], 1e-4)
                      << name(isa) << " width " << width << " stride " << stride << " taps " << taps << " depthwise "
                      << depthwise << " sum " << sum << " " << name(e.activation) << " at " << i;
                for (int64_t k = 0; k < 3; ++k) run(split, k, 1);
                ASSERT_EQ(std::memcmp(split.data(), y.data(), y.size() * sizeof(float)), 0)
                    << "bits depend on the split";
              }
            }
          }
        }
      }
    }
  }
}

TEST(BlockedConv, NaNPassesThroughTheActivation) {
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (isa > active_isa()) continue;
    const int64_t b = onednn::channel_block(isa);
    std::vector<float> x(b, NAN), w(b * b, 1.0f), y(b);
    for (const Activation a : {Activation::none, Activation::relu, Activation::clip, Activation::hard_swish}) {
      blocked_conv(isa, {1, 1, 1, 1}, x.data(), 1, w.data(), nullptr, y.data(), 1, false, {a, -1, 1});
      for (float v : y) EXPECT_TRUE(std::isnan(v)) << name(a);
    }
  }
}

TEST(DirectConv, Refuses) {
  const WindowDims k4{1, 1, 1, 1}, k2{3, 3};
  EXPECT_FALSE(choose_conv_pack(Isa::scalar, 16, 16, 1, k2).ok());
  EXPECT_FALSE(choose_conv_pack(active_isa(), 16, 16, 1, k4).ok());
  EXPECT_FALSE(choose_conv_pack(active_isa(), 15, 16, 2, k2).ok());
}

}  // namespace
}  // namespace forethought::kernels
