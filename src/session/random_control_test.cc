// Random Loops, Scans and branches against the same graphs unrolled.
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "session/session_testing.h"

namespace forethought {
namespace {

constexpr int64_t kWidth = 3;
constexpr const char* kType = "f32[3]";

enum class Kind { counted, counted_at_run, awaited, scan };

// A body as data: statements over named values, then what it gives. It can be written as a body, or once for each trip.
struct Statement {
  std::string op;     // "If": `then` and `other` are operators of one input
  int a = 0, b = -1;  // values by number
  std::string then, other;
};
struct RandomBody {
  int states = 0, captures = 0, slices = 0;
  std::vector<Statement> statements;
  std::vector<int> next, given;  // values that become states, and slices of scan outputs
};

// Values of a body by number: states, captures, slices, the trip as a float vector (Loop) or a constant, statements.
struct Maker {
  std::mt19937& rng;
  int pick(int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); }
  const char* unary() {
    static constexpr const char* kNames[] = {"Neg", "Abs", "Relu", "Identity"};
    return kNames[pick(4)];
  }
  const char* binary() {
    static constexpr const char* kNames[] = {"Add", "Sub", "Mul", "Max", "Min"};
    return kNames[pick(5)];
  }
  RandomBody make(bool scan) {
    RandomBody b;
    b.states = pick(4) + (scan ? 0 : 1);
    b.captures = pick(3);
    b.slices = scan ? 1 + pick(2) : 0;
    int values = b.states + b.captures + b.slices + 1;
    const int statements = pick(6);
    for (int i = 0; i < statements; ++i, ++values) {
      Statement s;
      s.a = pick(values);
      const int kind = pick(4);
      if (kind == 0) s.op = "If", s.then = unary(), s.other = unary();
      if (kind == 1) s.op = unary();
      if (kind >= 2) s.op = binary(), s.b = pick(values);
      b.statements.push_back(std::move(s));
    }
    for (int s = 0; s < b.states; ++s) b.next.push_back(pick(values));
    for (int g = pick(3) + (b.states == 0 ? 1 : 0); g > 0; --g) b.given.push_back(pick(values));
    return b;
  }
};

// The statements, with values named by `names`, which grows; `flag` names the condition of branches.
std::string write(const RandomBody& b, std::vector<std::string>& names, const std::string& prefix,
                  const std::string& flag) {
  std::string text;
  for (size_t i = 0; i < b.statements.size(); ++i) {
    const Statement& s = b.statements[i];
    const std::string made = absl::StrCat("%", prefix, "v", i), a = names[static_cast<size_t>(s.a)];
    if (s.op == "If") {
      absl::StrAppend(&text, made, " = If(", flag, "; ", a, ") { then_branch: graph(%x: ", kType, ") { %r = ", s.then,
                      "(%x) return %r } else_branch: graph(%x: ", kType, ") { %r = ", s.other, "(%x) return %r } }\n");
    } else if (s.b < 0) {
      absl::StrAppend(&text, made, " = ", s.op, "(", a, ")\n");
    } else {
      absl::StrAppend(&text, made, " = ", s.op, "(", a, ", ", names[static_cast<size_t>(s.b)], ")\n");
    }
    names.push_back(made);
  }
  return text;
}

std::string numbered(const char* letter, int count, const char* type, bool declare) {
  std::vector<std::string> all;
  for (int i = 0; i < count; ++i) all.push_back(absl::StrCat("%", letter, i, declare ? absl::StrCat(": ", type) : ""));
  return absl::StrJoin(all, ", ");
}
std::string list(const std::vector<std::string>& parts) {
  std::vector<std::string> some;
  for (const std::string& p : parts)
    if (!p.empty()) some.push_back(p);
  return absl::StrJoin(some, ", ");
}

std::string inputs(const RandomBody& b, Kind kind, int64_t trips) {
  return list({numbered("s", b.states, kType, true), numbered("k", b.captures, kType, true),
               numbered("x", b.slices, absl::StrCat("f32[", trips, ",3]").c_str(), true), "%m: i64[]", "%f: bool[]",
               kind == Kind::awaited ? "%last: i64[]" : ""});
}

std::string results(const RandomBody& b) {
  return list({numbered("y", b.states, "", false), numbered("z", static_cast<int>(b.given.size()), "", false)});
}

std::string looped(const RandomBody& b, Kind kind, int64_t trips) {
  const bool scan = kind == Kind::scan;
  const std::string head =
      scan ? absl::StrCat("Scan<num_scan_inputs=", b.slices, ">(",
                          list({numbered("s", b.states, "", false), numbered("x", b.slices, "", false)}))
           : absl::StrCat("Loop(",
                          kind == Kind::counted   ? absl::StrCat("i64 ", trips)
                          : kind == Kind::awaited ? "_"
                                                  : "%m",
                          ", bool true", b.states ? ", " : "", numbered("s", b.states, "", false));
  std::vector<std::string> names;
  for (int i = 0; i < b.states; ++i) names.push_back(absl::StrCat("%ps", i));
  for (int i = 0; i < b.captures; ++i) names.push_back(absl::StrCat("%pk", i));
  for (int i = 0; i < b.slices; ++i) names.push_back(absl::StrCat("%px", i));
  const std::string body_inputs = list({scan ? "" : "%i: i64[], %c: bool[]", numbered("ps", b.states, kType, true),
                                        numbered("px", b.slices, kType, true), numbered("pk", b.captures, kType, true),
                                        "%pf: bool[]", kind == Kind::awaited ? "%plast: i64[]" : ""});
  std::string text =
      absl::StrCat("graph(", inputs(b, kind, trips), ") {\n", results(b), " = ", head, "; ",
                   list({numbered("k", b.captures, "", false), "%f", kind == Kind::awaited ? "%last" : ""}),
                   ") { body: graph(", body_inputs, ") {\nconst %one: f32[3] = [1, -2, 3]\n");
  if (scan) {
    names.push_back("%one");
  } else {
    absl::StrAppend(&text, "%fi = Cast<to=1>(%i)\n%trip = Mul(%one, %fi)\n");
    names.push_back("%trip");
  }
  absl::StrAppend(&text, write(b, names, "", "%pf"));
  std::vector<std::string> out;
  if (kind == Kind::awaited) absl::StrAppend(&text, "%done = Equal(%i, %plast)\n%go = Not(%done)\n");
  if (!scan) out.push_back(kind == Kind::awaited ? "%go" : "%c");
  for (int v : b.next) out.push_back(names[static_cast<size_t>(v)]);
  for (int v : b.given) out.push_back(names[static_cast<size_t>(v)]);
  absl::StrAppend(&text, "return ", absl::StrJoin(out, ", "), "\n} }\nreturn ", results(b), "\n}\n");
  return text;
}

std::string unrolled(const RandomBody& b, Kind kind, int64_t trips) {
  std::string text = absl::StrCat("graph(", inputs(b, kind, trips), ") {\nconst %one: f32[3] = [1, -2, 3]\n");
  std::vector<std::string> states;
  std::vector<std::vector<std::string>> given(b.given.size());
  for (int i = 0; i < b.states; ++i) states.push_back(absl::StrCat("%s", i));
  for (int64_t t = 0; t < trips; ++t) {
    const std::string prefix = absl::StrCat("t", t, "_");
    std::vector<std::string> names = states;
    for (int i = 0; i < b.captures; ++i) names.push_back(absl::StrCat("%k", i));
    for (int i = 0; i < b.slices; ++i) {
      absl::StrAppend(&text, "%", prefix, "x", i, " = Gather<axis=0>(%x", i, ", i64 ", t, ")\n");
      names.push_back(absl::StrCat("%", prefix, "x", i));
    }
    if (kind == Kind::scan) {
      names.push_back("%one");
    } else {
      absl::StrAppend(&text, "%", prefix, "trip = Mul(%one, ", t, ".0)\n");
      names.push_back(absl::StrCat("%", prefix, "trip"));
    }
    absl::StrAppend(&text, write(b, names, prefix, "%f"));
    states.clear();
    for (int v : b.next) states.push_back(names[static_cast<size_t>(v)]);
    for (size_t g = 0; g < b.given.size(); ++g) {
      const std::string row = absl::StrCat("%", prefix, "row", g);
      absl::StrAppend(&text, row, " = Unsqueeze(", names[static_cast<size_t>(b.given[g])], ", [0])\n");
      given[g].push_back(row);
    }
  }
  std::vector<std::string> out;
  for (size_t s = 0; s < states.size(); ++s) {
    absl::StrAppend(&text, "%y", s, " = Identity(", states[s], ")\n");
    out.push_back(absl::StrCat("%y", s));
  }
  for (size_t g = 0; g < given.size(); ++g) {
    absl::StrAppend(&text, "%z", g, " = Concat<axis=0>(", absl::StrJoin(given[g], ", "), ")\n");
    out.push_back(absl::StrCat("%z", g));
  }
  absl::StrAppend(&text, "return ", absl::StrJoin(out, ", "), "\n}\n");
  return text;
}

TEST(RandomControl, EqualsTheSameUnrolled) {
  for (unsigned seed = 0; seed < 160; ++seed) {
    std::mt19937 rng(seed);
    Maker maker{rng};
    const Kind kind = static_cast<Kind>(seed % 4);
    const int64_t trips = 1 + maker.pick(5);
    const RandomBody body = maker.make(kind == Kind::scan);
    std::vector<Value> in;
    const auto floats_of = [&](Dims dims) {
      Tensor t = make_tensor(DType::kFloat, dims).value();
      for (int64_t i = 0; i < t.elements(); ++i) t.as<float>()[i] = static_cast<float>(maker.pick(17) - 8) / 8;
      return t;
    };
    for (int i = 0; i < body.states + body.captures; ++i) in.push_back(floats_of({kWidth}));
    for (int i = 0; i < body.slices; ++i) in.push_back(floats_of({trips, kWidth}));
    in.push_back(tensor_of<int64_t>({}, {trips}));
    in.push_back(tensor_of<bool>({}, {maker.pick(2) == 1}));
    if (kind == Kind::awaited) in.push_back(tensor_of<int64_t>({}, {trips - 1}));
    const std::string text = looped(body, kind, trips), plain = unrolled(body, kind, trips);
    SCOPED_TRACE(absl::StrCat("seed ", seed, "\n", text, plain));
    const std::vector<Value> a = run_everywhere(text, in);
    const auto session = session_of(plain);
    ASSERT_TRUE(session);
    std::vector<Value> b(session->outputs().size());
    const Status ran = session->run_ordered(in, b);
    ASSERT_TRUE(ran.ok()) << ran;
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(dims_of(a[i]), dims_of(b[i])) << i;
      ASSERT_EQ(floats(a[i]), floats(b[i])) << i;
    }
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace forethought
