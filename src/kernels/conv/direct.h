// Direct convolution: packed weights that serve every shape, and a fixed set of shares of the work, each through our
// code for blocked channels, which serves every shape too, or through a primitive that oneDNN makes for one shape.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "kernels/conv/blocked_conv.h"
#include "kernels/conv/window.h"
#include "kernels/onednn/onednn.h"

namespace forethought::kernels {

// How weights are packed follows from the weights and groups alone. blocked: OIhw{B}i{B}o for each group, both channel
// counts padded to whole blocks with zeros. plain_source: Ohwi{B}o for each group, for few input channels, read from
// plain images. depthwise: Goihw{B}g over all channels, padded.
enum class ConvForm : uint8_t { blocked, plain_source, depthwise };

struct ConvPack {
  ConvForm form = ConvForm::blocked;
  int64_t block = 16, groups = 1, group_in = 0, group_out = 0, taps = 1;
  int64_t padded_in() const { return form == ConvForm::plain_source ? group_in : pad(group_in); }
  int64_t padded_out() const { return pad(group_out); }
  int64_t weight_elements() const {
    return form == ConvForm::depthwise ? pad(groups) * taps : groups * padded_out() * padded_in() * taps;
  }
  int64_t bias_elements() const { return form == ConvForm::depthwise ? pad(groups) : groups * padded_out(); }
  std::string name() const;  // "OIhw16i16o"
  bool operator==(const ConvPack&) const = default;

 private:
  int64_t pad(int64_t n) const { return (n + block - 1) / block * block; }
};

// Refuses tiers without oneDNN and ranks other than 1 to 3. `kernel` has one entry per spatial dimension.
StatusOr<ConvPack> choose_conv_pack(Isa isa, int64_t out_channels, int64_t group_in, int64_t groups,
                                    std::span<const int64_t> kernel);
// `w` is [out_channels, group_in, kernel...] at any alignment. T: float, Float16, BFloat16.
template <typename T>
void pack_conv_weights(const ConvPack& pack, const T* w, float* packed);
// `bias` null gives zeros.
template <typename T>
void pack_conv_bias(const ConvPack& pack, const T* bias, float* packed);
// The other way: output channels [begin, end) of the weights as they were, and the whole bias.
template <typename T>
void unpack_conv_weights(const ConvPack& pack, const float* packed, T* w, int64_t begin, int64_t end);
template <typename T>
void unpack_conv_bias(const ConvPack& pack, const float* packed, T* bias);

struct DirectConvOptions {
  bool source_blocked = false, dest_blocked = false;  // which sides are in blocked channels
  bool bias = false;
  bool sum = false;  // adds a tensor shaped and laid out like the output, before the activation
  Epilogue epilogue;
  bool operator==(const DirectConvOptions&) const = default;
};

// One convolution at one shape. Immutable; runs from any number of threads. The units of a phase are independent of
// each other; all source units come before the first unit.
class DirectConv {
 public:
  // Whether make() takes our code: then nothing is generated for the shape, and making it costs next to nothing.
  static bool generates_nothing(Isa isa, const ConvPack& pack, const Window& window, const Epilogue& epilogue);
  static StatusOr<std::shared_ptr<const DirectConv>> make(Isa isa, const ConvPack& pack, const ConvShape& shape,
                                                          const DirectConvOptions& options);
  // Phase one, none if the source is read in place: copies channel blocks of x to the shared scratch.
  int64_t source_units() const { return source_units_; }
  void prepare_source(const float* x, float* shared, int64_t begin, int64_t end) const;
  // Phase two. `addend` is read where options.sum; it may be y itself. `shared` as filled by phase one.
  int64_t units() const { return units_; }
  Status run(int64_t unit, const float* x, const float* w, const float* bias, const float* addend, float* y,
             const float* shared, void* worker) const;

  size_t shared_scratch_bytes() const { return shared_bytes_; }
  size_t worker_scratch_bytes() const { return worker_bytes_; }
  std::string implementation() const { return whole_ ? whole_->implementation() : "code for any extents"; }

 private:
  Status generate(onednn::ConvKey key, int64_t source_channels);  // whole_ and tail_

  Isa isa_{};
  ConvPack pack_;
  DirectConvOptions options_;
  int64_t in_channels_ = 0, out_channels_ = 0, groups_run_ = 1;  // groups_run_: 1 for depthwise
  std::array<int64_t, 3> in_{}, source_{}, offset_{};            // source_: extents that the primitive reads
  int64_t in_volume_ = 0, source_volume_ = 0, out_volume_ = 0;
  bool copies_source_ = false;
  int64_t out_blocks_ = 0, part_blocks_ = 0, parts_ = 0;  // of one group
  int64_t source_units_ = 0, units_ = 0;
  size_t primitive_bytes_ = 0, shared_bytes_ = 0, worker_bytes_ = 0;
  BlockedConv geometry_;               // where our code serves it
  onednn::PrimitiveRef whole_, tail_;  // else: for part_blocks_ blocks, and for the last part if it has fewer
};

}  // namespace forethought::kernels
