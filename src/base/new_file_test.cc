// New files: names that nobody else has, modes, and what is left of one that is not finished.
#include "base/new_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

namespace forethought {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class NewFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = (fs::temp_directory_path() / "forethought_new_file_XXXXXX").string();
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    path_ = (folder_ / "file").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  static Status write(NewFile& file, std::string_view text) {
    return write_all(file.descriptor(), text.data(), text.size(), file.unfinished());
  }
  static std::string read(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  size_t files() const { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {})); }

  fs::path folder_;
  std::string path_;
};

TEST_F(NewFileTest, HasItsNameOnceItIsWhole) {
  std::ofstream(path_) << "old";
  {
    auto file = NewFile::create(path_);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(write(*file, "never finished").ok());
  }
  EXPECT_EQ(read(path_), "old");
  EXPECT_EQ(files(), 1u);
  auto file = NewFile::create(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->unfinished().ends_with(NewFile::kUnfinished));
  ASSERT_TRUE(write(*file, "new").ok());
  EXPECT_EQ(read(path_), "old");
  ASSERT_TRUE(file->finish().ok());
  EXPECT_EQ(read(path_), "new");
  EXPECT_EQ(files(), 1u);
}

TEST_F(NewFileTest, ANameThatIsTakenIsLeftAlone) {
  std::ofstream(path_ + ".0000000000000001.part") << "of another";
  uint64_t next = 1;
  const auto count = [&] { return next++; };
  auto file = NewFile::create(path_, {}, count);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->unfinished(), path_ + ".0000000000000002.part");
  EXPECT_EQ(read(path_ + ".0000000000000001.part"), "of another");
  const auto stuck = [] { return uint64_t{1}; };
  const Status refused = NewFile::create(path_, {}, stuck).status();
  EXPECT_THAT(std::string(refused.message()), HasSubstr("remove such files"));
}

TEST_F(NewFileTest, ManyAtOnceHaveNamesOfTheirOwn) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      auto file = NewFile::create(path_);
      ASSERT_TRUE(file.ok()) << file.status();
      EXPECT_TRUE(write(*file, "all").ok());
      EXPECT_TRUE(file->finish().ok());
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(read(path_), "all");
  EXPECT_EQ(files(), 1u);
}

TEST_F(NewFileTest, ModesAndLongNames) {
  const mode_t mask = ::umask(027);
  const std::string longest = (folder_ / std::string(255, 'n')).string();
  for (const auto& [path, mode, wanted] : {std::tuple{path_, std::optional<mode_t>(), mode_t{0640}},
                                           {path_, std::optional<mode_t>(0606), mode_t{0606}},
                                           {longest, std::optional<mode_t>(), mode_t{0640}}}) {
    auto file = NewFile::create(path, mode);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->finish().ok());
    struct stat facts;
    ASSERT_EQ(::stat(path.c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 07777, wanted);
  }
  ::umask(mask);
}

TEST_F(NewFileTest, AFolderThatIsNotThere) {
  const std::string path = (folder_ / "absent" / "file").string();
  EXPECT_THAT(std::string(NewFile::create(path).status().message()), HasSubstr("'" + path + "'"));
}

}  // namespace
}  // namespace forethought
