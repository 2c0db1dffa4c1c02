// Random nets through whole sessions: every level, planned and not, watched by the shadow, validated, with the same
// bits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plan/random_problem_for_tests.h"
#include "session/random_graph_testing.h"
#include "session/session_testing.h"
#include "session/small_net_testing.h"

namespace forethought {
namespace {

// A graph in text form that grows node by node.
class Text {
 public:
  struct Made {
    std::string name;
    Dims dims;
  };
  Text(uint64_t seed, Dims input) : dice(seed) {
    head_ = fmt::format("graph(%v0: f32{}) {{\n", to_string(input));
    made.push_back({"%v0", std::move(input)});
  }
  std::string constant(const Dims& dims, float scale) {
    const std::string name = fmt::format("%w{}", constants_++);
    std::string line = fmt::format("  const {}: f32{} = [", name, to_string(dims));
    for (int64_t i = 0, n = element_count(dims).value(); i < n; ++i) {
      line += fmt::format("{}{:.6f}", i ? ", " : "", (static_cast<float>(dice.below(20001)) / 10000.0f - 1.0f) * scale);
    }
    head_ += line + "]\n";
    return name;
  }
  void add(const std::string& expression, Dims dims) {
    const std::string name = fmt::format("%v{}", next_++);
    body_ += fmt::format("  {} = {}\n", name, expression);
    made.push_back({name, std::move(dims)});
  }
  // Mostly one of the last, sometimes any.
  const Made& some() {
    const auto n = static_cast<int64_t>(made.size());
    return made[static_cast<size_t>(dice.one_in(5) ? dice.below(n) : n - 1 - dice.below(std::min<int64_t>(n, 4)))];
  }
  template <typename Fits>
  const Made* another(Fits fits) {
    for (int tries = 0; tries < 12; ++tries) {
      const Made& m = some();
      if (fits(m)) return &m;
    }
    return nullptr;
  }
  std::string done() {
    std::string results = made.back().name;
    for (size_t i = made.size() - 1; i-- > 1 && results.size() < 12;) results += ", " + made[i].name;
    return head_ + body_ + "  return " + results + "\n}\n";
  }

  Random dice;
  std::vector<Made> made;

 private:
  std::string head_, body_;
  int constants_ = 0, next_ = 1;
};

// Convolutions, pools, sums, concatenations, slices and pads of odd numbers of channels: layouts come and go.
std::string blocked_channels(uint64_t seed) {
  Text t(seed, {1, 3, 6, 7});
  Random& dice = t.dice;
  constexpr int64_t kChannels[] = {1, 3, 5, 8, 13, 16, 24, 32};
  for (int node = 0, n = 5 + static_cast<int>(dice.below(8)); node < n; ++node) {
    const Text::Made x = t.some();
    const int64_t c = x.dims[1], h = x.dims[2], w = x.dims[3];
    switch (node == 0 ? 0 : dice.below(9)) {
      case 0:
      case 1: {
        const bool depthwise = node > 0 && dice.one_in(4);
        const int64_t out = depthwise ? c : kChannels[dice.below(8)], k = dice.one_in(2) ? 1 : 3;
        const std::string weights =
            t.constant({out, depthwise ? 1 : c, k, k}, 1.5f / static_cast<float>(k * (depthwise ? 1 : c)));
        t.add(fmt::format("Conv<group={}, pads=[{}, {}, {}, {}]>({}, {}, {})", depthwise ? c : 1, k / 2, k / 2, k / 2,
                          k / 2, x.name, weights, t.constant({out}, 0.2f)),
              {1, out, h, w});
        break;
      }
      case 2: {
        const char* const kind = dice.one_in(2) ? "MaxPool" : "AveragePool";
        t.add(fmt::format("{}<kernel_shape=[3, 3], pads=[1, 1, 1, 1]>({})", kind, x.name), x.dims);
        break;
      }
      case 3: {
        const auto* y = t.another([&](const Text::Made& m) { return m.dims[2] == h && m.dims[3] == w; });
        if (!y || c + y->dims[1] > 64) break;
        t.add(fmt::format("Concat<axis=1>({}, {})", x.name, y->name), {1, c + y->dims[1], h, w});
        break;
      }
      case 4: {
        const auto* y = t.another([&](const Text::Made& m) { return m.dims == x.dims; });
        if (y) t.add(fmt::format("{}({}, {})", dice.one_in(3) ? "Mul" : "Add", x.name, y->name), x.dims);
        break;
      }
      case 5: {
        const int64_t before = dice.below(3), after = dice.below(4), rows = h < 9 ? dice.below(2) : 0;
        t.add(fmt::format("Pad({}, [0, {}, {}, 0, 0, {}, 0, 0])", x.name, before, rows, after),
              {1, c + before + after, h + rows, w});
        break;
      }
      case 6: {
        const int64_t from = dice.below(c), to = from + 1 + dice.below(c - from);
        t.add(fmt::format("Slice({}, [{}], [{}], [1])", x.name, from, to), {1, to - from, h, w});
        break;
      }
      default:
        t.add(fmt::format("{}({})",
                          dice.one_in(2)   ? "Relu"
                          : dice.one_in(2) ? "Sigmoid"
                                           : "HardSwish",
                          x.name),
              x.dims);
    }
  }
  return t.done();
}

TEST(RandomNets, BlockedChannelsComeAndGo) {
  for (uint64_t seed = 0; seed < random_cases(50); ++seed) {
    const std::string text = blocked_channels(seed);
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, text.substr(text.find("  %v1"))));
    ASSERT_FALSE(run_everywhere(text, {random_floats({1, 3, 6, 7}, seed)}, 2e-4).empty());
    if (HasFailure()) break;
  }
}

TEST(RandomNets, ViewsAndBodiesKeepTheirBits) {
  for (uint64_t seed = 0; seed < random_cases(60); ++seed) {
    const RandomGraph graph = random_graph(100'000 + seed);
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, graph.text));
    ASSERT_FALSE(run_everywhere(graph.text, graph.inputs, 1e-5).empty());
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace forethought
