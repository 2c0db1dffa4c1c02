// Gather, fill, Pad and the blocked-channel reorders against index-by-index references.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/movement/blocked.h"
#include "kernels/movement/fill.h"
#include "kernels/movement/gather.h"
#include "kernels/movement/pad.h"
#include "kernels/movement/test_util.h"

namespace forethought::kernels {
namespace {

using testing::Elements;
using testing::for_each_index;
using testing::kElements;
using testing::linear;
using testing::product;
using Dims = std::vector<int64_t>;

template <typename I>
void check_gather(Element e, GatherShape s, const std::vector<I>& indices) {
  s.count = std::ssize(indices);
  const Elements in = Elements::numbered(e, s.outer * s.extent * s.inner, 1);
  Elements want(e, s.units() * s.inner), out(e, s.units() * s.inner);
  for (int64_t o = 0; o < s.outer; ++o)
    for (int64_t i = 0; i < s.count; ++i)
      for (int64_t k = 0; k < s.inner; ++k) {
        const int64_t at = indices[i] < 0 ? indices[i] + s.extent : indices[i];
        want.take((o * s.count + i) * s.inner + k, in, (o * s.extent + at) * s.inner + k);
      }
  ASSERT_EQ(first_bad_index<I>(indices.data(), s.count, s.extent), -1);
  for (int64_t u = 0; u < s.units(); u += 4)
    gather<I>(e, s, in.data(), indices.data(), out.data(), u, std::min(u + 4, s.units()));
  EXPECT_TRUE(out == want);
}

TEST(Gather, AgainstReference) {
  for (Element e : kElements) {
    check_gather<int64_t>(e, {.outer = 1, .extent = 5, .inner = 3}, {0, 4, -1, -5, 2});
    check_gather<int32_t>(e, {.outer = 3, .extent = 4, .inner = 1}, {3, 3, 0, -2});
    check_gather<int32_t>(e, {.outer = 2, .extent = 4, .inner = 0}, {3, 0});
    check_gather<int64_t>(e, {.outer = 0, .extent = 4, .inner = 2}, {3, 0});
    check_gather<int64_t>(e, {.outer = 2, .extent = 0, .inner = 2}, {});
  }
}

TEST(Gather, FindsTheFirstIndexOutside) {
  const std::vector<int64_t> wide{0, -3, 3, 9};
  EXPECT_EQ(first_bad_index<int64_t>(wide.data(), 4, 3), 2);
  EXPECT_EQ(first_bad_index<int64_t>(wide.data(), 4, 10), -1);
  EXPECT_EQ(first_bad_index<int64_t>(wide.data(), 4, 0), 0);
  const std::vector<int32_t> narrow{-4, 0};
  EXPECT_EQ(first_bad_index<int32_t>(narrow.data(), 2, 3), 0);
  EXPECT_EQ(first_bad_index<int32_t>(narrow.data(), 0, 0), -1);
  const std::vector<int64_t> extreme{INT64_MIN};
  EXPECT_EQ(first_bad_index<int64_t>(extreme.data(), 1, INT64_MAX), 0);
}

TEST(Fill, WritesTheRangeAlone) {
  for (Element e : kElements) {
    const Elements value = Elements::numbered(e, 1);
    Elements out(e, 100), want(e, 100);
    for (int64_t i = 3; i < 97; ++i) want.take(i, value, 0);
    fill(e, value.data(), out.data(), 3, 50);
    fill(e, value.data(), out.data(), 50, 97);
    fill(e, value.data(), out.data(), 97, 97);
    EXPECT_TRUE(out == want);
  }
}

struct PadRow {
  PadMode mode;
  Dims dims, begins, ends;
};

// np.pad's rules on the cropped input, element by element.
int64_t pad_source(PadMode mode, int64_t kept, int64_t before, int64_t i) {
  int64_t p = i - before;
  if (mode == PadMode::constant) return p < 0 || p >= kept ? -1 : p;
  if (mode == PadMode::edge) return std::clamp<int64_t>(p, 0, kept - 1);
  if (mode == PadMode::wrap) {
    while (p < 0) p += kept;
    while (p >= kept) p -= kept;
    return p;
  }
  while (p < 0 || p >= kept) p = p < 0 ? -p : 2 * (kept - 1) - p;
  return p;
}

TEST(Pad, AgainstReference) {
  const PadRow rows[] = {
      {PadMode::constant, {}, {}, {}},
      {PadMode::constant, {3}, {2}, {1}},
      {PadMode::constant, {2, 3}, {0, 1}, {2, 0}},
      {PadMode::constant, {2, 3, 4}, {1, 0, 0}, {1, 0, 0}},
      {PadMode::constant, {2, 3, 4}, {0, 2, 0}, {0, -1, 0}},
      {PadMode::constant, {5, 6}, {-1, 2}, {-2, -3}},
      {PadMode::constant, {6}, {-5}, {5}},
      {PadMode::constant, {6}, {-3}, {-3}},
      {PadMode::constant, {0, 2}, {1, 1}, {2, 0}},
      {PadMode::constant, {1}, {50000}, {30000}},
      {PadMode::reflect, {4}, {3}, {3}},
      {PadMode::reflect, {3, 4}, {1, 0}, {0, 0}},
      {PadMode::reflect, {3, 4}, {2, 3}, {2, 3}},
      {PadMode::reflect, {6, 4, 5}, {-1, 2, 0}, {4, 1, 0}},
      {PadMode::edge, {3}, {5}, {2}},
      {PadMode::edge, {2, 3}, {1, 0}, {1, 0}},
      {PadMode::edge, {2, 1, 3}, {1, 2, 0}, {1, 0, 4}},
      {PadMode::edge, {4, 4}, {-1, -3}, {2, 6}},
      {PadMode::wrap, {3}, {2}, {2}},
      {PadMode::wrap, {3}, {7}, {8}},
      {PadMode::wrap, {2, 3}, {3, 0}, {1, 0}},
      {PadMode::wrap, {5, 3, 2}, {-2, 1, 0}, {3, 4, 0}},
  };
  for (Element e : kElements)
    for (const PadRow& r : rows) {
      const auto pad = Pad::make(e, r.mode, r.dims, r.begins, r.ends);
      ASSERT_TRUE(pad.ok()) << pad.status();
      const Dims out_dims(pad->out_dims().begin(), pad->out_dims().end());
      const Elements in = Elements::numbered(e, product(r.dims), 1), value = Elements::numbered(e, 999);
      Elements want(e, product(out_dims)), out(e, product(out_dims));
      for_each_index(out_dims, [&](std::span<const int64_t> o) {
        Dims i(o.size());
        bool constant = false;
        for (size_t d = 0; d < o.size(); ++d) {
          ASSERT_EQ(out_dims[d], r.dims[d] + r.begins[d] + r.ends[d]);
          const int64_t crop = std::max<int64_t>(0, -r.begins[d]);
          const int64_t kept = r.dims[d] - crop - std::max<int64_t>(0, -r.ends[d]);
          const int64_t s = pad_source(r.mode, kept, std::max<int64_t>(0, r.begins[d]), o[d]);
          constant |= s < 0;
          i[d] = crop + s;
        }
        const int64_t at = linear(o, out_dims);
        constant ? want.take(at, value, 998) : want.take(at, in, linear(i, r.dims));
      });
      for (int64_t u = pad->units() - 1; u >= 0; --u)
        pad->run(in.data(), advance(value.data(), e, 998), out.data(), u, u + 1);
      EXPECT_TRUE(out == want) << "mode " << int(r.mode) << " dims " << ::testing::PrintToString(r.dims) << " begins "
                               << ::testing::PrintToString(r.begins);
    }
}

TEST(Pad, P8LimitsOfReflectPadding) {
  struct Row {
    PadMode mode;
    Dims dims, begins, ends;
    const char* says;
  };
  const Row rows[] = {
      {PadMode::reflect, {3, 2}, {0, 2}, {0, 0}, "at most 1"},
      {PadMode::reflect, {6}, {-5}, {5}, "after cropping"},
      {PadMode::reflect, {4}, {0}, {4}, "at most 3"},
      {PadMode::edge, {0}, {1}, {0}, "no element to pad from"},
      {PadMode::wrap, {3}, {-3}, {1}, "no element to pad from"},
      {PadMode::constant, {3}, {-2}, {-2}, "crop more than axis 0"},
      {PadMode::constant, {3}, {-4}, {4}, "crop more than axis 0"},
      {PadMode::constant, {3}, {INT64_MIN}, {0}, "out of all bounds"},
      {PadMode::constant, {1, 1}, {int64_t{1} << 40, int64_t{1} << 40}, {0, 0}, "too large"},
  };
  for (const Row& r : rows) {
    const auto pad = Pad::make(Element::w4, r.mode, r.dims, r.begins, r.ends);
    ASSERT_FALSE(pad.ok()) << r.says;
    EXPECT_NE(pad.status().message().find(r.says), absl::string_view::npos) << pad.status();
  }
}

TEST(Blocked, ThereAndBack) {
  for (Isa isa : {Isa::scalar, Isa::avx2}) {
    if (isa > detected_isa()) continue;
    for (int64_t block : {8, 16})
      for (int64_t channels : {1, 3, 8, 16, 17, 40})
        for (int64_t spatial : {0, 1, 5, 49, 1030}) {
          const BlockedShape s{.batch = 2, .channels = channels, .spatial = spatial, .block = block};
          std::vector<float> plain(2 * channels * spatial), back(plain.size(), -1);
          std::vector<float> blocked(2 * s.channel_blocks() * spatial * block, -1), want(blocked.size(), 0);
          for (size_t i = 0; i < plain.size(); ++i) plain[i] = static_cast<float>(i + 1);
          for (int64_t n = 0; n < 2; ++n)
            for (int64_t c = 0; c < channels; ++c)
              for (int64_t x = 0; x < spatial; ++x)
                want[((n * s.channel_blocks() + c / block) * spatial + x) * block + c % block] =
                    plain[(n * channels + c) * spatial + x];
          for (int64_t u = 0; u < s.units(); ++u) to_blocked(isa, s, plain.data(), blocked.data(), u, u + 1);
          EXPECT_EQ(blocked, want) << channels << " " << spatial;
          for (size_t i = 0; i < want.size(); ++i)
            if (want[i] == 0) blocked[i] = -7;  // padding is not read back
          from_blocked(isa, s, blocked.data(), back.data(), 0, s.units());
          EXPECT_EQ(back, plain) << channels << " " << spatial;
        }
  }
}

}  // namespace
}  // namespace forethought::kernels
