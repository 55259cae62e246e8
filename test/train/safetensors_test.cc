// Reading safetensors files: what they hold when they are sound, and one sentence when they are not.

#include <sys/stat.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/core/random.hpp>
#include <trilith/train/safetensors.hpp>

#include "test/support/files.hpp"

namespace trilith {
namespace {

using test::bytes_of;
using test::error_of;
using test::safetensors_bytes;
using test::TempFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<float> read_all(const SafetensorsTensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.size));
  tensor.read(0, tensor.size, values.data());
  return values;
}

class Safetensors : public testing::Test {
 protected:
  std::string refusal(const std::string& content) {
    const auto path = folder_.write("bad.safetensors", content);
    return error_of([&] { SafetensorsFile file(path); });
  }

  std::string refusal_of_header(const std::string& header, std::size_t data_size = 8) {
    return refusal(safetensors_bytes(header, std::string(data_size, 'x')));
  }

  // One tensor of each float type, one of another type, a scalar, an empty one, and metadata.
  static std::string sound() {
    const std::string header = R"({"__metadata__":{"format":"pt","n_head":"4"},)"
                               R"("w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                               R"("half":{"dtype":"F16","shape":[3],"data_offsets":[24,30]},)"
                               R"("brain":{"dtype":"BF16","shape":[1,2],"data_offsets":[30,34]},)"
                               R"("mask":{"dtype":"BOOL","shape":[3],"data_offsets":[34,37]},)"
                               R"("scalar":{"dtype":"F64","shape":[],"data_offsets":[37,45]},)"
                               R"("none":{"dtype":"F32","shape":[0,7],"data_offsets":[45,45]}}  )";
    const std::string data =
        bytes_of<float>({0, 1, 2, 3, 4, 5}) + bytes_of<std::uint16_t>({0x3C00, 0xC000, 0x3555}) +
        bytes_of<std::uint16_t>({0x3F80, 0xC040}) + std::string("\1\0\1", 3) + bytes_of<double>({0.1});
    return safetensors_bytes(header, data);
  }

  TempFolder folder_;
};

TEST_F(Safetensors, ReadsEveryFloatTypeInTheFilesOrder) {
  const SafetensorsFile file(folder_.write("a.safetensors", sound()));
  std::vector<std::string> names;
  for (const SafetensorsTensor& tensor : file.tensors()) names.push_back(tensor.name);
  EXPECT_THAT(names, ElementsAre("w", "half", "brain", "mask", "scalar", "none"));

  EXPECT_THAT(file.tensor("w").shape, ElementsAre(2, 3));
  EXPECT_THAT(read_all(file.tensor("w")), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(read_all(file.tensor("half")), ElementsAre(1.0f, -2.0f, 0x1.554p-2f));
  EXPECT_THAT(read_all(file.tensor("brain")), ElementsAre(1.0f, -3.0f));
  EXPECT_THAT(read_all(file.tensor("scalar")), ElementsAre(0.1f));
  EXPECT_TRUE(file.tensor("scalar").shape.empty());
  EXPECT_TRUE(read_all(file.tensor("none")).empty());
  EXPECT_EQ(file.metadata().at("n_head"), "4");
  EXPECT_EQ(file.find("mask")->bytes.size(), 3u);
  EXPECT_EQ(file.find("absent"), nullptr);
}

TEST_F(Safetensors, ReadsAnyRangeOfATensor) {
  const SafetensorsFile file(folder_.write("a.safetensors", sound()));
  const SafetensorsTensor& w = file.tensor("w");
  for (Index first = 0; first <= 6; ++first) {
    for (Index count = 0; first + count <= 6; ++count) {
      std::vector<float> values(7, -1.0f);
      w.read(first, count, values.data());
      for (Index i = 0; i < 7; ++i) {
        EXPECT_EQ(values[static_cast<std::size_t>(i)], i < count ? static_cast<float>(first + i) : -1.0f);
      }
    }
  }
}

TEST_F(Safetensors, RefusesRangesOutsideATensor) {
  const SafetensorsFile file(folder_.write("a.safetensors", sound()));
  constexpr Index most = std::numeric_limits<Index>::max();
  float to[8];
  for (const auto& [first, count] : std::vector<std::pair<Index, Index>>{
           {0, 7}, {6, 1}, {-1, 1}, {0, -1}, {most, 1}, {1, most}, {most, most}, {-most, most}}) {
    EXPECT_THAT(error_of([&, f = first, c = count] { file.tensor("w").read(f, c, to); }),
                HasSubstr("tensor w has 6 elements, but"))
        << first << " " << count;
  }
}

TEST_F(Safetensors, RefusesToReadOtherTypesAsFloat) {
  const SafetensorsFile file(folder_.write("a.safetensors", sound()));
  float to[3];
  EXPECT_EQ(error_of([&] { file.tensor("mask").read(0, 3, to); }),
            "tensor mask is of type BOOL, which is not read as float; convert it to F32, F16, BF16 or F64");
}

TEST_F(Safetensors, SaysWhichTensorIsAskedForInVain) {
  const SafetensorsFile file(folder_.write("a.safetensors", sound()));
  EXPECT_THAT(error_of([&] { file.tensor("v"); }),
              AllOf(HasSubstr("a.safetensors has no tensor v"), HasSubstr("6 tensors")));
}

// Against the definition of the format: (-1)^sign · 2^(exponent - 15) · 1.fraction, for all 65536 of them.
TEST(Float16, AgreesWithItsDefinition) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const int fraction = static_cast<int>(bits & 1023);
    const float actual = float_from_f16(static_cast<std::uint16_t>(bits));
    if (exponent == 31 && fraction != 0) {
      ASSERT_TRUE(std::isnan(actual)) << bits;
      continue;
    }
    double expected = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31) expected = std::numeric_limits<double>::infinity();
    ASSERT_EQ(actual, bits >> 15 ? -expected : expected) << bits;
    ASSERT_EQ(std::signbit(actual), bits >> 15 != 0) << bits;
  }
}

TEST(BFloat16, IsTheUpperHalfOfAFloat) {
  EXPECT_EQ(float_from_bf16(0x0001), 0x1p-133f);  // subnormal
  EXPECT_EQ(float_from_bf16(0x7F80), std::numeric_limits<float>::infinity());
  EXPECT_EQ(float_from_bf16(0xFF80), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(float_from_bf16(0x7FC0)));
  EXPECT_EQ(float_from_bf16(0x4049), 3.140625f);
}

TEST_F(Safetensors, RefusesWhatIsNoFile) {
  EXPECT_EQ(error_of([&] { SafetensorsFile file(folder_ / "absent"); }),
            (folder_ / "absent").string() +
                " cannot be read: No such file or directory; check the path and the permissions");
  EXPECT_THAT(error_of([&] { SafetensorsFile file(folder_.path()); }), HasSubstr("is a folder; give a file"));
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { SafetensorsFile file(folder_ / "pipe"); }), HasSubstr("is no regular file"));
}

TEST_F(Safetensors, RefusesAFileThatMayNotBeRead) {
  const auto path = folder_.write("a.safetensors", sound());
  std::filesystem::permissions(path, std::filesystem::perms::none);
  const test::WithoutPrivileges guard;
  EXPECT_THAT(error_of([&] { SafetensorsFile file(path); }), HasSubstr("cannot be read: Permission denied"));
}

TEST_F(Safetensors, RefusesFilesWithoutARoomyHeader) {
  EXPECT_THAT(refusal(""), HasSubstr("it has 0 bytes, fewer than the 8 of a header length"));
  EXPECT_THAT(refusal("1234567"), HasSubstr("it has 7 bytes"));
  EXPECT_THAT(refusal(std::string(8, '\0')), HasSubstr("its header does not begin with {"));
  EXPECT_THAT(refusal("GGUF is another format"),
              AllOf(HasSubstr("bad.safetensors is not a sound safetensors file: its header would be "),
                    HasSubstr("bytes long, but only 14 follow")));
  EXPECT_THAT(refusal(std::string(8, '\xFF') + "{}"),
              HasSubstr("its header would be 18446744073709551615 bytes long, but only 2 follow"));
}

TEST_F(Safetensors, RefusesAHeaderOfMoreThan100MillionBytes) {
  const auto path = folder_.write("a.safetensors", bytes_of<std::uint64_t>({100'000'001}) + "{");
  std::filesystem::resize_file(path, 100'000'100);  // sparse
  EXPECT_THAT(error_of([&] { SafetensorsFile file(path); }),
              HasSubstr("100000001 bytes long, more than the 100000000 that the format allows"));
}

TEST_F(Safetensors, RefusesHeadersThatAreNotAnObjectOfTensors) {
  EXPECT_THAT(refusal_of_header("[]"), HasSubstr("its header does not begin with {"));
  EXPECT_THAT(refusal_of_header(R"({"a")"), HasSubstr("its header is not JSON at byte 5"));
  EXPECT_THAT(refusal_of_header("{\"\xFF\":1}"), HasSubstr("its header is not JSON at byte 3"));
  EXPECT_THAT(refusal_of_header(R"({"a":1e999})"), HasSubstr("its header is not JSON"));
  EXPECT_THAT(refusal_of_header(R"({"a":3})"), HasSubstr("tensor a has no \"dtype\" that is a string"));
  EXPECT_THAT(refusal_of_header(R"({"a":{"dtype":4}})"),
              HasSubstr("tensor a has no \"dtype\" that is a string"));
  EXPECT_THAT(refusal_of_header(R"({"a":{"dtype":"Q4","shape":[1],"data_offsets":[0,8]}})"),
              HasSubstr("tensor a is of the unknown type \"Q4\""));
  EXPECT_THAT(refusal_of_header(std::string(100'000, '{')), HasSubstr("not JSON"));
  EXPECT_THAT(refusal_of_header("{\"a\":" + std::string(1'000'000, '[')), HasSubstr("nested deeper"));
}

TEST_F(Safetensors, RefusesWrongShapesAndOffsets) {
  const auto entry = [&](const std::string& shape, const std::string& offsets) {
    return refusal_of_header(R"({"a":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets +
                             "}}");
  };
  EXPECT_EQ(entry("[2]", "[0,8]"), "");
  for (const char* shape : {"[-2]", "[2.0]", "2", "[\"2\"]", "[[2]]", "[9223372036854775808]", "null"}) {
    EXPECT_THAT(entry(shape, "[0,8]"), testing::AnyOf(HasSubstr("no \"shape\" that is a list of numbers"),
                                                      HasSubstr("nested deeper")))
        << shape;
  }
  for (const char* shape : {"[4294967296,4294967296]", "[9223372036854775807]", "[4611686018427387904,0,4,4]",
                            "[3,6148914691236517206]"}) {
    EXPECT_THAT(entry(shape, "[0,8]"),
                testing::AnyOf(HasSubstr("a shape of more than 2^63 bytes"), HasSubstr("needs 0 bytes")))
        << shape;
  }
  for (const char* offsets : {"[0]", "[0,4,8]", "[-8,0]", "8", "[0,8.0]", "{}", "[0,18446744073709551616]"}) {
    EXPECT_THAT(entry("[2]", offsets), HasSubstr("no \"data_offsets\" that is a pair of numbers")) << offsets;
  }
  EXPECT_THAT(
      entry("[3]", "[0,8]"),
      HasSubstr("tensor a of shape (3) and type F32 needs 12 bytes, but its data_offsets (0, 8) span 8"));
  EXPECT_THAT(entry("[2]", "[8,0]"), HasSubstr("span -8"));
  EXPECT_THAT(entry("[2]", "[4,12]"),
              HasSubstr("it is truncated: the data of tensor a ends at byte 12, but only 8 are there"));
  EXPECT_THAT(entry("[2]", "[9223372036854775799,9223372036854775807]"), HasSubstr("it is truncated"));
}

TEST_F(Safetensors, RefusesDataThatIsSharedOrUnclaimed) {
  const auto two = [&](const std::string& first, const std::string& second) {
    return refusal_of_header(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
                             R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}");
  };
  EXPECT_EQ(two("[0,4]", "[4,8]"), "");
  EXPECT_EQ(two("[4,8]", "[0,4]"), "");
  EXPECT_THAT(two("[0,4]", "[3,7]"), HasSubstr("the data of tensor b overlaps another"));
  EXPECT_THAT(two("[0,4]", "[0,4]"), HasSubstr("the data of tensor b overlaps another"));
  EXPECT_THAT(two("[1,5]", "[4,8]"), HasSubstr("1 bytes before the data of tensor a belong to no tensor"));
  EXPECT_THAT(refusal_of_header(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 7),
              HasSubstr("its last 3 bytes belong to no tensor"));
  EXPECT_THAT(refusal_of_header("{}", 5), HasSubstr("its last 5 bytes belong to no tensor"));
  EXPECT_EQ(refusal_of_header("{}", 0), "");
}

TEST_F(Safetensors, RefusesEqualKeys) {
  const std::string entry = R"("a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]})";
  EXPECT_EQ(refusal_of_header("{" + entry + "}"), "");
  EXPECT_THAT(refusal_of_header("{" + entry + "," + entry + "}"), HasSubstr("has the key \"a\" twice"));
  EXPECT_THAT(refusal_of_header(R"({"a":{"dtype":"U8","shape":[8],"shape":[8],"data_offsets":[0,8]}})"),
              HasSubstr("has the key \"shape\" twice"));
}

TEST_F(Safetensors, TakesMetadataAsItComes) {
  const std::string entry = R"(,"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})";
  for (const char* metadata : {"{}", "null", "[1,2]", R"({"n":4,"s":"x"})", R"("text")"}) {
    EXPECT_EQ(refusal_of_header(R"({"__metadata__":)" + std::string(metadata) + entry), "") << metadata;
  }
}

void expect_sound_or_refused(const std::filesystem::path& path) {
  const std::string said = error_of([&] {
    const SafetensorsFile file(path);
    for (const SafetensorsTensor& tensor : file.tensors()) {
      if (tensor.is_float()) read_all(tensor);
    }
  });
  EXPECT_TRUE(said.empty() || said.find("is not a sound safetensors file: ") != said.npos) << said;
}

TEST_F(Safetensors, RefusesEveryTruncation) {
  const std::string whole = sound();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(refusal(whole.substr(0, size)), "") << size;
  }
  EXPECT_EQ(refusal(whole), "");
}

TEST_F(Safetensors, SurvivesEveryDamageToItsHeader) {
  const std::string whole = sound();
  const std::size_t header = whole.size() - 45;
  const Philox random(3, 0);
  for (std::uint64_t trial = 0; trial < 1500; ++trial) {
    std::string damaged = whole;
    for (std::uint64_t flip = 0; flip <= trial % 3; ++flip) {
      const auto words = random.block(trial * 3 + flip);
      // Either any byte, or a digit, which more often stays JSON.
      std::size_t place = words[0] % header;
      const bool digit = trial % 2 == 0;
      while (digit && !(damaged[place] >= '0' && damaged[place] <= '9')) place = (place + 1) % header;
      damaged[place] = digit ? static_cast<char>('0' + words[1] % 10) : static_cast<char>(words[1]);
    }
    expect_sound_or_refused(folder_.write("damaged.safetensors", damaged));
  }
}

}  // namespace
}  // namespace trilith
