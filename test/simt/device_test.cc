// The test kernels on a GPU against the same kernels on the emulator, on random input. Skips where no GPU
// answers; with TRILITH_REQUIRE_GPU set (--config=gpu) that is a failure.

#include "test/simt/device.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/core/half.hpp>
#include <trilith/core/random.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/kernels/warp.hpp>
#include <trilith/simt/emulator.hpp>

#include "test/kernels/block_reduce_kernel.hpp"
#include "test/simt/primitive_kernels.hpp"
#include "test/simt/tile_product.hpp"

namespace trilith::test {
namespace {

// Memory for both: what the device wrote is kept aside, and what it started from is put back, before the
// emulator runs.
template <class T>
class Managed {
 public:
  explicit Managed(Index size) : size_(size), data_(static_cast<T*>(allocate_managed(size * sizeof(T)))) {}
  Managed(const Managed&) = delete;
  Managed& operator=(const Managed&) = delete;
  ~Managed() { free_managed(data_); }

  T& operator[](Index i) { return data_[i]; }
  Index size() const { return size_; }
  simt::Global<T> view() const { return {data_, size_}; }
  std::vector<T> copy() const { return {data_, data_ + size_}; }
  void put_back(const std::vector<T>& values) {
    std::memcpy(data_, values.data(), values.size() * sizeof(T));
  }

 private:
  Index size_;
  T* data_;
};

class Device : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = why_no_device();
    if (why.empty()) return;
    if (std::getenv("TRILITH_REQUIRE_GPU") != nullptr) {
      FAIL() << "no GPU: " << why;
    } else {
      GTEST_SKIP() << "no GPU: " << why;
    }
  }

  // Runs K on both. `out` is what it writes.
  template <class K, class T>
  void run(const typename K::Params& params, Managed<T>& out, simt::Dim3 grid = {}) {
    const std::vector<T> before = out.copy();
    launch_on_device<K>(grid, params);
    const std::vector<T> on_device = out.copy();
    out.put_back(before);
    simt::Emulator emulator;
    emulator.launch(K{}, grid, params);
    ASSERT_EQ(on_device.size(), out.copy().size());
    device_bytes_.resize(on_device.size() * sizeof(T));
    std::memcpy(device_bytes_.data(), on_device.data(), device_bytes_.size());
  }

  template <class K, class T>
  void expect_same_bits(const typename K::Params& params, Managed<T>& out, simt::Dim3 grid = {}) {
    run<K>(params, out, grid);
    EXPECT_EQ(std::memcmp(device_bytes_.data(), &out[0], device_bytes_.size()), 0) << K::name;
  }

  // Where a sum's order or a last bit is open.
  template <class K>
  void expect_near(const typename K::Params& params, Managed<float>& out, float tolerance,
                   simt::Dim3 grid = {}) {
    run<K>(params, out, grid);
    const auto* device = reinterpret_cast<const float*>(device_bytes_.data());
    for (Index i = 0; i < out.size(); ++i) {
      ASSERT_NEAR(device[i], out[i], tolerance * std::max(1.0f, std::abs(out[i])))
          << K::name << ", element " << i;
    }
  }

  // Of what `draw` gives for each index.
  template <int Warps, class Combine, class Draw>
  void expect_same_reduction(Draw draw) {
    using V = std::invoke_result_t<Draw, Index>;
    using Kernel = ReduceTwice<V, Warps, Combine>;
    Managed<V> x(2 * Kernel::threads);
    Managed<V> results(x.size());
    for (Index i = 0; i < x.size(); ++i) x[i] = draw(i);
    expect_same_bits<Kernel>({x.view(), results.view()}, results);
  }

  Philox random_{5, 0};

 private:
  std::vector<std::byte> device_bytes_;
};

TEST_F(Device, Ids) {
  Managed<std::int32_t> out(Index{12} * 64 * 6);
  expect_same_bits<Ids>({out.view()}, out, {.x = 3, .y = 2, .z = 2});
}

TEST_F(Device, Shuffles) {
  Managed<float> in(32);
  Managed<std::int32_t> by(32);
  Managed<float> out(128);
  for (int i = 0; i < 32; ++i) {
    in[i] = random_.normal(i);
    by[i] = static_cast<int>(random_.block(i)[1] % 32);
  }
  for (const int distance : {0, 1, 7, 16, 31}) {
    expect_same_bits<Shuffles>({in.view(), by.view(), out.view(), distance}, out);
  }
}

TEST_F(Device, Votes) {
  Managed<std::uint32_t> out(96);
  for (const std::uint32_t mask : {0u, 1u, 0x12345678u, 0xFFFFFFFFu})
    expect_same_bits<Votes>({out.view(), mask}, out);
}

// Small whole numbers, so that every order of additions gives the same bits.
template <half T>
void fill(Managed<std::uint32_t>& pairs, const Philox& random) {
  for (Index i = 0; i < pairs.size(); ++i) {
    const auto words = random.block(i);
    pairs[i] = pack_pair<T>(static_cast<float>(words[0] % 9) - 4, static_cast<float>(words[1] % 9) - 4);
  }
}

TEST_F(Device, Mma) {
  Managed<std::uint32_t> a(128);
  Managed<std::uint32_t> b(64);
  Managed<float> d(128);
  for (int i = 0; i < 128; ++i) d[i] = static_cast<float>(i);
  fill<BFloat16>(a, random_);
  fill<BFloat16>(b, random_);
  expect_same_bits<Mma<BFloat16>>({a.view(), b.view(), d.view()}, d);
  fill<Float16>(a, random_);
  fill<Float16>(b, random_);
  expect_same_bits<Mma<Float16>>({a.view(), b.view(), d.view()}, d);
}

TEST_F(Device, Ldmatrix) {
  Managed<BFloat16> in(256);
  Managed<std::uint32_t> out(128);
  for (int i = 0; i < 256; ++i) in[i].bits = static_cast<std::uint16_t>(random_.block(i)[0]);
  expect_same_bits<Ldmatrix<1, false>>({in.view(), out.view()}, out);
  expect_same_bits<Ldmatrix<2, false>>({in.view(), out.view()}, out);
  expect_same_bits<Ldmatrix<4, false>>({in.view(), out.view()}, out);
  expect_same_bits<Ldmatrix<1, true>>({in.view(), out.view()}, out);
  expect_same_bits<Ldmatrix<2, true>>({in.view(), out.view()}, out);
  expect_same_bits<Ldmatrix<4, true>>({in.view(), out.view()}, out);
}

TEST_F(Device, Copies) {
  Managed<float> in(384);
  Managed<float> out(384);
  for (int i = 0; i < 384; ++i) in[i] = random_.normal(i);
  expect_same_bits<Copies>({in.view(), out.view()}, out);
}

TEST_F(Device, Atomics) {
  Managed<float> sums(2);
  expect_same_bits<Atomics>({sums.view()}, sums, {.x = 5});
}

TEST_F(Device, Reciprocal) {
  Managed<float> x(32);
  for (int i = 0; i < 32; ++i) x[i] = -70.0f + 4.75f * static_cast<float>(i);
  expect_near<Reciprocal>({x.view()}, x, 0x1p-21f);
}

TEST_F(Device, Exp2) {
  Managed<float> x(32);
  for (int i = 0; i < 32; ++i) x[i] = 20 * random_.normal(i);
  expect_near<Exp2>({x.view()}, x, 0x1p-21f);
}

// Any bits, among them NaN, infinities and subnormal numbers.
TEST_F(Device, Packing) {
  Managed<float> x(64);
  Managed<std::uint32_t> out(32);
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 64; ++i) x[i] = std::bit_cast<float>(random_.block(64 * round + i)[0]);
    for (int i = 0; i < 16; ++i) x[i] = std::ldexp(random_.normal(64 * round + i), i - 24);
    expect_same_bits<Packing<BFloat16>>({x.view(), out.view()}, out);
    expect_same_bits<Packing<Float16>>({x.view(), out.view()}, out);
  }
}

TEST_F(Device, Vectors) {
  Managed<Float16> in(256);
  Managed<Float16> out(256);
  for (int i = 0; i < 256; ++i) in[i].bits = static_cast<std::uint16_t>(random_.block(i)[0]);
  expect_same_bits<Vectors>({in.view(), out.view()}, out);
}

TEST_F(Device, NamedBarriers) {
  Managed<std::int32_t> out(256);
  expect_same_bits<NamedBarriers>({out.view()}, out);
}

// Where both sum in one order, sums of any numbers have the same bits.
TEST_F(Device, BlockReductions) {
  const auto number = [this](Index i) { return random_.normal(i); };
  expect_same_reduction<1, kernels::Sum>(number);
  expect_same_reduction<8, kernels::Sum>(number);
  expect_same_reduction<8, kernels::Maximum>(number);
  expect_same_reduction<16, kernels::Sum>(
      [&](Index i) { return double{number(2 * i)} + 0x1p-26 * double{number(2 * i + 1)}; });
  expect_same_reduction<2, kernels::Sum>([&](Index i) {
    return kernels::Floats<2>{number(2 * i), number(2 * i + 1)};
  });
}

TEST_F(Device, TileProduct) {
  Managed<BFloat16> a(Index{128} * 256);
  Managed<BFloat16> b(Index{256} * 192);
  Managed<float> c(Index{128} * 192);
  for (Index i = 0; i < a.size(); ++i) a[i] = BFloat16(random_.normal(i));
  for (Index i = 0; i < b.size(); ++i) b[i] = BFloat16(random_.normal(a.size() + i));
  // The terms' sizes add up to about 160, and a tensor core may cut off what lies below 2^-23 of that at each
  // of 16 steps.
  expect_near<TileProduct<BFloat16>>({a.view(), b.view(), c.view(), 192, 256}, c, 0x1p-11f, {.x = 3, .y = 2});
}

}  // namespace
}  // namespace trilith::test
