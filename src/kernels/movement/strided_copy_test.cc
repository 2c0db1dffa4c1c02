// StridedCopy and transpose_2d against index-by-index copies.
#include "kernels/movement/strided_copy.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "kernels/movement/test_util.h"
#include "kernels/movement/transpose_2d.h"

namespace forethought::kernels {
namespace {

using testing::Elements;
using testing::for_each_index;
using testing::kElements;
using testing::linear;
using testing::product;
using Dims = std::vector<int64_t>;

std::vector<Isa> tiers() {
  std::vector<Isa> r;
  for (Isa i : {Isa::scalar, Isa::avx2, Isa::avx512})
    if (i <= detected_isa()) r.push_back(i);
  return r;
}

Dims row_major(std::span<const int64_t> dims) {
  Dims s(dims.size());
  int64_t step = 1;
  for (size_t d = dims.size(); d-- > 0; step *= dims[d]) s[d] = step;
  return s;
}

// The input repeated along dims of extent 1.
StridedCopy expand_copy(Element element, std::span<const int64_t> dims, std::span<const int64_t> out_dims) {
  const Dims in = row_major(dims);
  Dims in_steps(out_dims.size(), 0);
  const size_t lead = out_dims.size() - dims.size();
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] != 1) in_steps[lead + d] = in[d];
  return {element, out_dims, in_steps, row_major(out_dims)};
}

// Elements starts[d] + k·steps[d], k < extents[d]; `first` gets the first of them.
StridedCopy slice_copy(Element element, std::span<const int64_t> dims, std::span<const int64_t> starts,
                       std::span<const int64_t> steps, std::span<const int64_t> extents, int64_t* first) {
  Dims in_steps = row_major(dims);
  *first = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    *first += starts[d] * in_steps[d];
    // A single element is read without a step, which may be any number.
    in_steps[d] *= extents[d] > 1 ? steps[d] : 0;
  }
  return {element, extents, in_steps, row_major(extents)};
}

// Runs the plan in pieces of `step` units, last piece first, so that units must not depend on one another.
void run_in_pieces(const StridedCopy& copy, Isa isa, const void* in, void* out, int64_t step) {
  for (int64_t begin = (copy.units() - 1) / step * step; begin >= 0 && copy.units() > 0; begin -= step)
    copy.run(isa, in, out, begin, std::min(begin + step, copy.units()));
}

TEST(Transpose2d, EveryWidthSizeAndAlignment) {
  for (Isa isa : tiers())
    for (Element e : {Element::w1, Element::w2, Element::w4, Element::w8, Element::w16})
      for (int64_t rows : {0, 1, 3, 4, 7, 8, 9, 16, 17, 31, 33, 65})
        for (int64_t cols : {0, 1, 2, 5, 8, 15, 16, 19, 32, 34})
          for (int64_t shift : {0, 1}) {
            const int64_t in_stride = cols + 3, out_stride = rows + 2;
            const Elements in = Elements::numbered(e, rows * in_stride, shift);
            Elements out(e, cols * out_stride, shift), want(e, cols * out_stride, shift);
            for (int64_t r = 0; r < rows; ++r)
              for (int64_t c = 0; c < cols; ++c) want.take(c * out_stride + r, in, r * in_stride + c);
            transpose_2d(isa, e, in.data(), in_stride, out.data(), out_stride, rows, cols);
            ASSERT_TRUE(out == want) << name(isa) << " width " << int(e) << " " << rows << "x" << cols;
          }
}

void check_transpose(Element e, const Dims& dims, const Dims& perm) {
  Dims out_dims;
  for (int64_t p : perm) out_dims.push_back(dims[p]);
  const Elements in = Elements::numbered(e, product(dims), 1);
  Elements want(e, product(dims));
  for_each_index(out_dims, [&](std::span<const int64_t> o) {
    Dims i(dims.size());
    for (size_t d = 0; d < perm.size(); ++d) i[perm[d]] = o[d];
    want.take(linear(o, out_dims), in, linear(i, dims));
  });
  const StridedCopy copy = transpose_copy(e, dims, perm);
  for (Isa isa : tiers())
    for (int64_t step : {int64_t{1}, copy.units() + 1}) {
      Elements out(e, product(dims));
      run_in_pieces(copy, isa, in.data(), out.data(), step);
      ASSERT_TRUE(out == want) << "width " << int(e) << " perm " << ::testing::PrintToString(perm) << " dims "
                               << ::testing::PrintToString(dims) << " " << copy.form();
    }
}

TEST(StridedCopy, EveryPermutationOfFourDims) {
  for (Element e : kElements)
    for (const Dims& dims :
         {Dims{2, 3, 4, 5}, Dims{1, 17, 2, 16}, Dims{3, 1, 9, 1}, Dims{2, 2, 2, 2}, Dims{2, 0, 3, 4}}) {
      Dims perm(dims.size());
      std::iota(perm.begin(), perm.end(), 0);
      do check_transpose(e, dims, perm);
      while (std::next_permutation(perm.begin(), perm.end()));
    }
}

TEST(StridedCopy, TransposesOfManySizes) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    Dims dims, perm;
    const int rank = static_cast<int>(random() % 6);
    for (int d = 0; d < rank; ++d) dims.push_back(1 + static_cast<int64_t>(random() % (rank < 4 ? 80 : 9)));
    perm.resize(dims.size());
    std::iota(perm.begin(), perm.end(), 0);
    std::shuffle(perm.begin(), perm.end(), random);
    check_transpose(kElements[random() % std::size(kElements)], dims, perm);
  }
}

TEST(StridedCopy, RankTwenty) {
  Dims dims(20, 1), perm(20);
  dims[3] = 2, dims[9] = 3, dims[15] = 4, dims[19] = 5;
  for (int d = 0; d < 20; ++d) perm[d] = 19 - d;
  check_transpose(Element::w4, dims, perm);
  check_transpose(Element::string, Dims(16, 2), Dims{15, 13, 14, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0});
}

TEST(StridedCopy, ChoosesTheFormByShape) {
  struct Row {
    Dims dims, perm;
    const char* form;
  };
  for (const Row& r : std::vector<Row>{{{2, 8, 16, 64}, {0, 2, 1, 3}, "rows"},   // heads
                                       {{2, 8, 16, 64}, {0, 1, 3, 2}, "tiles"},  // keys
                                       {{1, 32, 32, 3}, {0, 3, 1, 2}, "tiles"},
                                       {{5, 6, 7}, {0, 1, 2}, "rows"},
                                       {{30, 40, 2}, {1, 0, 2}, "tiles"}})  // pairs move as one element
    EXPECT_STREQ(transpose_copy(Element::w4, r.dims, r.perm).form(), r.form);
  EXPECT_STREQ(expand_copy(Element::w4, Dims{7, 1}, Dims{7, 9}).form(), "fill");
  EXPECT_EQ(transpose_copy(Element::w4, Dims{0, 5}, Dims{1, 0}).units(), 0);
}

TEST(StridedCopy, LongRowsAreCut) {
  const int64_t n = 1'000'000;
  const StridedCopy copy = window_copy(Element::w4, 1, n, n, n);
  EXPECT_GT(copy.units(), 8);
  const Elements in = Elements::numbered(Element::w4, n, 1);
  Elements out(Element::w4, n);
  run_in_pieces(copy, Isa::scalar, in.data(), out.data(), 3);
  EXPECT_TRUE(in == out);
}

TEST(StridedCopy, Expand) {
  struct Row {
    Dims in, out;
  };
  for (Element e : kElements)
    for (const Row& r : std::vector<Row>{{{}, {}},
                                         {{}, {3, 2}},
                                         {{1}, {70000}},
                                         {{3, 1}, {2, 3, 4}},
                                         {{3}, {2, 3}},
                                         {{1, 4}, {5, 4}},
                                         {{2, 1, 3, 1}, {2, 5, 3, 7}},
                                         {{0, 1}, {0, 3}},
                                         {{1, 1}, {0, 3}}}) {
      const Elements in = Elements::numbered(e, product(r.in));
      Elements want(e, product(r.out)), out(e, product(r.out));
      for_each_index(r.out, [&](std::span<const int64_t> o) {
        Dims i(r.in.size());
        for (size_t d = 0; d < r.in.size(); ++d) i[d] = r.in[d] == 1 ? 0 : o[r.out.size() - r.in.size() + d];
        want.take(linear(o, r.out), in, linear(i, r.in));
      });
      run_in_pieces(expand_copy(e, r.in, r.out), Isa::scalar, in.data(), out.data(), 1);
      EXPECT_TRUE(out == want) << ::testing::PrintToString(r.in) << " to " << ::testing::PrintToString(r.out);
    }
}

TEST(StridedCopy, Tile) {
  struct Row {
    Dims in, repeats;
  };
  for (Element e : kElements)
    for (const Row& r : std::vector<Row>{
             {{}, {}}, {{3}, {4}}, {{2, 3}, {2, 2}}, {{2, 3, 4}, {1, 5, 1}}, {{2, 3}, {0, 2}}, {{1, 9}, {700, 13}}}) {
      Dims dims;
      for (size_t d = 0; d < r.in.size(); ++d) dims.push_back(r.in[d] * r.repeats[d]);
      const Elements in = Elements::numbered(e, product(r.in));
      Elements want(e, product(dims)), out(e, product(dims));
      for_each_index(dims, [&](std::span<const int64_t> o) {
        Dims i(o.begin(), o.end());
        for (size_t d = 0; d < i.size(); ++d) i[d] %= r.in[d];
        want.take(linear(o, dims), in, linear(i, r.in));
      });
      run_in_pieces(tile_copy(e, r.in, r.repeats), Isa::scalar, in.data(), out.data(), 1);
      EXPECT_TRUE(out == want) << ::testing::PrintToString(r.in);
    }
}

TEST(StridedCopy, SliceWithAnySteps) {
  struct Row {
    Dims in, starts, steps, extents;
  };
  for (Element e : kElements)
    for (const Row& r : std::vector<Row>{{{10}, {2}, {3}, {3}},
                                         {{10}, {9}, {-1}, {10}},
                                         {{10}, {8}, {-4}, {3}},
                                         {{6, 7}, {1, 6}, {2, -2}, {3, 4}},
                                         {{4, 5, 6}, {3, 0, 2}, {-1, 1, 1}, {4, 5, 4}},
                                         {{4, 5, 6}, {0, 2, 0}, {1, 1, 1}, {4, 2, 6}},
                                         {{4, 4}, {1, 3}, {int64_t{1} << 62, -(int64_t{1} << 62)}, {1, 1}},
                                         {{3, 3}, {0, 0}, {1, 1}, {0, 3}},
                                         {{}, {}, {}, {}}}) {
      const Elements in = Elements::numbered(e, product(r.in), 1);
      Elements want(e, product(r.extents)), out(e, product(r.extents));
      for_each_index(r.extents, [&](std::span<const int64_t> o) {
        Dims i(o.size());
        for (size_t d = 0; d < i.size(); ++d) i[d] = o[d] == 0 ? r.starts[d] : r.starts[d] + o[d] * r.steps[d];
        want.take(linear(o, r.extents), in, linear(i, r.in));
      });
      int64_t first = 0;
      const StridedCopy copy = slice_copy(e, r.in, r.starts, r.steps, r.extents, &first);
      run_in_pieces(copy, Isa::scalar, advance(in.data(), e, first), out.data(), 1);
      EXPECT_TRUE(out == want) << ::testing::PrintToString(r.in) << " " << copy.form();
    }
}

TEST(StridedCopy, WindowsOfAConcat) {
  for (Element e : kElements) {
    const Elements a = Elements::numbered(e, 6), b = Elements::numbered(e, 9);
    Elements out(e, 15), want(e, 15);
    for (int64_t o = 0; o < 3; ++o) {
      for (int64_t i = 0; i < 2; ++i) want.take(o * 5 + i, a, o * 2 + i);
      for (int64_t i = 0; i < 3; ++i) want.take(o * 5 + 2 + i, b, o * 3 + i);
    }
    run_in_pieces(window_copy(e, 3, 2, 2, 5), Isa::scalar, a.data(), out.data(), 1);
    run_in_pieces(window_copy(e, 3, 3, 3, 5), Isa::scalar, b.data(), advance(out.data(), e, 2), 1);
    EXPECT_TRUE(out == want);
  }
}

}  // namespace
}  // namespace forethought::kernels
