// Scan and SequenceMap through whole sessions: axes and directions, states, captures, no slices, skipped outputs,
// nesting.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/text.h"
#include "session/session_testing.h"

namespace forethought {
namespace {

using testing::HasSubstr;

Value numbers(std::initializer_list<int64_t> dims) {
  Tensor t = make_tensor(DType::kFloat, Dims(dims)).value();
  for (int64_t i = 0; i < t.elements(); ++i) t.as<float>()[i] = static_cast<float>(i + 1);
  return t;
}

// The running sum of the slices of %x, and twice each sum.
std::string running_sum(const std::string& attributes, const std::string& x, const std::string& slice,
                        const std::string& results = "%sum, %all = ") {
  return "graph(%s: f32" + slice + ", %x: f32" + x + ") {\n  " + results + "Scan<num_scan_inputs=1" + attributes +
         ">(%s, %x) {\n    body: graph(%a: f32" + slice + ", %e: f32" + slice +
         ") {\n      %b = Add(%a, %e)\n      %d = Mul(%b, 2.0)\n      return %b, %d\n    }\n  }\n  return " +
         (results[0] == '_' ? "%all" : "%sum, %all") + "\n}\n";
}

TEST(Scan, SumsSlicesOfTheFirstAxis) {
  for (const std::string& x : {std::string("[3,2]"), std::string("[N,2]")}) {
    const auto out = run_everywhere(running_sum("", x, "[2]"), {tensor_of<float>({2}, {0, 0}), numbers({3, 2})});
    ASSERT_EQ(out.size(), 2u);
    EXPECT_EQ(floats(out[0]), (std::vector<float>{9, 12}));
    EXPECT_EQ(dims_of(out[1]), (Dims{3, 2}));
    EXPECT_EQ(floats(out[1]), (std::vector<float>{2, 4, 8, 12, 18, 24}));
  }
}

TEST(Scan, AxesAndDirections) {
  const Value start = tensor_of<float>({2}, {0, 0});
  struct {
    const char* attributes;
    Dims made;
    std::vector<float> sum, all;
  } const rows[] = {
      {", scan_input_directions=[1]", {3, 2}, {9, 12}, {10, 12, 16, 20, 18, 24}},
      {", scan_output_directions=[1]", {3, 2}, {9, 12}, {18, 24, 8, 12, 2, 4}},
      {", scan_output_axes=[1]", {2, 3}, {9, 12}, {2, 8, 18, 4, 12, 24}},
      {", scan_output_axes=[-1], scan_output_directions=[1]", {2, 3}, {9, 12}, {18, 8, 2, 24, 12, 4}},
  };
  for (const auto& r : rows) {
    for (const std::string& x : {std::string("[3,2]"), std::string("[N,2]")}) {
      const auto out = run_everywhere(running_sum(r.attributes, x, "[2]"), {start, numbers({3, 2})});
      ASSERT_EQ(out.size(), 2u) << r.attributes;
      EXPECT_EQ(floats(out[0]), r.sum) << r.attributes;
      EXPECT_EQ(dims_of(out[1]), r.made) << r.attributes;
      EXPECT_EQ(floats(out[1]), r.all) << r.attributes;
    }
  }
  // Columns as slices.
  const auto out = run_everywhere(running_sum(", scan_input_axes=[1], scan_input_directions=[1]", "[3,2]", "[3]"),
                                  {tensor_of<float>({3}, {0, 0, 0}), numbers({3, 2})});
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(floats(out[0]), (std::vector<float>{3, 7, 11}));
  EXPECT_EQ(floats(out[1]), (std::vector<float>{4, 8, 12, 6, 14, 22}));
}

TEST(Scan, P25SkippedStateOutput) {
  const auto out = run_everywhere(running_sum("", "[3,1]", "[1]", "_, %all = "),
                                  {tensor_of<float>({1}, {0}), tensor_of<float>({3, 1}, {1, 2, 3})});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(floats(out[0]), (std::vector<float>{2, 6, 12}));
}

TEST(Scan, NoSlices) {
  const auto out = run_everywhere(running_sum("", "[N,2]", "[2]"), {tensor_of<float>({2}, {5, 6}), numbers({0, 2})});
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(floats(out[0]), (std::vector<float>{5, 6}));
  EXPECT_EQ(dims_of(out[1]), (Dims{0, 2}));
}

// States that change places, a slice that becomes a state, a capture, a slice and a constant as slices of the output.
TEST(Scan, PassesValuesOnAsTheyAre) {
  const char* text = R"(graph(%p: f32[2], %q: f32[2], %x: f32[N,2], %y: f32[2,N], %k: f32[2]) {
    %a, %b, %c, %d, %ks, %es, %cs = Scan<num_scan_inputs=2, scan_input_axes=[0,1]>(%p, %q, %p, %q, %x, %y; %k) {
      body: graph(%a: f32[2], %b: f32[2], %c: f32[2], %d: f32[2], %e: f32[2], %f: f32[2], %k2: f32[2]) {
        const %w: f32[2] = [7, 8]
        return %b, %a, %f, %c, %k2, %e, %w
      }
    }
    return %a, %b, %c, %d, %ks, %es, %cs
  })";
  for (const int64_t n : {1, 2, 3}) {
    const Value p = tensor_of<float>({2}, {1, 2}), q = tensor_of<float>({2}, {3, 4});
    Tensor y = make_tensor(DType::kFloat, Dims{2, n}).value();
    for (int64_t i = 0; i < 2 * n; ++i) y.as<float>()[i] = static_cast<float>(10 + i);
    const auto out = run_everywhere(text, {p, q, numbers({n, 2}), y, tensor_of<float>({2}, {9, 9})});
    ASSERT_EQ(out.size(), 7u);
    EXPECT_EQ(floats(out[0]), n % 2 ? floats(q) : floats(p));
    EXPECT_EQ(floats(out[1]), n % 2 ? floats(p) : floats(q));
    const auto column = [&](int64_t i) {
      return std::vector<float>{static_cast<float>(10 + i), static_cast<float>(10 + n + i)};
    };
    EXPECT_EQ(floats(out[2]), column(n - 1));
    EXPECT_EQ(floats(out[3]), n == 1 ? floats(p) : column(n - 2));
    EXPECT_EQ(floats(out[4]), std::vector<float>(static_cast<size_t>(2 * n), 9));
    EXPECT_EQ(floats(out[5]), floats(numbers({n, 2})));
    EXPECT_EQ(floats(out[6]).back(), 8);
    EXPECT_EQ(dims_of(out[6]), (Dims{n, 2}));
  }
}

// A Scan in a Scan in a Loop, each reading what is outside of it.
TEST(Scan, Nested) {
  const char* text = R"(graph(%x: f32[2,3], %k: f32[], %m: i64[]) {
    %r = Loop(%m, bool true, f32 0.0; %x, %k) {
      body: graph(%i: i64[], %t: bool[], %s: f32[], %x1: f32[2,3], %k1: f32[]) {
        %sum = Scan<num_scan_inputs=1>(%s, %x1; %k1) {
          body: graph(%a: f32[], %row: f32[3], %k2: f32[]) {
            %b = Scan<num_scan_inputs=1>(%a, %row; %k2) {
              body: graph(%c: f32[], %e: f32[], %k3: f32[]) {
                %f = Mul(%e, %k3)
                %g = Add(%c, %f)
                return %g
              }
            }
            return %b
          }
        }
        return %t, %sum
      }
    }
    return %r
  })";
  const auto out = run_everywhere(text, {numbers({2, 3}), tensor_of<float>({}, {2}), tensor_of<int64_t>({}, {3})});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(floats(out[0]), (std::vector<float>{126}));
}

TEST(Scan, Refusals) {
  struct {
    std::string text;
    const char* says;
  } const bound[] = {
      {running_sum(", scan_input_axes=[2]", "[3,2]", "[2]"), "axis 2"},
      {running_sum(", scan_input_axes=[0,1]", "[3,2]", "[2]"), "has 2 entries for 1"},
      {running_sum(", scan_output_directions=[2]", "[3,2]", "[2]"), "0 or 1"},
  };
  for (const auto& r : bound) {
    auto graph = graph_from_text(r.text);
    ASSERT_TRUE(graph.ok()) << graph.status();
    const auto session = Session::from_graph(std::move(*graph));
    ASSERT_FALSE(session.ok()) << r.text;
    EXPECT_THAT(std::string(session.status().message()), HasSubstr(r.says));
  }
  const char* two = R"(graph(%x: f32[N,2], %y: f32[M,2]) {
    %z = Scan<num_scan_inputs=2>(%x, %y) {
      body: graph(%a: f32[2], %b: f32[2]) { %c = Add(%a, %b) return %c }
    }
    return %z
  })";
  const auto session = session_of(two);
  ASSERT_TRUE(session);
  std::vector<Value> out(1);
  const Status ran = session->run_ordered(std::vector<Value>{numbers({3, 2}), numbers({2, 2})}, out);
  ASSERT_FALSE(ran.ok());
  EXPECT_THAT(std::string(ran.message()), HasSubstr("has 2 slices, another one has 3"));
  const Status fine = session->run_ordered(std::vector<Value>{numbers({3, 2}), numbers({3, 2})}, out);
  ASSERT_TRUE(fine.ok()) << fine;
  EXPECT_EQ(floats(out[0]), (std::vector<float>{2, 4, 6, 8, 10, 12}));
}

TEST(SequenceMap, RunsItsBodyForEachElement) {
  const char* text = R"(graph(%q: seq(tensor(float)), %x: f32[2], %k: f32[2]) {
    %sums, %shapes, %same = SequenceMap(%q, %x; %k) {
      body: graph(%e: f32?, %y: f32[2], %k2: f32[2]) {
        %a = Add(%e, %y)
        %b = Mul(%a, %k2)
        %d = Shape(%e)
        return %b, %d, %e
      }
    }
    %n = SequenceLength(%sums)
    return %sums, %shapes, %same, %n
  })";
  for (const int count : {0, 1, 3}) {
    auto sequence = std::make_shared<Sequence>();
    sequence->element = ValueType::tensor(DType::kFloat);
    for (int i = 0; i < count; ++i) sequence->items.push_back(numbers({i + 1, 2}));
    const auto out = run_everywhere(text, {Value(std::shared_ptr<const Sequence>(sequence)),
                                           tensor_of<float>({2}, {10, 20}), tensor_of<float>({2}, {1, -1})});
    ASSERT_EQ(out.size(), 4u);
    EXPECT_EQ(int64s(out[3]), (std::vector<int64_t>{count}));
    for (int o = 0; o < 3; ++o) ASSERT_EQ(out[o].sequence()->items.size(), static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ(dims_of(out[0].sequence()->items[i]), (Dims{i + 1, 2}));
      EXPECT_EQ(floats(out[0].sequence()->items[i])[1], -22);
      EXPECT_EQ(int64s(out[1].sequence()->items[i]), (std::vector<int64_t>{i + 1, 2}));
      EXPECT_EQ(floats(out[2].sequence()->items[i]), floats(numbers({i + 1, 2})));
    }
  }
}

}  // namespace
}  // namespace forethought
