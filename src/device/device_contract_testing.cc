#include "device/device_contract_testing.h"

#include <atomic>
#include <cstring>
#include <mutex>

#include "device/lanes.h"

namespace forethought {

void DeviceContract::SetUp() {
  driver_ = GetParam().make();
  ASSERT_TRUE(driver_);
}

void DeviceContract::TearDown() {
  for (void* b : blocks_) driver_->allocator().free(b);
  const AllocatorStatistics left = driver_->allocator().statistics();
  EXPECT_EQ(left.live_blocks, 0);
  EXPECT_EQ(left.live, 0);
}

void* DeviceContract::block(int64_t bytes) {
  auto made = driver_->allocator().allocate(bytes, "a test");
  EXPECT_TRUE(made.ok()) << made.status();
  if (!made.ok()) return nullptr;
  blocks_.push_back(*made);
  return *made;
}

std::unique_ptr<DeviceStream> DeviceContract::stream() {
  auto made = driver_->create_stream();
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? std::move(*made) : nullptr;
}

void DeviceContract::write(void* to, const std::string& bytes) {
  const Status s = driver_->copy({bytes.data(), Device{}, to, driver_->device(), static_cast<int64_t>(bytes.size())});
  EXPECT_TRUE(s.ok()) << s;
}

std::string DeviceContract::read(const void* from, int64_t bytes) {
  std::string got(static_cast<size_t>(bytes), '\0');
  const Status s = driver_->copy({from, driver_->device(), got.data(), Device{}, bytes});
  EXPECT_TRUE(s.ok()) << s;
  return got;
}

namespace {

std::string pattern(int64_t bytes, int seed) {
  std::string s(static_cast<size_t>(bytes), '\0');
  for (size_t i = 0; i < s.size(); ++i) s[i] = static_cast<char>((i * 131 + seed * 29 + 7) % 251);
  return s;
}

// A kernel on bytes: inputs and outputs are u8 tensors.
struct BytesKernel final : Runnable {
  explicit BytesKernel(std::function<Status(RunCtx&)> function) : f(std::move(function)) {}
  Status run(RunCtx& ctx) const override { return f(ctx); }
  std::function<Status(RunCtx&)> f;
};

// Arguments for a kernel that reads and writes blocks of `bytes` u8 elements.
struct Call {
  Call(std::vector<void*> in, std::vector<void*> out, int64_t bytes) : dims{bytes}, inputs(in.size()) {
    for (void* p : in) args.push_back(arg(p));
    for (void* p : out) args.push_back(arg(p));
    ctx.inputs = {args.data(), inputs};
    ctx.outputs = {args.data() + inputs, args.size() - inputs};
  }
  Arg arg(void* p) const {
    Arg a;
    a.present = true;
    a.data = p;
    a.dtype = DType::kUint8;
    a.dims_data = dims.data();
    a.rank = 1;
    a.elements = dims[0];
    return a;
  }
  Dims dims;
  size_t inputs;
  std::vector<Arg> args;
  RunCtx ctx;
};

// out = in * times + plus, on bytes.
BytesKernel affine(int times, int plus) {
  return BytesKernel([times, plus](RunCtx& c) {
    for (int64_t i = 0; i < c.out(0).elements; ++i)
      c.out_as<uint8_t>(0)[i] = static_cast<uint8_t>(c.in_as<uint8_t>(0)[i] * times + plus);
    return absl::OkStatus();
  });
}

const BytesKernel& failing() {
  static const BytesKernel kernel([](RunCtx&) { return invalid("this kernel always fails"); });
  return kernel;
}

// A buffer that tells when it is let go.
BufferRef telling_buffer(std::atomic<bool>* gone) {
  struct Teller {
    std::atomic<bool>* gone;
    explicit Teller(std::atomic<bool>* g) : gone(g) {}
    Teller(Teller&& o) noexcept : gone(std::exchange(o.gone, nullptr)) {}
    ~Teller() {
      if (gone) *gone = true;
    }
  };
  return hold(Teller(gone));
}

constexpr int64_t kSizes[] = {1, 63, 64, 4096, 100'001};

}  // namespace

TEST_P(DeviceContract, Check31AllocatorGivesAlignedBlocksApartFromEachOther) {
  DeviceAllocator& a = driver_->allocator();
  EXPECT_EQ(a.device(), driver_->device());
  EXPECT_GE(a.alignment(), 64u);
  int64_t bytes = 0;
  for (int64_t size : kSizes) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block(size)) % a.alignment(), 0u);
    bytes += size;
  }
  for (size_t i = 0; i < blocks_.size(); ++i) write(blocks_[i], pattern(kSizes[i], static_cast<int>(i)));
  for (size_t i = 0; i < blocks_.size(); ++i) {
    EXPECT_EQ(read(blocks_[i], kSizes[i]), pattern(kSizes[i], static_cast<int>(i)));
  }
  AllocatorStatistics s = a.statistics();
  EXPECT_EQ(s.live, bytes);
  EXPECT_EQ(s.live_blocks, 5);
  EXPECT_EQ(s.peak, bytes);
  a.free(blocks_.back());
  blocks_.pop_back();
  s = a.statistics();
  EXPECT_EQ(s.live, bytes - 100'001);
  EXPECT_EQ(s.live_blocks, 4);
  EXPECT_EQ(s.peak, bytes);
  EXPECT_EQ(s.allocations, 5);
  a.free(nullptr);
}

TEST_P(DeviceContract, Check31AllocatorRefusesWhatIsNoSizeAndWhatItDoesNotHave) {
  for (int64_t bytes : {int64_t{0}, int64_t{-1}, int64_t{1} << 60}) {
    auto got = driver_->allocator().allocate(bytes, "the tensor 'x'");
    ASSERT_FALSE(got.ok()) << bytes;
    EXPECT_NE(got.status().message().find("the tensor 'x'"), std::string::npos) << got.status();
  }
  EXPECT_EQ(driver_->allocator().statistics().allocations, 0);
}

TEST_P(DeviceContract, Check31CopiesOfEveryPairAtOnce) {
  const Device host{}, here = driver_->device();
  for (const auto& [from, to] : {std::pair{host, here}, {here, host}, {here, here}}) {
    EXPECT_TRUE(driver_->can_copy(from, to)) << to_string(from) << to_string(to);
  }
  for (int64_t bytes : kSizes) {
    void *a = block(bytes), *b = block(bytes);
    write(a, pattern(bytes, 1));
    ASSERT_TRUE(driver_->copy({a, here, b, here, bytes}).ok());
    EXPECT_EQ(read(b, bytes), pattern(bytes, 1));
  }
}

TEST_P(DeviceContract, Check31CopiesThatMakeNoSenseAreRefused) {
  const Device host{}, here = driver_->device();
  void* a = block(64);
  std::string bytes(64, 'x');
  const Device elsewhere{DeviceKind::npu, MemoryKind::device, 77};
  auto s = stream();
  for (const CopyJob& job : {CopyJob{bytes.data(), host, a, here, -1}, CopyJob{nullptr, host, a, here, 8},
                             CopyJob{a, here, nullptr, host, 8}, CopyJob{a, here, bytes.data(), elsewhere, 8}}) {
    EXPECT_FALSE(driver_->copy(job).ok());
    if (job.to_device == elsewhere) continue;
    EXPECT_FALSE(s->copy(job).ok());
  }
  EXPECT_TRUE(driver_->copy({nullptr, host, a, here, 0}).ok());
  EXPECT_TRUE(s->wait().ok());
}

TEST_P(DeviceContract, Check31CopiesOfEveryPairOnAStreamInOrder) {
  const Device host{}, here = driver_->device();
  auto s = stream();
  EXPECT_EQ(s->device(), here);
  for (int64_t bytes : kSizes) {
    void *a = block(bytes), *b = block(bytes);
    const std::string in = pattern(bytes, 3);
    std::string out(in.size(), '\0');
    ASSERT_TRUE(s->copy({in.data(), host, a, here, bytes}).ok());
    ASSERT_TRUE(s->copy({a, here, b, here, bytes}).ok());
    ASSERT_TRUE(s->copy({b, here, out.data(), host, bytes}).ok());
    ASSERT_TRUE(s->flush().ok());
    ASSERT_TRUE(s->wait().ok());
    EXPECT_EQ(out, in);
  }
}

TEST_P(DeviceContract, Check31StreamRunsKernelsInOrderAndHostInputsAreReadThere) {
  auto s = stream();
  void *a = block(100), *b = block(100);
  write(a, std::string(100, '\1'));
  const BytesKernel twice_plus_one = affine(2, 1);
  Call there({a}, {b}, 100), back({b}, {a}, 100);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(s->launch(twice_plus_one, there.ctx).ok());
    ASSERT_TRUE(s->launch(twice_plus_one, back.ctx).ok());
  }
  std::string on_host(100, '\5');
  const BytesKernel sum([](RunCtx& c) {
    for (int64_t i = 0; i < c.out(0).elements; ++i)
      c.out_as<uint8_t>(0)[i] = static_cast<uint8_t>(c.in_as<uint8_t>(0)[i] + c.in_as<uint8_t>(1)[i]);
    return absl::OkStatus();
  });
  Call add({a, on_host.data()}, {b}, 100);
  ASSERT_TRUE(s->launch(sum, add.ctx).ok());
  ASSERT_TRUE(s->wait().ok());
  EXPECT_EQ(read(b, 100), std::string(100, static_cast<char>(127 + 5)));
}

TEST_P(DeviceContract, Check31EventTellsTheHost) {
  auto s = stream();
  auto event = s->create_event();
  ASSERT_TRUE(event.ok());
  ASSERT_TRUE((*event)->wait_on_host().ok()) << "an event that was never recorded holds nobody";
  void *a = block(4096), *b = block(4096);
  write(a, std::string(4096, '\0'));
  const BytesKernel plus_one = affine(1, 1);
  Call there({a}, {b}, 4096), back({b}, {a}, 4096);
  for (int i = 1; i <= 20; ++i) {  // one event, recorded again and again
    ASSERT_TRUE(s->launch(plus_one, there.ctx).ok());
    ASSERT_TRUE(s->launch(plus_one, back.ctx).ok());
    ASSERT_TRUE((*event)->record().ok());
    ASSERT_TRUE((*event)->wait_on_host().ok());
    EXPECT_EQ(read(a, 4096), std::string(4096, static_cast<char>(2 * i)));
  }
  event->reset();
  EXPECT_TRUE(s->wait().ok());
}

TEST_P(DeviceContract, Check31EventOrdersStreams) {
  auto one = stream(), two = stream();
  auto ahead = one->create_event(), behind = two->create_event();
  ASSERT_TRUE(ahead.ok() && behind.ok());
  void *a = block(512), *b = block(512);
  write(a, std::string(512, '\1'));
  const BytesKernel twice = affine(2, 0), plus_three = affine(1, 3);
  Call there({a}, {b}, 512), back({b}, {a}, 512);
  uint8_t want = 1;
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE((*behind)->wait_on_stream(*one).ok());
    ASSERT_TRUE(one->launch(twice, there.ctx).ok());
    ASSERT_TRUE((*ahead)->record().ok());
    ASSERT_TRUE((*ahead)->wait_on_stream(*two).ok());
    ASSERT_TRUE(two->launch(plus_three, back.ctx).ok());
    ASSERT_TRUE((*behind)->record().ok());
    want = static_cast<uint8_t>(want * 2 + 3);
  }
  ASSERT_TRUE(two->wait().ok());
  ASSERT_TRUE(one->wait().ok());
  EXPECT_EQ(read(a, 512), std::string(512, static_cast<char>(want)));
}

TEST_P(DeviceContract, Check31DeferredHostBuffersLiveUntilTheirWorkIsDone) {
  auto s = stream();
  void *a = block(64), *b = block(64);
  write(a, std::string(64, '\1'));
  std::atomic<bool> gone{false}, early{false};
  const BytesKernel looks([&](RunCtx&) {
    if (gone) early = true;
    return absl::OkStatus();
  });
  Call call({a}, {b}, 64);
  for (int round = 0; round < 10; ++round) {
    gone = false;
    ASSERT_TRUE(s->launch(looks, call.ctx).ok());
    ASSERT_TRUE(s->keep(telling_buffer(&gone)).ok());
    ASSERT_TRUE(s->wait().ok());
    EXPECT_TRUE(gone) << "after wait() nothing is kept";
    EXPECT_FALSE(early);
  }
  gone = false;
  ASSERT_TRUE(s->launch(failing(), call.ctx).ok());
  ASSERT_TRUE(s->keep(telling_buffer(&gone)).ok());
  EXPECT_FALSE(s->wait().ok());
  EXPECT_TRUE(gone) << "also after an error";
}

TEST_P(DeviceContract, Check31AnErrorDropsWhatComesAfterItAndIsToldOnce) {
  auto s = stream();
  auto event = s->create_event();
  ASSERT_TRUE(event.ok());
  void *a = block(64), *b = block(64);
  write(a, std::string(64, '\1'));
  write(b, std::string(64, '\7'));
  std::atomic<int> after{0};
  const BytesKernel counts([&](RunCtx&) {
    ++after;
    return absl::OkStatus();
  });
  Call call({a}, {b}, 64);
  ASSERT_TRUE(s->launch(failing(), call.ctx).ok());
  ASSERT_TRUE(s->launch(counts, call.ctx).ok());
  ASSERT_TRUE(s->copy({a, driver_->device(), b, driver_->device(), 64}).ok());
  ASSERT_TRUE((*event)->record().ok());
  const Status at_event = (*event)->wait_on_host();
  EXPECT_NE(at_event.message().find("always fails"), std::string::npos) << at_event;
  std::string told;
  ASSERT_TRUE(s->call([](void* with,
                         const Status& status) { *static_cast<std::string*>(with) = std::string(status.message()); },
                      &told)
                  .ok());
  const Status at_wait = s->wait();
  EXPECT_NE(at_wait.message().find("always fails"), std::string::npos) << at_wait;
  EXPECT_NE(told.find("always fails"), std::string::npos) << told;
  EXPECT_EQ(after, 0);
  EXPECT_EQ(read(b, 64), std::string(64, '\7'));
  EXPECT_TRUE(s->wait().ok()) << "the stream is clean again";
  ASSERT_TRUE(s->launch(counts, call.ctx).ok());
  ASSERT_TRUE((*event)->record().ok());
  EXPECT_TRUE((*event)->wait_on_host().ok());
  EXPECT_EQ(after, 1);
  EXPECT_TRUE(s->wait().ok());
}

TEST_P(DeviceContract, Check31AnErrorReachesTheStreamsThatWaitForIt) {
  auto one = stream(), two = stream();
  auto event = one->create_event();
  ASSERT_TRUE(event.ok());
  void *a = block(64), *b = block(64);
  write(a, std::string(64, '\1'));
  write(b, std::string(64, '\7'));
  Call call({a}, {b}, 64);
  ASSERT_TRUE(one->launch(failing(), call.ctx).ok());
  ASSERT_TRUE((*event)->record().ok());
  ASSERT_TRUE((*event)->wait_on_stream(*two).ok());
  ASSERT_TRUE(two->copy({a, driver_->device(), b, driver_->device(), 64}).ok());
  EXPECT_FALSE(two->wait().ok());
  EXPECT_FALSE(one->wait().ok());
  EXPECT_EQ(read(b, 64), std::string(64, '\7'));
  EXPECT_TRUE(two->wait().ok() && one->wait().ok());
}

TEST_P(DeviceContract, Check31DroppedWorkLeavesACleanStream) {
  auto s = stream();
  void *a = block(64), *b = block(64);
  write(a, std::string(64, '\1'));
  const BytesKernel plus_one = affine(1, 1);
  Call call({a}, {b}, 64);
  std::atomic<int> calls{0};
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(s->launch(plus_one, call.ctx).ok());
  ASSERT_TRUE(s->call([](void* with, const Status&) { ++*static_cast<std::atomic<int>*>(with); }, &calls).ok());
  s->drop_pending(cancelled("the run was cancelled"));
  const Status status = s->wait();
  EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
  EXPECT_EQ(calls, 1) << "calls are made also when work is dropped";
  ASSERT_TRUE(s->launch(plus_one, call.ctx).ok());
  EXPECT_TRUE(s->wait().ok());
  EXPECT_EQ(read(b, 64), std::string(64, '\2'));
}

TEST_P(DeviceContract, Check31AStreamMayGoWithWorkInIt) {
  void *a = block(64), *b = block(64);
  const BytesKernel plus_one = affine(1, 1);
  Call call({a}, {b}, 64);
  std::atomic<bool> gone{false};
  {
    auto s = stream();
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(s->launch(plus_one, call.ctx).ok());
    ASSERT_TRUE(s->keep(telling_buffer(&gone)).ok());
  }
  EXPECT_TRUE(gone);
}

// --- The same as lanes of the executor.

namespace {

class RecordingRun final : public LaneRun {
 public:
  void reached(int32_t notification) override {
    const std::lock_guard lock(mutex_);
    reached_.push_back(notification);
  }
  void failed(int32_t step, Status status) override {
    const std::lock_guard lock(mutex_);
    failures_.emplace_back(step, std::move(status));
    ending_ = true;
  }
  void ran(int32_t step, int64_t begin_ns, int64_t end_ns) override { EXPECT_LE(begin_ns, end_ns) << step; }
  bool ending() const override { return ending_; }
  void cancel() { ending_ = true; }
  std::vector<int32_t> reached_so_far() {
    const std::lock_guard lock(mutex_);
    return reached_;
  }
  std::vector<std::pair<int32_t, Status>> failures() {
    const std::lock_guard lock(mutex_);
    return failures_;
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> ending_{false};
  std::vector<int32_t> reached_;
  std::vector<std::pair<int32_t, Status>> failures_;
};

// A lane with a run under way, and a step for it: b = a + 1 on 64 bytes.
struct LaneWithARun {
  LaneWithARun(const std::shared_ptr<DeviceDriver>& driver, void* a, void* b)
      : device(make_stream_lanes(DeviceUse(driver))), call({a}, {b}, 64) {
    auto opened = device->open(0);
    EXPECT_TRUE(opened.ok()) << opened.status();
    if (!opened.ok()) return;
    lane = std::move(*opened);
    EXPECT_TRUE(lane->begin(run).ok());
  }
  Status launch(int32_t step, const Runnable& kernel) { return lane->launch({step, &kernel, &call.ctx}); }

  const BytesKernel plus_one = affine(1, 1);
  std::shared_ptr<StreamLanes> device;
  Call call;
  RecordingRun run;
  std::unique_ptr<LaneDriver> lane;
};

}  // namespace

TEST_P(DeviceContract, Check31LanesRunStepsAndTellNotifications) {
  auto device = make_stream_lanes(DeviceUse(driver_));
  EXPECT_EQ(device->device(), driver_->device());
  ASSERT_GE(device->lanes(), 1);
  EXPECT_FALSE(device->open(device->lanes()).ok());
  auto memory = device->allocate(64, "the slab");
  ASSERT_TRUE(memory.ok());
  void* b = block(64);
  std::string in(64, '\1'), out(64, '\0');
  const BytesKernel plus_one = affine(1, 1);
  const DeviceCopy up(Device{}, driver_->device()), down(driver_->device(), Device{});
  Call load({in.data()}, {memory->data}, 64), step({memory->data}, {b}, 64), store({b}, {out.data()}, 64);
  for (int round = 0; round < 3; ++round) {
    auto lane = device->open(0);
    ASSERT_TRUE(lane.ok());
    RecordingRun run;
    ASSERT_TRUE((*lane)->begin(run).ok());
    ASSERT_TRUE((*lane)->launch({0, &up, &load.ctx}).ok());
    ASSERT_TRUE((*lane)->record(1).ok());
    ASSERT_TRUE((*lane)->launch({1, &plus_one, &step.ctx}).ok());
    ASSERT_TRUE((*lane)->launch({2, &down, &store.ctx}).ok());
    ASSERT_TRUE((*lane)->record(0).ok());
    ASSERT_TRUE((*lane)->drain().ok());
    EXPECT_EQ(run.reached_so_far(), (std::vector<int32_t>{1, 0}));
    EXPECT_TRUE(run.failures().empty());
    EXPECT_EQ(out, std::string(64, '\2'));
    out.assign(64, '\0');
  }
}

TEST_P(DeviceContract, Check31LanesNameTheStepThatFailedAndDrain) {
  LaneWithARun l(driver_, block(64), block(64));
  ASSERT_TRUE(l.lane);
  ASSERT_TRUE(l.launch(4, l.plus_one).ok());
  ASSERT_TRUE(l.launch(5, failing()).ok());
  ASSERT_TRUE(l.lane->record(0).ok());
  ASSERT_TRUE(l.launch(6, l.plus_one).ok());
  ASSERT_TRUE(l.lane->record(1).ok());
  l.lane->drain().IgnoreError();
  EXPECT_EQ(l.run.reached_so_far(), (std::vector<int32_t>{0, 1})) << "also when the run is ending";
  ASSERT_FALSE(l.run.failures().empty());
  EXPECT_EQ(l.run.failures()[0].first, 5);
  EXPECT_NE(l.run.failures()[0].second.message().find("always fails"), std::string::npos);
  RecordingRun again;  // the lane serves the next run as if nothing had been
  ASSERT_TRUE(l.lane->begin(again).ok());
  ASSERT_TRUE(l.launch(0, l.plus_one).ok());
  ASSERT_TRUE(l.lane->record(0).ok());
  ASSERT_TRUE(l.lane->drain().ok());
  EXPECT_EQ(again.reached_so_far(), std::vector<int32_t>{0});
  EXPECT_TRUE(again.failures().empty());
}

TEST_P(DeviceContract, Check31ACancelledRunDrainsItsLanes) {
  LaneWithARun l(driver_, block(64), block(64));
  ASSERT_TRUE(l.lane);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(l.launch(i, l.plus_one).ok());
  ASSERT_TRUE(l.lane->record(0).ok());
  l.run.cancel();
  l.lane->drop();
  ASSERT_TRUE(l.lane->drain().ok());
  EXPECT_EQ(l.run.reached_so_far(), std::vector<int32_t>{0});
  EXPECT_TRUE(l.run.failures().empty());
}

}  // namespace forethought
