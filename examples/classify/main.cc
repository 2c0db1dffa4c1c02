// classify MODEL PICTURE.ppm...: the three likeliest classes of each picture, by a model that takes float [N,3,H,W].
#include <forethought/forethought.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

namespace ft = forethought;

namespace {

struct Picture {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb;
};

// A binary PPM (P6) without comments, 8 bits a colour; empty if the file is anything else.
Picture read_ppm(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string magic;
  Picture p;
  int64_t most = 0;
  if (!(in >> magic >> p.width >> p.height >> most) || magic != "P6" || most != 255) return {};
  if (p.width < 1 || p.height < 1 || p.width > 65536 || p.height > 65536) return {};
  in.get();
  p.rgb.resize(static_cast<size_t>(p.width * p.height * 3));
  if (!in.read(reinterpret_cast<char*>(p.rgb.data()), static_cast<std::streamsize>(p.rgb.size()))) return {};
  return p;
}

// Scales (nearest pixel) to height × width, colours 0 to 1, channels first.
void fill(const Picture& p, int64_t height, int64_t width, std::span<float> out) {
  for (int64_t c = 0; c < 3; ++c)
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x) {
        const int64_t from = (y * p.height / height * p.width + x * p.width / width) * 3 + c;
        out[static_cast<size_t>((c * height + y) * width + x)] = static_cast<float>(p.rgb[from]) / 255.0f;
      }
}

int fail(const std::string& message) {
  std::fprintf(stderr, "classify: %s\n", message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return fail("usage: classify MODEL PICTURE.ppm...");
  auto session = ft::Session::load(argv[1]);
  if (!session) return fail(session.status().message());
  if (session->inputs().size() != 1 || session->inputs()[0].shape.size() != 4)
    return fail("the model does not take one picture [N,3,H,W]");
  const ft::Argument& input = session->inputs()[0];
  const int64_t height = input.shape[2].size > 0 ? input.shape[2].size : 224;
  const int64_t width = input.shape[3].size > 0 ? input.shape[3].size : 224;

  // The memory is bound once; each picture is written into it.
  auto pixels = ft::Value::tensor(ft::ElementType::f32, std::vector<int64_t>{1, 3, height, width});
  if (!pixels) return fail(pixels.status().message());
  ft::PreparedRun run = session->prepare();
  if (ft::Status s = run.bind_input(input.name, *pixels); !s.ok()) return fail(s.message());
  for (int i = 2; i < argc; ++i) {
    const Picture picture = read_ppm(argv[i]);
    if (picture.rgb.empty()) return fail(std::string(argv[i]) + " is no binary PPM file");
    fill(picture, height, width, *pixels->mutable_elements<float>());
    if (ft::Status s = run.run(); !s.ok()) return fail(s.message());
    const ft::Value scores = run.output(0);
    const auto values = scores.elements<float>();
    if (!values) return fail(values.status().message());
    std::vector<int> order(values->size());
    std::iota(order.begin(), order.end(), 0);
    const size_t shown = std::min<size_t>(3, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shown), order.end(),
                      [&](int a, int b) { return (*values)[a] > (*values)[b]; });
    std::printf("%s:", argv[i]);
    for (size_t k = 0; k < shown; ++k) std::printf(" %d (%.3f)", order[k], (*values)[order[k]]);
    std::printf("\n");
  }
  const ft::Figures f = session->figures();
  std::printf("%lld runs, peak of intermediates %lld bytes\n", static_cast<long long>(f.runs),
              static_cast<long long>(f.peak_bytes));
  return 0;
}
