// Pages, mapped files, slabs and the budget.
#include "memory/system.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/buffer.h"
#include "memory/block_pool.h"
#include "memory/mapped_file.h"
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
  ASSERT_TRUE(b.reserve_share(MemoryRole::weights, 1000, 24, "f").ok());
  b.use(MemoryRole::planned, 50, 10);
  MemoryStatistics s = b.statistics();
  EXPECT_EQ(s.of(MemoryRole::planned).live, 50);
  EXPECT_EQ(s.of(MemoryRole::planned).padding, 10);
  EXPECT_EQ(s.of(MemoryRole::planned).retained, 40);
  EXPECT_EQ(s.of(MemoryRole::weights).live, 1000);
  EXPECT_EQ(s.mapped, 1124);
  EXPECT_EQ(s.live, 1050);
  EXPECT_EQ(s.padding, 34);
  EXPECT_EQ(to_string(s), "planned 60 bytes (+40 bytes kept), weights 1.0 KiB");
  b.unuse(MemoryRole::planned, 50, 10);
  b.release(MemoryRole::planned, 100);
  b.release_share(MemoryRole::weights, 1000, 24);
  s = b.statistics();
  EXPECT_EQ(s.mapped, 0);
  EXPECT_EQ(s.peak, 1124);
}

TEST(MemoryBudget, NamesAreTheSameEverywhere) {
  MemoryBudget b(500);
  ASSERT_TRUE(b.reserve(MemoryRole::leased, 100, "a").ok());
  b.use(MemoryRole::leased, 90, 10);
  std::string text;
  for (const auto& [name, bytes] : named(b.statistics())) text += name + "=" + std::to_string(bytes) + " ";
  EXPECT_EQ(text,
            "live=90 retained=0 padding=10 mapped=100 peak=100 limit=500 planned=0 unplanned=0 leased=90 weights=0 "
            "packed=0 ");
}

TEST(MemoryBudget, AReservationHoldsInBothAccountsOrInNeither) {
  const auto process = std::make_shared<MemoryBudget>(1000);
  MemoryBudget small(300, process), large(900, process);
  ASSERT_TRUE(small.reserve(MemoryRole::planned, 200, "a").ok());
  ASSERT_TRUE(large.reserve(MemoryRole::leased, 700, "b").ok());
  EXPECT_EQ(process->statistics().mapped, 900);
  const Status own = small.reserve(MemoryRole::planned, 101, "c");
  ASSERT_FALSE(own.ok());
  EXPECT_FALSE(MemoryBudget::refusal_of(own)->of_process);
  const Status shared = large.reserve(MemoryRole::planned, 101, "d");
  ASSERT_FALSE(shared.ok());
  EXPECT_TRUE(MemoryBudget::refusal_of(shared)->of_process);
  EXPECT_EQ(MemoryBudget::refusal_of(shared)->limit, 1000);
  EXPECT_NE(shared.message().find("process's memory limit of 1000 bytes"), std::string::npos) << shared.message();
  EXPECT_EQ(small.mapped(), 200);
  EXPECT_EQ(large.mapped(), 700);
  EXPECT_EQ(process->mapped(), 900);
  large.use(MemoryRole::leased, 600, 50);
  const MemoryStatistics s = process->statistics();
  EXPECT_EQ(s.of(MemoryRole::leased).live, 600);
  EXPECT_EQ(s.of(MemoryRole::leased).padding, 50);
  EXPECT_EQ(s.of(MemoryRole::leased).retained, 50);
  EXPECT_EQ(s.of(MemoryRole::planned).retained, 200);
  EXPECT_EQ(s.mapped, 900);
  large.unuse(MemoryRole::leased, 600, 50);
  large.release(MemoryRole::leased, 700);
  small.release(MemoryRole::planned, 200);
  EXPECT_EQ(process->mapped(), 0);
}

TEST(MemoryBudget, AFullAccountAsksForWhatIsKeptBeforeItRefuses) {
  const auto process = std::make_shared<MemoryBudget>(1000);
  MemoryBudget first(0, process), second(0, process);
  ASSERT_TRUE(first.reserve(MemoryRole::leased, 800, "a").ok());
  int asked = 0;
  int64_t kept = 500;
  first.set_reclaim([&] {
    ++asked;
    first.release(MemoryRole::leased, std::exchange(kept, 0));
  });
  EXPECT_TRUE(second.reserve(MemoryRole::planned, 600, "b").ok());  // what the other session keeps goes
  EXPECT_EQ(asked, 1);
  EXPECT_FALSE(second.reserve(MemoryRole::planned, 200, "c").ok());
  first.set_reclaim(nullptr);
  const int before = asked;
  EXPECT_FALSE(second.reserve(MemoryRole::planned, 200, "c").ok());
  EXPECT_EQ(asked, before);
  second.release(MemoryRole::planned, 600);
  first.release(MemoryRole::leased, 300);
}

TEST(MemoryBudget, LoweringTheLimitAsksAtOnce) {
  MemoryBudget b;
  ASSERT_TRUE(b.reserve(MemoryRole::leased, 800, "a").ok());
  int64_t kept = 500;
  b.set_reclaim([&] { b.release(MemoryRole::leased, std::exchange(kept, 0)); });
  b.set_limit(900);
  EXPECT_EQ(b.mapped(), 800);
  b.set_limit(700);
  EXPECT_EQ(b.mapped(), 300);
  b.set_reclaim(nullptr);
  b.release(MemoryRole::leased, 300);
}

TEST(MemorySize, IsReadAsPeopleWriteIt) {
  for (const auto& [text, bytes] : std::vector<std::pair<std::string, int64_t>>{{"", 0},
                                                                                {"0", 0},
                                                                                {"1234", 1234},
                                                                                {"64K", 65536},
                                                                                {"0.5K", 512},
                                                                                {"1.5g", int64_t{3} << 29},
                                                                                {"2T", int64_t{2} << 40}}) {
    ASSERT_TRUE(parse_memory_size(text).ok()) << text;
    EXPECT_EQ(*parse_memory_size(text), bytes) << text;
  }
  for (const char* text :
       {"-1", "-5G", "lots", "12X", "1GG", "nan", "K", " 5", "1e30", "inf", "99999999T", "0.5", "0.0001K"}) {
    const auto bytes = parse_memory_size(text);
    ASSERT_FALSE(bytes.ok()) << text;
    EXPECT_NE(bytes.status().message().find(std::string("'") + text + "'"), std::string::npos);
  }
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
  EXPECT_EQ(b.statistics().mapped, 0);
  EXPECT_FALSE(b.reserve(MemoryRole::leased, std::numeric_limits<int64_t>::max(), "a").ok());
  EXPECT_EQ(b.statistics().mapped, 0);
  EXPECT_FALSE(b.reserve(MemoryRole::weights, 5000, "weights count like all else").ok());
}

TEST(Pages, AreZeroedAlignedAndGivenBack) {
  const auto b = budget();
  {
    const Pages pages = Pages::map(b, MemoryRole::planned, 10000, "test", {.populate = true}).value();
    EXPECT_EQ(pages.size() % page_size(), 0);
    EXPECT_GE(pages.size(), 10000);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pages.data()) % page_size(), 0u);
    for (int64_t i = 0; i < pages.size(); ++i) ASSERT_EQ(pages.data()[i], std::byte{0});
    EXPECT_EQ(b->statistics().of(MemoryRole::planned).retained, pages.size());
  }
  EXPECT_EQ(b->statistics().mapped, 0);
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

// Whether the system gives huge pages to who asks for them.
bool grants_huge_pages() {
  std::string modes;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), modes);
  return modes.find("[always]") != std::string::npos || modes.find("[madvise]") != std::string::npos;
}

// What the system says of the mapping that begins at an address: a line of /proc/self/smaps, by its name.
std::string smaps_of(const void* data, const std::string& wanted) {
  std::ifstream smaps("/proc/self/smaps");
  const std::string begin = fmt::format("{:x}-", reinterpret_cast<uintptr_t>(data));
  bool found = false;
  for (std::string line; std::getline(smaps, line);) {
    found = found || line.starts_with(begin);
    if (found && line.starts_with(wanted + ":")) return line.substr(wanted.size() + 1);
  }
  return "";
}

TEST(Pages, C24_LargeBlocksTakeHugePagesOnRequestAndNotAByteMore) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have pages of their own";
#endif
  for (const bool asked : {false, true})
    for (const int64_t bytes : {kHugeBlock - 4096, kHugeBlock, kHugeBlock + 5 * 4096, int64_t{400} << 20}) {
      for (const bool populate : {false, true}) {
        if (!asked && bytes > 2 * kHugeBlock) continue;
        ::setenv("FORETHOUGHT_HUGE_PAGES", asked ? "1" : "0", 1);
        const bool large = asked && bytes >= kHugeBlock;
        const int64_t faults_before = minor_faults();
        const Pages pages = Pages::map(budget(), MemoryRole::planned, bytes, "test", {.populate = populate}).value();
        ::unsetenv("FORETHOUGHT_HUGE_PAGES");
        for (int64_t i = 0; i < bytes; i += 4096) pages.data()[i] = std::byte{1};
        const int64_t faults = minor_faults() - faults_before;
        EXPECT_EQ(pages.size(), bytes);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(pages.data()) % (large ? kHugePage : 1), 0u);
        if (!asked) {
          EXPECT_EQ(smaps_of(pages.data(), "VmFlags").find(" hg"), std::string::npos);
        }
        if (!large || !grants_huge_pages()) continue;
        EXPECT_NE(smaps_of(pages.data(), "VmFlags").find(" hg"), std::string::npos);
        // A system that is short of whole huge pages gives small ones in their place.
        const int64_t huge = std::stoll(smaps_of(pages.data(), "AnonHugePages")) << 10;
        EXPECT_LE(huge, bytes);
        EXPECT_LE(faults, huge / kHugePage + (bytes - huge) / 4096 + 50);
        if (huge == bytes / kHugePage * kHugePage && bytes == 400 << 20) {
          EXPECT_LT(faults, 250);
        }
        EXPECT_LE(std::stoll(smaps_of(pages.data(), "Rss")) << 10, bytes);
      }
    }
}

TEST(Pages, KeepTheirContentsWhenTheyAreResized) {
  ::setenv("FORETHOUGHT_HUGE_PAGES", "1", 1);
  for (const int64_t scale : {1, 9}) {  // small and huge pages
    int64_t bytes = scale << 20;
    auto* data = static_cast<unsigned char*>(obtain(nullptr, BlockKind::pages, bytes, "a block").value());
    std::memset(data, 7, static_cast<size_t>(bytes));
    const int64_t before = obtained_bytes() - bytes;
    for (const int64_t wanted : {scale * (512 << 10), scale * (4 << 20), scale * (64 << 10)}) {
      void* resized = resize_pages(data, bytes, wanted);
      if (!resized) break;  // nowhere to go, or a sanitizer that forbids it
      data = static_cast<unsigned char*>(resized);
      bytes = wanted;
      for (int64_t i = 0; i < (64 << 10); ++i) ASSERT_EQ(data[i], 7);
      EXPECT_EQ(obtained_bytes(), before + bytes);
      data[bytes - 1] = 7;
    }
    give_back(nullptr, BlockKind::pages, data, bytes);
    EXPECT_EQ(obtained_bytes(), before);
  }
  ::unsetenv("FORETHOUGHT_HUGE_PAGES");
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
  EXPECT_EQ(b->statistics().mapped, 0);
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
  const auto b = budget();
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
  EXPECT_EQ(b->statistics().of(MemoryRole::weights).live, 10000);
  EXPECT_EQ(b->statistics().mapped, Pages::rounded(10000));
  EXPECT_EQ(data[9999], std::byte{'x'});
  owner.reset();
  EXPECT_EQ(b->statistics().mapped, 0);
}

TEST_F(MappedFileTest, IsMappedOnceForAllWhoShowTheSameFile) {
  const auto one = budget(), other = budget(100000);
  MemoryBudget& process = *MemoryBudget::process();
  const int64_t before = process.mapped(), obtained = obtained_bytes();
  const std::string path = write("a", std::string(20000, 'x')), copy = write("b", std::string(20000, 'x'));
  std::optional<MappedFile> first = MappedFile::open(path, one).value();
  std::optional<MappedFile> second = MappedFile::open(path, other).value();
  EXPECT_EQ(first->bytes().data(), second->bytes().data());
  EXPECT_EQ(process.mapped() - before, Pages::rounded(20000));
  EXPECT_EQ(obtained_bytes() - obtained, Pages::rounded(20000));
  EXPECT_EQ(one->statistics().mapped, Pages::rounded(20000));
  EXPECT_EQ(other->statistics().mapped, Pages::rounded(20000));
  EXPECT_NE(MappedFile::open(copy).value().bytes().data(), first->bytes().data());
  first.reset();
  EXPECT_EQ(one->statistics().mapped, 0);
  EXPECT_EQ(process.mapped() - before, Pages::rounded(20000));
  EXPECT_EQ(second->bytes()[19999], std::byte{'x'});
  // A file that was written anew is another one.
  std::filesystem::remove(path);
  write("a", std::string(20000, 'y'));
  EXPECT_EQ(MappedFile::open(path).value().bytes()[0], std::byte{'y'});
  second.reset();
  EXPECT_EQ(process.mapped(), before);
  EXPECT_EQ(obtained_bytes(), obtained);
}

TEST_F(MappedFileTest, ALimitRefusesAFileBeforeItIsMapped) {
  const std::string path = write("a", std::string(20000, 'x'));
  const int64_t before = obtained_bytes();
  const auto refused = MappedFile::open(path, budget(16384));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(refused.status().message().find(path), std::string::npos);
  EXPECT_EQ(obtained_bytes(), before);
  EXPECT_TRUE(MappedFile::open(path, budget(20480)).ok());
}

TEST_F(MappedFileTest, ForgottenPagesAreReadAgain) {
  const MappedFile file = MappedFile::open(write("a", std::string(5 * page_size(), 'x'))).value();
  const std::byte* const data = file.bytes().data();
  EXPECT_TRUE(lies_in_mapped_file(data + 5, file.size() - 5));
  EXPECT_FALSE(lies_in_mapped_file(data + 5, file.size()));
  const std::string other = write("b", "another");
  std::set<int64_t> numbers = {mapping_of(data, 1)};
  for (int i = 0; i < 3; ++i) {  // mapped anew each time, perhaps at the same address
    const MappedFile again = MappedFile::open(other).value();
    EXPECT_TRUE(numbers.insert(mapping_of(again.bytes().data(), 1)).second);
  }
  EXPECT_EQ(forget_mapped_bytes(data + 1, 3 * page_size()), 2 * page_size());
  EXPECT_EQ(forget_mapped_bytes(data + 1, page_size()), 0);
  EXPECT_EQ(data[page_size() + 7], std::byte{'x'});
  std::vector<char> heap(static_cast<size_t>(4 * page_size()), 'h');
  EXPECT_EQ(forget_mapped_bytes(heap.data(), 4 * page_size()), 0);
  EXPECT_EQ(heap[static_cast<size_t>(2 * page_size())], 'h');
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
  EXPECT_EQ(b->statistics().mapped, 0);
}

TEST_F(MappedFileTest, MapsAnOpenDescriptorThatStaysTheCallers) {
  const int descriptor = ::open(write("a", "abc").c_str(), O_RDONLY);
  const MappedFile file = MappedFile::map(descriptor, "a").value();
  EXPECT_EQ(file.size(), 3);
  EXPECT_EQ(::close(descriptor), 0);
  EXPECT_EQ(file.bytes()[2], std::byte{'c'});
}

// One block serves regions of any size; several serve those of theirs.
TEST(Slab, B22_RegionsLieWhereTheirAddressesSay) {
  auto b = std::make_shared<MemoryBudget>();
  const int64_t page = page_size();
  Slab slab(b);
  ASSERT_TRUE(slab.ensure(3 * page).ok());
  std::byte* const whole = slab.data();
  ASSERT_TRUE(slab.ensure(3 * page, "the execution slab", page).ok());
  EXPECT_EQ(slab.place().regions.size(), 3u);
  EXPECT_EQ(slab.place().at(2 * page + 7), whole + 2 * page + 7) << "what is there serves";
  ASSERT_TRUE(slab.ensure(5 * page, "the execution slab", 2 * page).ok());
  const SlabPlace place = slab.place();
  ASSERT_EQ(place.regions.size(), 3u);
  EXPECT_EQ(slab.capacity(), 5 * page);
  EXPECT_EQ(place.at(0), place.regions[0]);
  EXPECT_EQ(place.at(2 * page - 1), place.regions[0] + 2 * page - 1);
  EXPECT_EQ(place.at(2 * page), place.regions[1]);
  EXPECT_EQ(place.at(4 * page + 5), place.regions[2] + 5);
  std::byte* const first = place.regions[0];
  ASSERT_TRUE(slab.ensure(4 * page, "the execution slab", 2 * page).ok());
  EXPECT_EQ(slab.place().at(4 * page), slab.place().regions[1] + 2 * page) << "of an empty value at the end";
  EXPECT_EQ(slab.data(), first) << "a smaller plan stays where it is";
  ASSERT_TRUE(slab.ensure(5 * page).ok());
  EXPECT_EQ(slab.place().regions.size(), 1u);
  EXPECT_EQ(b->statistics().mapped, 5 * page);
  {
    const FailSystemRequests second(2);
    const Status refused = slab.ensure(8 * page, "the execution slab", 2 * page);
    EXPECT_TRUE(is_no_block(refused)) << refused;
  }
  EXPECT_EQ(slab.capacity(), 0);
  EXPECT_EQ(b->statistics().mapped, 0);
  b->set_limit(page);
  const Status over = slab.ensure(2 * page);
  EXPECT_FALSE(over.ok() || is_no_block(over)) << "a limit refused, and would refuse smaller blocks, too";
}

TEST(Slab, AsksTheSystemForThePlannedBytesAndKeepsThem) {
  const auto b = budget();
  {
    Slab slab(b);
    EXPECT_EQ(slab.capacity(), 0);
    ASSERT_TRUE(slab.ensure(100000).ok());
    EXPECT_EQ(b->statistics().mapped, static_cast<int64_t>((100000 + page_size() - 1) / page_size() * page_size()));
    std::byte* const data = slab.data();
    slab.set_in_use(true);
    EXPECT_EQ(b->statistics().of(MemoryRole::planned).live, 100000);
    EXPECT_EQ(b->statistics().of(MemoryRole::planned).padding, slab.capacity() - 100000);
    ASSERT_TRUE(slab.ensure(50).ok());
    EXPECT_EQ(slab.data(), data);
    EXPECT_EQ(b->statistics().of(MemoryRole::planned).live, 50);
    EXPECT_EQ(b->statistics().of(MemoryRole::planned).padding, page_size() - 50);
    EXPECT_EQ(b->statistics().of(MemoryRole::planned).retained, slab.capacity() - page_size());
    ASSERT_TRUE(slab.ensure(1 << 20).ok());
    EXPECT_EQ(slab.capacity(), 1 << 20);
    EXPECT_EQ(b->statistics().peak, 1 << 20);  // never the old and the new region together
    EXPECT_EQ(b->statistics().of(MemoryRole::planned).live, 1 << 20);
    slab.set_in_use(false);
    EXPECT_EQ(b->statistics().of(MemoryRole::planned).live, 0);
    EXPECT_EQ(slab.trim(), 1 << 20);
    EXPECT_EQ(b->statistics().mapped, 0);
    ASSERT_TRUE(slab.ensure(10).ok());
    slab.set_in_use(true);
  }
  EXPECT_EQ(b->statistics().mapped, 0);
  EXPECT_EQ(b->statistics().of(MemoryRole::planned).live, 0);
}

// Gives from the heap, off by `skew` bytes, and nothing beyond `most` bytes.
struct TestSource : MemorySource {
  void* allocate(size_t bytes, size_t alignment) override {
    if (taken + static_cast<int64_t>(bytes) > most) return nullptr;
    taken += static_cast<int64_t>(bytes);
    ++blocks;
    return static_cast<std::byte*>(std::aligned_alloc(alignment, bytes + alignment)) + skew;
  }
  void release(void* data, size_t bytes) override {
    taken -= static_cast<int64_t>(bytes);
    --blocks;
    std::free(static_cast<std::byte*>(data) - skew);
  }
  int64_t taken = 0, blocks = 0, skew = 0, most = 1 << 30;
};

TEST(MemorySource, ServesASlabAndAPool) {
  const auto b = budget();
  const auto source = std::make_shared<TestSource>();
  {
    Slab slab(b, {.populate = true}, source);
    ASSERT_TRUE(slab.ensure(10000).ok());
    EXPECT_EQ(source->taken, slab.capacity());
    IoPool pool(b, 1 << 20, source);
    Lease small = pool.take(100, "output 'y'").value(), large = pool.take(100000, "output 'z'").value();
    EXPECT_EQ(source->blocks, 3);
    EXPECT_EQ(source->taken, b->mapped());
    large.release();
    EXPECT_EQ(pool.trim(), BlockPool::class_bytes(100000));
    EXPECT_EQ(source->blocks, 2);
  }
  EXPECT_EQ(source->blocks, 0);
  EXPECT_EQ(b->mapped(), 0);
}

TEST(MemorySource, NullAndMisalignedAnswersAreRefused) {
  const auto b = budget();
  const auto source = std::make_shared<TestSource>();
  Slab slab(b, {}, source);
  IoPool pool(b, 1 << 20, source);
  source->most = 0;
  for (const Status& s : {slab.ensure(10000), pool.take(100, "output 'y'").status()}) {
    EXPECT_EQ(s.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_NE(s.message().find("allocator that was brought"), std::string::npos) << s.message();
  }
  source->most = 1 << 30;
  source->skew = 8;
  for (const Status& s : {slab.ensure(10000), pool.take(100, "output 'y'").status()}) {
    EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(s.message().find("at a multiple of"), std::string::npos) << s.message();
  }
  EXPECT_EQ(source->blocks, 0);
  EXPECT_EQ(b->mapped(), 0);
  source->skew = 0;
  EXPECT_TRUE(slab.ensure(10000).ok());
}

TEST(MemoryBudget, AuditFindsWhatWasCountedTwiceOrNotAtAll) {
  constexpr MemoryRole kRole = MemoryRole::leased;
  const std::function<void(MemoryBudget&)> faults[] = {
      [](MemoryBudget& b) { b.release(kRole, 4096); },
      [](MemoryBudget& b) { b.use(kRole, 4096, 0); },
      [](MemoryBudget& b) { b.unuse(kRole, 1000, 24); },
      [](MemoryBudget& b) { b.unuse(kRole, 0, 24); },
      [](MemoryBudget& b) { b.release_share(kRole, 1, 0); },
      [](MemoryBudget& b) {
        const auto outside = b.reserve(MemoryRole::weights, 100, "a test");
        b.use(MemoryRole::weights, 101, 0);
      },
  };
  const auto parent = budget();
  for (const auto& fault : faults) {
    auto b = std::make_shared<MemoryBudget>(0, parent);
    ASSERT_TRUE(b->reserve(kRole, 4096, "a test").ok());
    b->use(kRole, 900, 23);
    EXPECT_TRUE(b->audit().ok());
    EXPECT_TRUE(parent->audit().ok());
    fault(*b);
    EXPECT_FALSE(b->audit().ok()) << &fault - faults;
    EXPECT_FALSE(parent->audit().ok()) << &fault - faults;
  }
}

TEST(MemoryBudget, ListsWhatIsUsedUnderAName) {
  const auto b = budget();
  auto share = MemoryShare::take(b, MemoryRole::packed, 100, 28, "a share").value();
  CountedBlock block = counted_block(b, MemoryRole::weights, 1000, "a block").value();
  BufferRef adopted = adopt_block(b, MemoryRole::weights, block.owner, 500, "another").value();
  const auto text = [&] {
    std::string all;
    for (const NamedUse& use : b->named_uses())
      all += use.who + " " + name(use.role) + " " + std::to_string(use.bytes) + "; ";
    return all;
  };
  EXPECT_EQ(text(), "a share packed 100; a block weights 1000; another weights 500; ");
  const MemoryShare moved = std::move(share);
  EXPECT_EQ(text(), "a share packed 100; a block weights 1000; another weights 500; ");
  adopted.reset();
  EXPECT_EQ(text(), "a share packed 100; a block weights 1000; ");
  block.owner.reset();
  EXPECT_EQ(text(), "a share packed 100; ");
}

TEST(CountedBlock, IsLiveAsLongAsItsOwner) {
  const auto b = budget(200000);
  for (const int64_t bytes : {0, 1, 100, 32 << 10, 100001}) {
    CountedBlock block = counted_block(b, MemoryRole::packed, bytes, "a pack").value();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.data) % 64, 0u);
    for (int64_t i = 0; i < bytes; ++i) ASSERT_EQ(static_cast<std::byte*>(block.data)[i], std::byte{0});
    EXPECT_EQ(b->statistics().of(MemoryRole::packed).live, bytes);
    EXPECT_EQ(b->mapped(), counted_block_bytes(bytes));
    block.owner.reset();
    EXPECT_EQ(b->mapped(), 0);
  }
  EXPECT_FALSE(counted_block(b, MemoryRole::packed, 200001, "a pack").ok());
  EXPECT_FALSE(counted_block(b, MemoryRole::packed, -1, "a pack").ok());
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
  EXPECT_EQ(b->statistics().mapped, 0);
  EXPECT_TRUE(slab.ensure(1 << 20).ok());
  slab.set_in_use(true);
  EXPECT_EQ(b->statistics().of(MemoryRole::planned).live, 1 << 20);
}

}  // namespace
}  // namespace forethought
