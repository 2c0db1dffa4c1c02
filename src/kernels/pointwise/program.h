// A chain of pointwise operators as one pass over memory: every operand is read once and the result is written once,
// tile by tile, with everything between in cache. A single operator is a program of one step.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "absl/container/inlined_vector.h"
#include "base/status.h"
#include "kernels/pointwise/broadcast.h"
#include "kernels/pointwise/tile.h"

namespace forethought::kernels {

// Built once, then shared by any number of runs. Building: add_input() for each operand in order, then steps, then
// finish(). A step that has no implementation for its types makes finish() fail with the reason; what follows it is
// ignored.
class Program {
 public:
  // Intermediate tiles that may be alive at once; a longer chain is fine, a wider one is refused.
  static constexpr int kMaxSlots = 8;

  explicit Program(Isa isa) : isa_(isa) {}

  // Each returns the number of the value it makes.
  int add_input(DType dtype);
  int apply(PointwiseOp op, std::initializer_list<int> args, TileParams params = {});  // half types are computed in f32
  int cast(int value, DType to);
  int pow(int base, int exponent);  // in the work type of the base
  int equal(int a, int b);
  int less(int a, int b, bool or_equal);    // a < b or a ≤ b
  int logic(LogicOp op, int a, int b);      // of bools
  int integer(IntegerOp op, int a, int b);  // in the work type of a
  int bit_not(int value);
  int where(int condition, int a, int b);
  int logical_not(int value);
  int quantize(int quotient, int zero_point);  // saturate(round(quotient) + zero_point), as find_quantize_tile
  int dequantize(int value, int zero_point);   // f32 of value - zero_point

  // Declares the result, which is stored as `dtype`: the type of the value, or a half type for an f32 one.
  Status finish(int result, DType dtype);

  int inputs() const { return inputs_; }
  DType output_type() const { return values_[result_].dtype; }

  // Computes elements [begin, end) of the output. inputs[k] and out are the starts of whole buffers; the output may be
  // input k's buffer if that operand is contiguous and as wide as the result.
  void run(const Broadcast& shape, const void* const* inputs, void* out, int64_t begin, int64_t end) const {
    if (direct_ && shape.flat() && begin < end) {
      run_direct(shape, inputs, out, begin, end);
    } else {
      run_tiles(shape, inputs, out, begin, end);
    }
  }

 private:
  struct Value {
    DType dtype;
    int8_t width;
    int16_t input;  // its number, or -1 for the result of a step
  };
  struct Step {
    TileFn fn = nullptr;  // null: bring input args[0] in
    TileParams params;
    int16_t args[3] = {0, 0, 0};
    int16_t count = 0;
    int16_t out = 0;
    int8_t slot = -1;  // where out lives; -1 is the output itself
  };
  struct Walk;

  int add_value(DType dtype, int input);
  int add_step(TileFn fn, DType out, std::initializer_list<int> args, TileParams params);
  int widened(int value);
  int fail(std::string_view message);
  Status assign_slots();
  void run_direct(const Broadcast& shape, const void* const* inputs, void* out, int64_t begin, int64_t end) const;
  void run_tiles(const Broadcast& shape, const void* const* inputs, void* out, int64_t begin, int64_t end) const;

  Isa isa_;
  bool direct_ = false;  // one step that reads the inputs in order and writes the output
  int inputs_ = 0;
  int result_ = 0;
  absl::InlinedVector<Value, 6> values_;
  absl::InlinedVector<Step, 4> steps_;
  Status status_;
};

}  // namespace forethought::kernels
