#include "session/random_graph_testing.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "plan/random_problem_for_tests.h"

namespace forethought {
namespace {

// A dim below 0 stands for a size that only the run tells: the same number for the same size.
struct Matrix {
  std::string name;
  int rows = 0, columns = 0;
  bool known() const { return rows > 0 && columns > 0; }
  bool like(const Matrix& m) const { return rows == m.rows && columns == m.columns; }
};

// Numbers that all graphs of one text share, so that every name is there once.
struct Names {
  int values = 0, nodes = 0;
};

// Products stay below this many elements; a size that only the run tells counts as a large one.
bool small(int rows, int columns) {
  const auto most = [](int dim) { return dim < 0 ? 256 : dim; };
  return most(rows) * most(columns) <= 2048;
}

std::string type_of(const Matrix& m) { return absl::StrCat("f32[", m.rows, ",", m.columns, "]"); }

// One graph or body on its way.
class Writer {
 public:
  Writer(Random& rng, Names& names, int depth, bool wide = false)
      : rng_(rng), names_(names), depth_(depth), wide_(wide) {}

  std::vector<Matrix> values;
  std::string lines;

  void add_node() {
    const Matrix a = some();
    switch (below(depth_ < 2 ? 17 : 13)) {
      case 0:
        return make(absl::StrCat(unary(), "(", a.name, ")"), a.rows, a.columns);
      case 1:
      case 2:
        return add_binary(a);
      case 3:
        return make(absl::StrCat("Transpose<perm=[1, 0]>(", a.name, ")"), a.columns, a.rows);
      case 4: {
        const Matrix* b =
            find([&](const Matrix& m) { return m.columns == a.columns && m.rows > 0 && m.rows + a.rows <= 24; });
        if (!b || a.rows < 0) return;
        return make(absl::StrCat("Concat<axis=0>(", a.name, ", ", b->name, ")"), a.rows + b->rows, a.columns);
      }
      case 5: {
        if (a.columns > 0 && rng_.one_in(2)) return add_slice_of_columns(a);
        if (a.rows < 0) return;
        const int rows = 1 + below(a.rows);
        return make(absl::StrCat("Slice(", a.name, ", [", a.rows - rows, "], [", a.rows, "], [0])"), rows, a.columns);
      }
      case 6:
        if (!a.known()) return;
        return make(absl::StrCat("Reshape(", a.name, ", [", a.rows * a.columns, ", 1])"), a.rows * a.columns, 1);
      case 7: {  // a shape that is computed
        if (!a.known()) return;
        const std::string s = emit(absl::StrCat("Shape(", a.name, ")")),
                          r = emit(absl::StrCat("Gather(", s, ", [1, 0])"));
        return make(absl::StrCat("Reshape(", a.name, ", ", r, ")"), a.columns, a.rows);
      }
      case 8:
        return make(absl::StrCat("Softmax<axis=-1>(", a.name, ")"), a.rows, a.columns);
      case 9: {
        if (a.columns > 0 && a.columns % 2 == 0 && rng_.one_in(2)) {
          const std::string one = fresh(), two = fresh();
          emit_as(absl::StrCat(one, ", ", two), absl::StrCat("Split<axis=1, num_outputs=2>(", a.name, ")"));
          values.push_back({one, a.rows, a.columns / 2});
          values.push_back({two, a.rows, a.columns / 2});
          return;
        }
        if (a.rows < 2 || a.rows % 2) return;
        const std::string one = fresh(), two = fresh();
        emit_as(absl::StrCat(one, ", ", two), absl::StrCat("Split<axis=0, num_outputs=2>(", a.name, ")"));
        values.push_back({one, a.rows / 2, a.columns});
        values.push_back({two, a.rows / 2, a.columns});
        return;
      }
      case 10: {
        if (a.rows == 1 && a.columns > 0 && rng_.one_in(3)) {  // repeated
          const int rows = 2 + below(4);
          return make(absl::StrCat("Expand(", a.name, ", [", rows, ", 1])"), rows, a.columns);
        }
        const Matrix* b = find([&](const Matrix& m) { return m.rows == a.columns; });
        if (!b || !small(a.rows, b->columns)) return;
        return make(absl::StrCat("MatMul(", a.name, ", ", b->name, ")"), a.rows, b->columns);
      }
      case 11:
        return add_sized_at_run(a);
      case 12: {  // back to a size that is known
        const bool rows = a.rows < 0, columns = a.columns < 0;
        if (!rows && !columns && !rng_.one_in(4)) return;
        return make(absl::StrCat("ReduceSum(", a.name, ", [", rows || !columns ? "0" : "", rows && columns ? ", " : "",
                                 columns ? "1" : "", "])"),
                    rows || !columns ? 1 : a.rows, columns ? 1 : a.columns);
      }
      case 13:
      case 14:
        return add_if(a);
      case 15:
        return add_loop(a);
      default:
        return add_scan(a);
    }
  }
  int below(int n) { return static_cast<int>(rng_.below(n)); }

 private:
  const Matrix& some() {
    const int n = static_cast<int>(values.size());
    return values[static_cast<size_t>(wide_ || rng_.one_in(4) ? below(n) : n - 1 - below(std::min(n, 5)))];
  }
  template <typename F>
  const Matrix* find(F&& fits) {
    const size_t n = values.size(), start = static_cast<size_t>(below(static_cast<int>(n)));
    for (size_t i = 0; i < n; ++i)
      if (fits(values[(start + i) % n])) return &values[(start + i) % n];
    return nullptr;
  }
  const char* unary() {
    static constexpr const char* kNames[] = {"Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Identity"};
    return kNames[below(6)];
  }
  std::string fresh() { return absl::StrCat("%v", names_.values++); }
  // `bodies`: of control flow, with their braces.
  void emit_as(const std::string& results, const std::string& call, const std::string& bodies = "") {
    absl::StrAppend(&lines, "  ", results, " = ", call, " \"n", names_.nodes++, "\"", bodies, "\n");
  }
  std::string emit(const std::string& call) {
    const std::string name = fresh();
    emit_as(name, call);
    return name;
  }
  void make(const std::string& call, int rows, int columns) { values.push_back({emit(call), rows, columns}); }

  void add_binary(const Matrix& a) {
    static constexpr const char* kOps[] = {"Add", "Sub", "Mul", "Max"};
    const Matrix* b = rng_.one_in(5) ? nullptr : find([&](const Matrix& m) { return m.like(a); });
    make(absl::StrCat(kOps[below(4)], "(", a.name, ", ", b ? b->name : "0.75", ")"), a.rows, a.columns);
  }
  // From some column on, by ones or twos, also backwards; rows backwards, too.
  void add_slice_of_columns(const Matrix& a) {
    const int step = 1 + below(2), columns = (a.columns - 1) / step + 1;
    const bool backwards = rng_.one_in(3);
    const std::string turned =
        !rng_.one_in(4) ? a.name : emit(absl::StrCat("Slice(", a.name, ", [-1], [-100000], [0], [-1])"));
    make(backwards ? absl::StrCat("Slice(", turned, ", [-1], [-100000], [1], [", -step, "])")
                   : absl::StrCat("Slice(", turned, ", [0], [100000], [1], [", step, "])"),
         a.rows, columns);
  }
  void add_sized_at_run(const Matrix& a) {
    const std::string found = emit(absl::StrCat("NonZero(", emit(absl::StrCat("Relu(", a.name, ")")), ")"));
    const int size = -1 - names_.values;
    make(absl::StrCat("Cast<to=1>(", found, ")"), 2, size);
  }

  // A few nodes over `inputs`, then one that gives a value like the first of them; its name.
  std::string fill(Writer& body, const Matrix like) {
    for (int n = body.below(4); n > 0; --n) body.add_node();
    const Matrix* last = nullptr;
    for (const Matrix& m : body.values)
      if (m.like(like)) last = &m;
    if (body.rng_.one_in(6)) return last->name;  // perhaps an input as it is
    return body.emit(absl::StrCat("Add(", last->name, ", 0.25)"));
  }
  // A condition from the data: whether a sum is above zero.
  std::string condition(const Matrix& a) {
    const std::string sum = emit(absl::StrCat("ReduceSum<keepdims=0>(", a.name, ")"));
    return emit(absl::StrCat("Cast<to=9>(", emit(absl::StrCat("Relu(", sum, ")")), ")"));
  }

  void add_if(const Matrix& a) {
    if (!a.known()) return;
    const Matrix* b = find([](const Matrix& m) { return m.known(); });
    const Matrix other = *b;
    const std::string flag = condition(a);
    std::string bodies = " {\n";
    for (const char* branch : {"then_branch", "else_branch"}) {
      Writer body(rng_, names_, depth_ + 1);
      body.values = {{body.fresh(), a.rows, a.columns}, {body.fresh(), other.rows, other.columns}};
      const std::string head = absl::StrCat("graph(", body.values[0].name, ": ", type_of(a), ", ", body.values[1].name,
                                            ": ", type_of(other), ") {\n");
      const std::string result = fill(body, a);
      absl::StrAppend(&bodies, branch, ": ", head, body.lines, "  return ", result, "\n}\n");
    }
    const std::string made = fresh();
    emit_as(made, absl::StrCat("If(", flag, "; ", a.name, ", ", other.name, ")"), bodies + "}");
    values.push_back({made, a.rows, a.columns});
  }

  void add_loop(const Matrix& a) {
    if (!a.known()) return;
    const Matrix other = *find([](const Matrix& m) { return m.known(); });
    const int trips = below(5);
    bool gives = trips > 0 && rng_.one_in(2);
    Writer body(rng_, names_, depth_ + 1);
    const std::string trip = body.fresh(), go = body.fresh();
    body.values = {{body.fresh(), a.rows, a.columns}, {body.fresh(), other.rows, other.columns}};
    const std::string head = absl::StrCat(" {\nbody: graph(", trip, ": i64[], ", go, ": bool[], ", body.values[0].name,
                                          ": ", type_of(a), ", ", body.values[1].name, ": ", type_of(other), ") {\n");
    const std::string next = fill(body, a);
    Matrix slice;
    for (const Matrix& m : body.values)
      if (m.known()) slice = m;
    gives = gives && small(trips * slice.rows, slice.columns);
    const std::string made = fresh(), all = fresh();
    emit_as(gives ? absl::StrCat(made, ", ", all) : made,
            absl::StrCat("Loop(i64 ", trips, ", bool true, ", a.name, "; ", other.name, ")"),
            absl::StrCat(head, body.lines, "  return ", go, ", ", next, gives ? absl::StrCat(", ", slice.name) : "",
                         "\n}\n}"));
    values.push_back({made, a.rows, a.columns});
    if (gives)
      make(absl::StrCat("Reshape(", all, ", [", trips * slice.rows, ", ", slice.columns, "])"), trips * slice.rows,
           slice.columns);
  }

  // Over the rows of a matrix, with their running sum as the state.
  void add_scan(const Matrix& a) {
    if (!a.known()) return;
    const std::string start = emit(absl::StrCat("ReduceMax<keepdims=0>(", a.name, ", [0])"));
    Writer body(rng_, names_, depth_ + 1);
    const std::string state = body.fresh(), row = body.fresh(), type = absl::StrCat("f32[", a.columns, "]");
    const std::string sum = body.emit(absl::StrCat("Add(", state, ", ", row, ")"));
    const std::string wide = body.emit(absl::StrCat("Reshape(", sum, ", [1, ", a.columns, "])"));
    body.values = {{wide, 1, a.columns}};
    const std::string result = body.emit(absl::StrCat("Reshape(", fill(body, body.values[0]), ", [", a.columns, "])"));
    const std::string last = fresh(), all = fresh();
    emit_as(absl::StrCat(last, ", ", all), absl::StrCat("Scan<num_scan_inputs=1>(", start, ", ", a.name, ")"),
            absl::StrCat(" {\nbody: graph(", state, ": ", type, ", ", row, ": ", type, ") {\n", body.lines, "  return ",
                         result, ", ", sum, "\n}\n}"));
    values.push_back({all, a.rows, a.columns});
    make(absl::StrCat("Unsqueeze(", last, ", [0])"), 1, a.columns);
  }

  Random& rng_;
  Names& names_;
  const int depth_;
  const bool wide_;
};

}  // namespace

RandomGraph random_graph(uint64_t seed, bool wide) {
  Random rng(seed);
  Names names;
  Writer main(rng, names, 0, wide);
  RandomGraph made;
  std::string heads;
  constexpr int kInputs = 3;
  for (int i = 0; i < kInputs; ++i) {
    const Matrix m{absl::StrCat("%x", i), 1 + main.below(6), 1 + main.below(8)};
    absl::StrAppend(&heads, i ? ", " : "", m.name, ": ", type_of(m));
    Tensor t = make_tensor(DType::kFloat, Dims{m.rows, m.columns}).value();
    for (int64_t e = 0; e < t.elements(); ++e) t.as<float>()[e] = static_cast<float>(main.below(64) - 32) / 16;
    made.inputs.emplace_back(std::move(t));
    main.values.push_back(m);
  }
  for (int n = (wide ? 12 : 4) + main.below(18); n > 0; --n) main.add_node();
  std::string results;
  for (size_t v = kInputs; v < main.values.size(); ++v) {
    if (v + 2 < main.values.size() && !rng.one_in(5)) continue;
    absl::StrAppend(&results, results.empty() ? "" : ", ", main.values[v].name);
  }
  if (results.empty()) results = main.values[0].name;
  made.text = absl::StrCat("graph(", heads, ") {\n", main.lines, "  return ", results, "\n}\n");
  return made;
}

std::function<bool(const Graph&, const GraphNode&)> some_nodes(uint64_t seed, int percent) {
  return [=](const Graph&, const GraphNode& n) {
    const uint64_t h = mix64(seed * 1000003 + hash_bytes(n.name.data(), n.name.size()));
    return static_cast<int>(h % 100) < percent;
  };
}

std::vector<std::string> bytes_of(const std::vector<Value>& values) {
  std::vector<std::string> all;
  for (const Value& v : values)
    all.emplace_back(v.is_tensor() ? std::string(v.tensor().as<char>(), static_cast<size_t>(v.tensor().bytes())) : "");
  return all;
}

}  // namespace forethought
