// Inputs that a caller lends in steps of its own, against the same inputs row-major.
#include "session/lent_inputs.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "exec/shadow.h"
#include "session/random_graph_testing.h"
#include "session/session_testing.h"
#include "session/small_net_testing.h"

namespace forethought {
namespace {

// A tensor over `all`, which stays: element 0 is `first`.
Value view_of(const Tensor& all, Dims dims, Dims strides, int64_t first = 0) {
  Tensor t;
  t.dtype = all.dtype;
  t.dims = std::move(dims);
  t.strides = std::move(strides);
  t.data = static_cast<float*>(all.data) + first;
  return t;
}

Value row_major(const Tensor& t) {
  Tensor to = make_tensor(DType::kFloat, t.dims).value();
  std::vector<int64_t> at(t.dims.size());
  for (int64_t i = 0; i < to.elements(); ++i) {
    int64_t rest = i, from = 0;
    for (size_t d = t.dims.size(); d-- > 0; rest /= t.dims[d]) from += rest % t.dims[d] * t.strides[d];
    to.as<float>()[i] = t.as<float>()[from];
  }
  return to;
}

// Where the first step that reads the input finds it.
class Place final : public StepSink {
 public:
  void on_step(const StepEvent& e) override {
    for (size_t i = 0; i < e.ctx->inputs.size(); ++i)
      if (e.program->steps[e.step].inputs[i] == e.program->inputs[0] && !at) at = e.ctx->inputs[i].data;
  }
  const void* at = nullptr;
};

struct Way {
  const char* name;
  Dims dims, strides;
  int64_t first;
  bool by_rows, by_columns;  // whether a sum, and a product, read it where it lies
};
const Way kWays[] = {
    {"gaps between rows", {4, 6}, {9, 1}, 3, true, true},
    {"rows backwards", {4, 6}, {-8, 1}, 30, true, true},
    {"all backwards", {4, 6}, {-6, -1}, 23, true, true},
    {"every second column", {4, 6}, {12, 2}, 1, true, true},
    {"one row repeated", {4, 6}, {0, 1}, 5, true, true},
    {"one element repeated", {4, 6}, {0, 0}, 7, true, true},
    {"columns", {4, 6}, {1, 4}, 0, false, true},
    {"columns backwards", {4, 6}, {-1, -7}, 60, false, true},
    {"far apart", {4, 6}, {32, 5}, 2, false, false},
    {"windows that share elements", {4, 6}, {1, 1}, 0, false, false},
    {"row-major, told so", {4, 6}, {6, 1}, 4, true, true},
    {"a single row, with any step", {1, 6}, {1000, 1}, 4, true, true},
};

TEST(LentInputs, C22_AreReadWhereTheyLieIfAllReadersCan) {
  const Tensor all = random_floats({200}, 5).tensor();
  struct {
    const char* text;
    bool sum;
  } const graphs[] = {
      {"graph(%x: f32[N,6]) {\n  %y = Add(%x, 0.5)\n  return %y\n}", true},
      {"graph(%x: f32[N,6]) {\n  %w: f32[6,3] = Expand(0.25, [6, 3])\n  %y = MatMul(%x, %w)\n  return %y\n}", false},
      // A view of it that is a view of the caller's memory, too.
      {"graph(%x: f32[N,6]) {\n  %a, %b = Split<axis=1, num_outputs=2>(%x)\n  %y = Sub(%a, %b)\n  return %y\n}", false},
  };
  for (const bool bounded : {false, true})
    for (const auto& g : graphs) {
      SessionOptions o;
      o.validate_plans = true;
      if (bounded) o.max_dimensions["N"] = 9;
      const auto session = session_of(g.text, o);
      ASSERT_TRUE(session);
      for (int round = 0; round < 2; ++round) {  // the second finds plans that were made for the same steps
        for (const Way& w : kWays) {
          SCOPED_TRACE(absl::StrCat(g.text, w.name, ", round ", round, bounded ? ", bounded" : ""));
          const Value lent = view_of(all, w.dims, w.strides, w.first);
          std::vector<Value> got(1), want(1);
          Place place;
          RunOptions watched;
          watched.sink = &place;
          ASSERT_TRUE(session->run_ordered({&lent, 1}, got, watched).ok());
          const Value dense = row_major(lent.tensor());
          ASSERT_TRUE(session->run_ordered({&dense, 1}, want).ok());
          EXPECT_EQ(bytes_of(got), bytes_of(want));
          if (std::string_view(g.text).find("Split") == std::string_view::npos) {
            EXPECT_EQ(place.at == lent.tensor().data, g.sum ? w.by_rows : w.by_columns);
          }
          ShadowSink shadow(std::byte{0x5a});
          watched.sink = &shadow;
          EXPECT_TRUE(session->run_ordered({&lent, 1}, got, watched).ok());
          EXPECT_TRUE(shadow.faults().empty()) << shadow.faults().front();
          EXPECT_EQ(bytes_of(got), bytes_of(want));
        }
      }
      EXPECT_GT(session->summary().plans.hits, 0);
    }
}

// One reader that wants rows without gaps, an output that is the input itself, or the option: a copy for all.
TEST(LentInputs, C22_AreCopiedWhereOneReaderCannot) {
  const Tensor all = random_floats({200}, 6).tensor();
  for (const char* text :
       {"graph(%x: f32[4,6]) {\n  %y = Add(%x, 0.5)\n  %z = Softmax(%x)\n  return %y, %z\n}",
        "graph(%x: f32[4,6]) {\n  %y = Add(%x, 0.5)\n  return %y, %x\n}",
        "graph(%x: f32[4,6]) {\n  %y = Add(%x, 0.5)\n  %c = ReduceSum<keepdims=0>(%x)\n  %b = Cast<to=9>(%c)\n"
        "  %z = If(%b; %x) {\nthen_branch: graph(%s: f32[4,6]) {\n  %r = Neg(%s)\n  return %r\n}\n"
        "else_branch: graph(%t: f32[4,6]) {\n  %u = Abs(%t)\n  return %u\n}\n}\n  return %y, %z\n}"}) {
    const auto session = session_of(text);
    ASSERT_TRUE(session);
    for (const Way& w : kWays) {
      if (w.dims[0] != 4 || std::string_view(w.name).starts_with("row-major")) continue;
      SCOPED_TRACE(absl::StrCat(text, w.name));
      const Value lent = view_of(all, w.dims, w.strides, w.first), dense = row_major(lent.tensor());
      EXPECT_FALSE(reads_in_place(*session, 0, lent.tensor()));
      std::vector<Value> got(2), want(2);
      ASSERT_TRUE(session->run_ordered({&lent, 1}, got).ok());
      ASSERT_TRUE(session->run_ordered({&dense, 1}, want).ok());
      EXPECT_EQ(bytes_of(got), bytes_of(want));
    }
  }
  SessionOptions o;
  o.strided_views = false;
  const auto session = session_of("graph(%x: f32[4,6]) {\n  %y = Add(%x, 0.5)\n  return %y\n}", o);
  ASSERT_TRUE(session);
  EXPECT_FALSE(reads_in_place(*session, 0, view_of(all, {4, 6}, {9, 1}).tensor()));
}

TEST(LentInputs, C22_StridesThatCannotBeAreErrors) {
  const Tensor all = random_floats({200}, 7).tensor();
  const auto session = session_of("graph(%x: f32[N,6]) {\n  %y = Add(%x, 0.5)\n  return %y\n}");
  ASSERT_TRUE(session);
  struct {
    Dims dims, strides;
    const char* says;
  } const rows[] = {
      {{4, 6}, {6}, "the strides [6] came for the shape [4,6]: give one for each dim"},
      {{4, 6}, {int64_t{1} << 62, 1}, "reach farther than memory does"},
      {{4, 6}, {std::numeric_limits<int64_t>::min(), 1}, "reach farther than memory does"},
      {{4, 5}, {9, 1}, "what came has the shape [4,5]"},
  };
  for (const auto& r : rows) {
    const Value lent = view_of(all, r.dims, r.strides);
    std::vector<Value> out(1);
    const Status s = session->run_ordered({&lent, 1}, out);
    EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(s.message().find(r.says), std::string_view::npos) << s;
  }
  const Value none = view_of(all, {0, 6}, {5, 3});
  std::vector<Value> out(1);
  EXPECT_TRUE(session->run_ordered({&none, 1}, out).ok());
}

// Memory bound to an output must not be in reach of an input, whichever way that lies.
TEST(LentInputs, C22_OutputsAreNotBoundWithinTheirReach) {
  const Tensor all = random_floats({200}, 8).tensor();
  const auto session = session_of("graph(%x: f32[4,6]) {\n  %y = Add(%x, 0.5)\n  return %y\n}");
  ASSERT_TRUE(session);
  for (const auto& [strides, first, within] :
       {std::tuple<Dims, int64_t, bool>{{-8, 1}, 60, true}, {{20, 1}, 0, true}, {{-8, 1}, 150, false}}) {
    const Value lent = view_of(all, {4, 6}, strides, first);
    std::vector<Value> out = {view_of(all, {4, 6}, {}, 36)};
    const Status s = session->run_ordered({&lent, 1}, out);
    EXPECT_EQ(s.ok(), !within) << s;
  }
}

// Shape rules read elements one after the other, so they are told none of an input that runs backwards: behind its
// first element there may be no memory.
TEST(LentInputs, C22_ShapeRulesReadNoElementsInSteps) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  auto* const pages =
      static_cast<std::byte*>(::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(::mprotect(pages + page, page, PROT_NONE), 0);
  Tensor x;
  x.dtype = DType::kInt64;
  x.dims = {8};
  x.strides = {-1};
  x.data = pages + page - sizeof(int64_t);
  for (int64_t i = 0; i < 8; ++i) x.as<int64_t>()[-i] = 10 + i;
  const auto session = session_of(
      "graph(%x: i64[N], %z: f32[M]) {\n"
      "  %m = ReduceMax<keepdims=1>(%z, [0])\n  %e = Cast<to=7>(%m)\n  %y = Slice(%x, [1], %e, [0])\n  return %y\n}");
  ASSERT_TRUE(session);
  Tensor z = make_tensor(DType::kFloat, Dims{1}).value();
  *z.as<float>() = 4;
  std::vector<Value> out(1);
  const Status s = session->run_ordered(std::vector<Value>{x, z}, out);
  ASSERT_TRUE(s.ok()) << s;
  EXPECT_EQ(int64s(out[0]), (std::vector<int64_t>{11, 12, 13}));
  ::munmap(pages, 2 * page);
}

}  // namespace
}  // namespace forethought
