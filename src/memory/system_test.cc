// Pages, mapped files, slabs and the budget.
#include "memory/system.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "base/buffer.h"
#include "memory/slab.h"

namespace forethought {
namespace {

std::shared_ptr<MemoryBudget> budget(int64_t limit = 0) { return std::make_shared<MemoryBudget>(limit); }

int64_t minor_faults() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

TEST(ReadableBytes, PicksTheUnit) {
  EXPECT_EQ(readable_bytes(0), "0 bytes");
  EXPECT_EQ(readable_bytes(1023), "1023 bytes");
  EXPECT_EQ(readable_bytes(1536), "1.5 KiB");
  EXPECT_EQ(readable_bytes(int64_t{5} << 30), "5.0 GiB");
  EXPECT_EQ(readable_bytes(std::numeric_limits<int64_t>::max()), "8.0 EiB");
}

TEST(MemoryBudget, CountsByRoleAndKeepsThePeak) {
  MemoryBudget b;
  ASSERT_TRUE(b.reserve(MemoryRole::planned, 100, "a").ok());
  ASSERT_TRUE(b.reserve(MemoryRole::files, 1000, "f").ok());
  b.use(MemoryRole::planned, 60);
  b.use(MemoryRole::files, 1000);
  MemoryStatistics s = b.statistics();
  EXPECT_EQ(s.of(MemoryRole::planned).live, 60);
  EXPECT_EQ(s.of(MemoryRole::planned).retained, 40);
  EXPECT_EQ(s.of(MemoryRole::files).live, 1000);
  EXPECT_EQ(s.from_system, 100);
  EXPECT_EQ(to_string(s), "planned 60 bytes (+40 bytes kept), files 1000 bytes");
  b.unuse(MemoryRole::planned, 60);
  b.release(MemoryRole::planned, 100);
  s = b.statistics();
  EXPECT_EQ(s.from_system, 0);
  EXPECT_EQ(s.peak, 100);
}

TEST(MemoryBudget, ALimitHoldsForConcurrentRequestsToo) {
  MemoryBudget b(1000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        if (b.reserve(MemoryRole::leased, 300, "a").ok()) b.release(MemoryRole::leased, 300);
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_LE(b.statistics().peak, 1000);
  EXPECT_EQ(b.statistics().from_system, 0);
  EXPECT_FALSE(b.reserve(MemoryRole::leased, std::numeric_limits<int64_t>::max(), "a").ok());
  EXPECT_EQ(b.statistics().from_system, 0);
  EXPECT_TRUE(b.reserve(MemoryRole::files, 5000, "files are outside the limit").ok());
}

TEST(Pages, AreZeroedAlignedAndGivenBack) {
  const auto b = budget();
  {
    const Pages pages = Pages::map(b, MemoryRole::planned, 10000, "test", {.huge = true, .populate = true}).value();
    EXPECT_EQ(pages.size() % page_size(), 0);
    EXPECT_GE(pages.size(), 10000);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pages.data()) % page_size(), 0u);
    for (int64_t i = 0; i < pages.size(); ++i) ASSERT_EQ(pages.data()[i], std::byte{0});
    EXPECT_EQ(b->statistics().of(MemoryRole::planned).retained, pages.size());
  }
  EXPECT_EQ(b->statistics().from_system, 0);
  EXPECT_EQ(Pages::map(b, MemoryRole::planned, 0, "test").value().data(), nullptr);
}

TEST(Pages, PopulatedPagesFaultNoMore) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have pages of their own";
#endif
  const int64_t bytes = 8 << 20;
  const Pages pages = Pages::map(budget(), MemoryRole::planned, bytes, "test", {.populate = true}).value();
  const int64_t before = minor_faults();
  std::memset(pages.data(), 1, static_cast<size_t>(bytes));
  EXPECT_LT(minor_faults() - before, 20);
}

TEST(Pages, ImpossibleSizesAndFailuresGiveAStatus) {
  const auto b = budget();
  for (int64_t bytes : {int64_t{-1}, std::numeric_limits<int64_t>::max(), int64_t{1} << 60}) {
    const auto pages = Pages::map(b, MemoryRole::planned, bytes, "the slab");
    ASSERT_FALSE(pages.ok()) << bytes;
    EXPECT_EQ(pages.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_NE(pages.status().message().find("the slab"), std::string::npos);
  }
  const FailSystemRequests failing(2, true);
  EXPECT_TRUE(Pages::map(b, MemoryRole::planned, 100, "the slab").ok());
  EXPECT_FALSE(Pages::map(b, MemoryRole::planned, 100, "the slab").ok());
  EXPECT_FALSE(Pages::map(b, MemoryRole::planned, 100, "the slab").ok());
  EXPECT_EQ(b->statistics().from_system, 0);
}

class MappedFileTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& content) {
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("forethought_mapped_file_" + std::to_string(::getpid()));
};

TEST_F(MappedFileTest, ShowsTheBytesAndLivesAsLongAsItsHolder) {
  const auto b = budget(100);  // files are outside the limit
  const std::string content(10000, 'x');
  BufferRef owner;
  const std::byte* data = nullptr;
  {
    MappedFile file = MappedFile::open(write("a", content), b).value();
    ASSERT_EQ(file.size(), 10000);
    EXPECT_EQ(std::memcmp(file.bytes().data(), content.data(), content.size()), 0);
    data = file.bytes().data();
    owner = hold(std::move(file));
  }
  EXPECT_EQ(b->statistics().of(MemoryRole::files).live, 10000);
  EXPECT_EQ(data[9999], std::byte{'x'});
  owner.reset();
  EXPECT_EQ(b->statistics().of(MemoryRole::files).live, 0);
  EXPECT_EQ(b->statistics().of(MemoryRole::files).retained, 0);
}

TEST_F(MappedFileTest, AnEmptyFileIsNoBytes) { EXPECT_EQ(MappedFile::open(write("empty", "")).value().size(), 0); }

TEST_F(MappedFileTest, WhatIsNoFileIsRefused) {
  EXPECT_EQ(MappedFile::open((folder_ / "none").string()).status().code(), absl::StatusCode::kNotFound);
  for (const std::string& path : {folder_.string(), std::string("/dev/zero")}) {
    const auto file = MappedFile::open(path);
    ASSERT_FALSE(file.ok()) << path;
    EXPECT_NE(file.status().message().find(path), std::string::npos);
  }
  const auto b = budget();
  const std::string path = write("a", "abc");
  const FailSystemRequests failing(1);
  EXPECT_FALSE(MappedFile::open(path, b).ok());
  EXPECT_EQ(b->statistics().of(MemoryRole::files).retained, 0);
}

TEST_F(MappedFileTest, MapsAnOpenDescriptorThatStaysTheCallers) {
  const int descriptor = ::open(write("a", "abc").c_str(), O_RDONLY);
  const MappedFile file = MappedFile::map(descriptor, "a").value();
  EXPECT_EQ(file.size(), 3);
  EXPECT_EQ(::close(descriptor), 0);
  EXPECT_EQ(file.bytes()[2], std::byte{'c'});
}

TEST(Slab, AsksTheSystemForThePlannedBytesAndKeepsThem) {
  const auto b = budget();
  {
    Slab slab(b);
    EXPECT_EQ(slab.capacity(), 0);
    ASSERT_TRUE(slab.ensure(100000).ok());
    EXPECT_EQ(b->statistics().from_system,
              static_cast<int64_t>((100000 + page_size() - 1) / page_size() * page_size()));
    std::byte* const data = slab.data();
    slab.set_in_use(true);
    EXPECT_EQ(b->statistics().of(MemoryRole::planned).live, slab.capacity());
    ASSERT_TRUE(slab.ensure(50).ok());
    EXPECT_EQ(slab.data(), data);
    ASSERT_TRUE(slab.ensure(1 << 20).ok());
    EXPECT_EQ(slab.capacity(), 1 << 20);
    EXPECT_EQ(b->statistics().peak, 1 << 20);  // never the old and the new region together
    EXPECT_EQ(b->statistics().of(MemoryRole::planned).live, 1 << 20);
    slab.set_in_use(false);
    EXPECT_EQ(b->statistics().of(MemoryRole::planned).live, 0);
    EXPECT_EQ(slab.trim(), 1 << 20);
    EXPECT_EQ(b->statistics().from_system, 0);
    ASSERT_TRUE(slab.ensure(10).ok());
    slab.set_in_use(true);
  }
  EXPECT_EQ(b->statistics().from_system, 0);
  EXPECT_EQ(b->statistics().of(MemoryRole::planned).live, 0);
}

TEST(Slab, AFailureLeavesItEmptyAndUsable) {
  const auto b = budget(1 << 20);
  Slab slab(b);
  ASSERT_TRUE(slab.ensure(1000).ok());
  slab.set_in_use(true);
  const Status refused = slab.ensure(2 << 20);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find("the execution slab needs 2.0 MiB"), std::string::npos) << refused.message();
  EXPECT_EQ(slab.capacity(), 0);
  EXPECT_EQ(b->statistics().from_system, 0);
  EXPECT_TRUE(slab.ensure(1 << 20).ok());
  slab.set_in_use(true);
  EXPECT_EQ(b->statistics().of(MemoryRole::planned).live, 1 << 20);
}

}  // namespace
}  // namespace forethought
