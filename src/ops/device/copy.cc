// Copy (internal): moves a tensor between devices; between host memories a plain copy of bytes.
#include <algorithm>
#include <cstring>

#include "ops/op.h"

namespace forethought {

struct Copy {
  static constexpr OpName name{"Copy", "forethought"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{};

  Status infer(InferCtx& c) const {
    c.like(0, 0);
    c.by_formula();
    return absl::OkStatus();
  }
  bool accepts(LayoutQuery& q) const {
    q.outputs[0] = q.inputs[0];
    return true;
  }
  Status run(RunCtx& c) const {
    const Arg& in = c.in(0);
    const Arg& out = c.out(0);
    if (in.dtype == DType::kString) {
      std::copy_n(c.in_as<std::string>(0), in.elements, c.out_as<std::string>(0));
      return absl::OkStatus();
    }
    const auto bytes = storage_bytes(in.dtype, in.layout, in.dims());
    if (!bytes) return invalid("the tensor has no representable size");
    parallel_ranges(c, *bytes, int64_t{1} << 20, [&](int64_t begin, int64_t end, int) {
      std::memcpy(out.as<std::byte>() + begin, in.as<std::byte>() + begin, static_cast<size_t>(end - begin));
    });
    return absl::OkStatus();
  }
};
DEFINE_OP(Copy)

}  // namespace forethought
