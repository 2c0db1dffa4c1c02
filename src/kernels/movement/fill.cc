#include "kernels/movement/fill.h"

namespace forethought::kernels {

void fill(Element element, const void* value, void* out, int64_t begin, int64_t end) {
  with_element(element, [&]<typename T>() { fill_run<T>(load_element<T>(value, 0), out, begin, end - begin); });
}

}  // namespace forethought::kernels
