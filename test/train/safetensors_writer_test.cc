// Writing safetensors files: what was given comes back, and whatever fails leaves the old file whole.

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/train/safetensors.hpp>
#include <trilith/train/safetensors_writer.hpp>

#include "test/support/files.hpp"

namespace trilith {
namespace {

using test::content_of;
using test::error_of;
using test::TempFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

void save(const std::filesystem::path& path, float value) {
  SafetensorsWriter writer(path, {{"w", {3}}});
  for (Index i = 0; i < 3; ++i) writer.tensor("w")(i) = value;
  writer.commit();
}

float saved(const std::filesystem::path& path) {
  float value = 0;
  SafetensorsFile(path).tensor("w").read(2, 1, &value);
  return value;
}

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  const TempFolder folder;
  // Names of many lengths, so that the header ends at every place modulo 8.
  for (std::size_t length = 1; length <= 9; ++length) {
    const std::string name = std::string(length, 'n') + "\"é\\";
    const std::vector<NamedShape> tensors{{name, {5, 7}}, {"scalar", {}}, {"none", {3, 0}}, {"a", {1}}};
    const auto path = folder / "a.safetensors";
    SafetensorsWriter writer(path, tensors, {{"format", "pt"}, {"n_head", "4"}});
    for (const NamedShape& tensor : tensors) {
      const Vector<float> memory = writer.tensor(tensor.name);
      for (Index i = 0; i < memory.size(); ++i) memory(i) = static_cast<float>(i) + 0.5f;
    }
    writer.commit();

    const SafetensorsFile file(path);
    std::vector<NamedShape> read;
    for (const SafetensorsTensor& tensor : file.tensors()) {
      EXPECT_EQ(tensor.dtype, "F32");
      read.push_back({tensor.name, tensor.shape});
      std::vector<float> values(static_cast<std::size_t>(tensor.size));
      tensor.read(0, tensor.size, values.data());
      for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], static_cast<float>(i) + 0.5f);
    }
    EXPECT_THAT(read, testing::UnorderedElementsAreArray(tensors));
    EXPECT_EQ(file.metadata().at("format"), "pt");
    EXPECT_EQ(file.metadata().at("n_head"), "4");
  }
}

TEST(SafetensorsWriter, BeginsTheDataAtAMultipleOf8) {
  const TempFolder folder;
  for (std::size_t length = 1; length <= 9; ++length) {
    SafetensorsWriter writer(folder / "a", {{std::string(length, 'n'), {1}}});
    writer.tensor(std::string(length, 'n'))(0) = 1;
    writer.commit();
    const std::string content = content_of(folder / "a");
    std::uint64_t header = 0;
    std::memcpy(&header, content.data(), sizeof(header));
    EXPECT_EQ(header % 8, 0u);
    EXPECT_EQ(content.size(), 8 + header + 4);
    EXPECT_EQ(content[8], '{');
  }
}

TEST(SafetensorsWriter, LetsThreadsFillOneTensor) {
  const TempFolder folder;
  constexpr Index rows = 40;
  constexpr Index columns = 250;
  SafetensorsWriter writer(folder / "a", {{"w", {rows, columns}}, {"b", {columns}}});
  std::vector<std::thread> threads;
  for (Index t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Vector<float> w = writer.tensor("w");
      for (Index i = t; i < rows * columns; i += 4) w(i) = static_cast<float>(i);
      if (t == 0) std::fill_n(writer.tensor("b").data(), columns, -1.0f);
    });
  }
  for (std::thread& thread : threads) thread.join();
  writer.commit();
  const SafetensorsFile file(folder / "a");
  std::vector<float> w(rows * columns);
  file.tensor("w").read(0, rows * columns, w.data());
  for (Index i = 0; i < rows * columns; ++i) ASSERT_EQ(w[static_cast<std::size_t>(i)], static_cast<float>(i));
}

TEST(SafetensorsWriter, ReplacesAFileOnlyWhenCommitted) {
  const TempFolder folder;
  const auto path = folder / "a";
  save(path, 1);
  const std::string before = content_of(path);
  {
    SafetensorsWriter writer(path, {{"w", {1000}}});
    writer.tensor("w")(0) = 2;
    EXPECT_EQ(content_of(path), before);
    EXPECT_EQ(folder.names().size(), 2u);
  }
  EXPECT_EQ(content_of(path), before);
  EXPECT_THAT(folder.names(), ElementsAre("a"));
  save(path, 2);
  EXPECT_EQ(saved(path), 2);
  EXPECT_THAT(folder.names(), ElementsAre("a"));
}

TEST(SafetensorsWriter, RefusesToCommitATensorThatNobodyAskedFor) {
  const TempFolder folder;
  save(folder / "a", 1);
  {
    SafetensorsWriter writer(folder / "a", {{"w", {3}}, {"b", {3}}});
    writer.tensor("w");
    EXPECT_THAT(error_of([&] { writer.commit(); }), HasSubstr("a was never written"));
  }
  EXPECT_EQ(saved(folder / "a"), 1);
  EXPECT_THAT(folder.names(), ElementsAre("a"));
}

TEST(SafetensorsWriter, LeavesTheOldFileWhenTheNewOneCannotTakeItsName) {
  const TempFolder folder;
  save(folder / "a", 1);
  SafetensorsWriter writer(folder / "b", {{"w", {3}}});
  writer.tensor("w")(0) = 2;
  std::filesystem::create_directories(folder / "b/full");  // a folder took the name meanwhile
  EXPECT_THAT(error_of([&] { writer.commit(); }),
              AllOf(AllOf(HasSubstr("cannot save "), HasSubstr("b: ")),
                    HasSubstr("could not take its name: Is a directory")));
  EXPECT_TRUE(std::filesystem::is_directory(folder / "b/full"));
}

TEST(SafetensorsWriter, LeavesAReaderOfTheOldFileItsData) {
  const TempFolder folder;
  save(folder / "a", 1);
  const SafetensorsFile old(folder / "a");
  save(folder / "a", 2);
  float value = 0;
  old.tensor("w").read(1, 1, &value);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(saved(folder / "a"), 2);
}

TEST(SafetensorsWriter, ReplacesTheFileBehindALink) {
  const TempFolder folder;
  folder.write("real/a", "old");
  std::filesystem::create_symlink("real/a", folder / "link");
  save(folder / "link", 3);
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(saved(folder / "real/a"), 3);
  std::filesystem::remove(folder / "real/a");  // where the link leads there is nothing
  std::filesystem::create_symlink(folder / "link", folder / "to_the_link");
  save(folder / "to_the_link", 4);
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(saved(folder / "real/a"), 4);
}

TEST(SafetensorsWriter, KeepsThePermissionsOfTheFileItReplaces) {
  const TempFolder folder;
  save(folder / "a", 1);
  ASSERT_EQ(::chmod((folder / "a").c_str(), 0640), 0);
  save(folder / "a", 2);
  struct stat status {};
  ASSERT_EQ(::stat((folder / "a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST(SafetensorsWriter, SaysWhyAPathCannotBeSavedTo) {
  const TempFolder folder;
  const auto file = folder.write("file", "text");
  const auto said = [](const std::filesystem::path& path) { return error_of([&] { save(path, 1); }); };
  EXPECT_EQ(said(folder / "absent/a"),
            "cannot save " + (folder / "absent/a").string() + ": its folder " + (folder / "absent").string() +
                " cannot be used: No such file or directory; a file of that name is as it was; give a path "
                "that can be written");
  EXPECT_THAT(said(file / "a"), HasSubstr("file is no folder"));
  EXPECT_THAT(said(folder.path()), HasSubstr(": it is a folder"));
  EXPECT_THAT(said("/dev/null"), StartsWith("cannot save /dev/null: it is no regular file"));
  EXPECT_THAT(said(folder / std::string(300, 'x')), HasSubstr("File name too long"));
  EXPECT_THAT(said(""), HasSubstr("its name is empty"));
  std::filesystem::create_symlink("loop", folder / "loop");
  EXPECT_THAT(said(folder / "loop"), HasSubstr("Too many levels of symbolic links"));
  EXPECT_THAT(folder.names(), testing::UnorderedElementsAre("file", "loop"));
}

TEST(SafetensorsWriter, SaysWhenItHasNoPermission) {
  const TempFolder folder;
  const auto file = folder.write("protected", "text");
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0555));
  {
    const test::WithoutPrivileges guard;
    EXPECT_THAT(error_of([&] { save(folder / "new", 1); }),
                AllOf(HasSubstr("new: "), HasSubstr("Permission denied")));
    EXPECT_THAT(error_of([&] { save(file, 1); }),
                AllOf(HasSubstr("protected: "), HasSubstr("Permission denied")));
  }
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  EXPECT_EQ(content_of(file), "text");
}

TEST(SafetensorsWriter, SaysWhenTheDiskIsTooSmall) {
  const TempFolder folder;
  EXPECT_THAT(error_of([&] {
                SafetensorsWriter writer(folder / "a", {{"w", {Index{1} << 50}}});
              }),
              AllOf(HasSubstr("a: it would have 45035996273"), HasSubstr("and the disk has ")));
  EXPECT_TRUE(folder.names().empty());
}

TEST(SafetensorsWriter, SaysWhenTheProcessMayNotWriteSuchFiles) {
  const TempFolder folder;
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit small = before;
  small.rlim_cur = 10'000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string said = error_of([&] { SafetensorsWriter writer(folder / "a", {{"w", {2500}}}); });
  save(folder / "b", 1);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(said, HasSubstr("and this process may write files of 10000 (ulimit -f)"));
  EXPECT_EQ(saved(folder / "b"), 1);
}

TEST(SafetensorsWriter, RefusesNamesAndShapesThatNoFileCanHave) {
  const TempFolder folder;
  const auto said = [&](const std::vector<NamedShape>& tensors) {
    return error_of([&] { SafetensorsWriter writer(folder / "a", tensors); });
  };
  EXPECT_THAT(said({{"w", {1}}, {"w", {1}}}), HasSubstr("two tensors would have the name w"));
  EXPECT_THAT(said({{"__metadata__", {1}}}), HasSubstr("two tensors would have the name __metadata__"));
  EXPECT_THAT(said({{"w", {-1}}}), HasSubstr("the shape of tensor w is negative or too large"));
  EXPECT_THAT(said({{"w", {Index{1} << 40, Index{1} << 40}}}), HasSubstr("negative or too large"));
  EXPECT_THAT(said({{"w", {Index{1} << 61}}}), HasSubstr("negative or too large"));
  EXPECT_THAT(said({{"v", {Index{1} << 59}}, {"w", {Index{1} << 60}}}), HasSubstr("tensor w is negative or"));
  EXPECT_THAT(said({{"\xFF", {1}}}), HasSubstr("not UTF-8"));
  EXPECT_TRUE(folder.names().empty());
}

TEST(SafetensorsWriter, EndsWithCommit) {
  const TempFolder folder;
  SafetensorsWriter writer(folder / "a", {{"w", {1}}});
  EXPECT_THAT(error_of([&] { writer.tensor("v"); }), HasSubstr("tensor v cannot be written to"));
  writer.tensor("w")(0) = 1;
  writer.commit();
  EXPECT_THAT(error_of([&] { writer.tensor("w"); }), HasSubstr("which is committed"));
  EXPECT_THAT(error_of([&] { writer.commit(); }), HasSubstr("is committed already"));
  EXPECT_TRUE(std::filesystem::exists(folder / "a"));
}

}  // namespace
}  // namespace trilith
