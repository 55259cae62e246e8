// The plans of a stream's matrix products: for each GemmKey cuBLASLt's description of it and the algorithm
// that its heuristic prefers, found once.
//
// All is added up in float32. With float32 factors the products are made in float32 too, unless TF32 is asked
// for. Of the ways to split the inner dimension only those are allowed that add float32 partial sums in a
// fixed order, so products repeat bit for bit.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <type_traits>

#include <trilith/device/cuda/check.cuh>
#include <trilith/device/cuda/cublas_check.cuh>
#include <trilith/ops/cuda/gemm_key.hpp>

namespace trilith::inline v0::ops {

class GemmPlans {
 public:
  struct Operands {
    const void* first;
    const void* second;
    void* result;
    void* side = nullptr;    // the epilogue's matrix
    void* vector = nullptr;  // its vector
  };

  // On the calling thread's GPU. The workspace is not counted by any Memory.
  explicit GemmPlans(cudaStream_t stream) : stream_(stream) {
    cublasLtHandle_t handle = nullptr;
    gpu::check(cublasLtCreate(&handle), "cublasLtCreate");
    handle_.reset(handle);
    gpu::check(cudaMallocAsync(&workspace_, workspace_bytes, stream), "cudaMallocAsync");
  }
  GemmPlans(const GemmPlans&) = delete;
  GemmPlans& operator=(const GemmPlans&) = delete;
  ~GemmPlans() { gpu::ignore(cudaFreeAsync(workspace_, stream_)); }

  // Whether float32 products may be made in TF32, whose factors have 11 significant bits.
  bool tf32 = false;

  // Enqueues the product. False, and nothing is done, where cuBLASLt has no algorithm for it.
  bool run(const GemmKey& key, const Operands& operands) {
    auto place = plans_.find(key);
    if (place == plans_.end()) place = plans_.emplace(key, make(key)).first;
    std::optional<Plan>& plan = place->second;
    if (!plan) return false;
    if (key.epilogue != Epilogue::none) {
      point(plan->product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.side);
      point(plan->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.vector);
    }
    const float one = 1;
    const float beta = key.accumulates ? 1.0f : 0.0f;
    gpu::check(
        cublasLtMatmul(handle_.get(), &plan->product, &one, operands.first, &plan->first, operands.second,
                       &plan->second, &beta, operands.result, &plan->result, operands.result, &plan->result,
                       &plan->algorithm, workspace_, workspace_bytes, stream_),
        "cublasLtMatmul");
    return true;
  }

 private:
  struct Destroy {
    void operator()(cublasLtHandle_t handle) const { static_cast<void>(cublasLtDestroy(handle)); }
  };

  // Values: cuBLASLt keeps nothing of them elsewhere.
  struct Plan {
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t first;
    cublasLtMatrixLayoutOpaque_t second;
    cublasLtMatrixLayoutOpaque_t result;
    cublasLtMatmulAlgo_t algorithm;
  };

  // What NVIDIA recommends for Hopper and later; earlier GPUs need less.
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

  static cudaDataType_t type(ElementType type) {
    switch (type) {
      case ElementType::float32: return CUDA_R_32F;
      case ElementType::bfloat16: return CUDA_R_16BF;
      case ElementType::float16: return CUDA_R_16F;
    }
    return CUDA_R_32F;
  }

  static cublasLtEpilogue_t epilogue(Epilogue epilogue) {
    switch (epilogue) {
      case Epilogue::none: return CUBLASLT_EPILOGUE_DEFAULT;
      case Epilogue::bias: return CUBLASLT_EPILOGUE_BIAS;
      case Epilogue::bias_gelu: return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
      case Epilogue::gelu_gradient: return CUBLASLT_EPILOGUE_DGELU;
      case Epilogue::first_bias_gradient: return CUBLASLT_EPILOGUE_BGRADA;
      case Epilogue::second_bias_gradient: return CUBLASLT_EPILOGUE_BGRADB;
    }
    return CUBLASLT_EPILOGUE_DEFAULT;
  }

  template <class Value>
  static void set(cublasLtMatmulDescOpaque_t& product, cublasLtMatmulDescAttributes_t attribute,
                  Value value) {
    gpu::check(cublasLtMatmulDescSetAttribute(&product, attribute, &value, sizeof(value)),
               "cublasLtMatmulDescSetAttribute");
  }
  static void point(cublasLtMatmulDescOpaque_t& product, cublasLtMatmulDescAttributes_t attribute,
                    const void* to) {
    set(product, attribute, to);
  }
  static void set(cublasLtMatmulPreferenceOpaque_t& preference,
                  cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    gpu::check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)),
               "cublasLtMatmulPreferenceSetAttribute");
  }

  static void describe_matrix(cublasLtMatrixLayoutOpaque_t& matrix, ElementType element, Index rows,
                              Index columns, Index stride) {
    gpu::check(cublasLtMatrixLayoutInit(&matrix, type(element), static_cast<std::uint64_t>(rows),
                                        static_cast<std::uint64_t>(columns), stride),
               "cublasLtMatrixLayoutInit");
  }

  // All but the algorithm.
  static Plan describe(const GemmKey& key) {
    Plan plan = {};
    const bool fast = key.tf32 && key.factors == ElementType::float32;
    gpu::check(cublasLtMatmulDescInit(&plan.product, fast ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                      CUDA_R_32F),
               "cublasLtMatmulDescInit");
    const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
    set(plan.product, CUBLASLT_MATMUL_DESC_TRANSA, operation(key.transpose_first));
    set(plan.product, CUBLASLT_MATMUL_DESC_TRANSB, operation(key.transpose_second));
    set(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue(key.epilogue));
    if (key.side_stride > 0) {
      set(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<std::int64_t>(key.side_stride));
    }
    const auto describe_factor = [&](cublasLtMatrixLayoutOpaque_t& factor, bool transposed, Index outer,
                                     Index inner, Index stride) {
      describe_matrix(factor, key.factors, transposed ? inner : outer, transposed ? outer : inner, stride);
    };
    describe_factor(plan.first, key.transpose_first, key.rows, key.inner, key.first_stride);
    describe_factor(plan.second, !key.transpose_second, key.columns, key.inner, key.second_stride);
    describe_matrix(plan.result, key.result, key.rows, key.columns, key.result_stride);
    return plan;
  }

  std::optional<Plan> make(const GemmKey& key) const {
    Plan plan = describe(key);
    // The heuristic reads from these addresses no more than how they are aligned.
    const auto aligned = [](int alignment) {
      return reinterpret_cast<const void*>(static_cast<std::uintptr_t>(alignment));
    };
    if (key.side_alignment > 0) {
      point(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aligned(key.side_alignment));
    }
    if (key.vector_alignment > 0) {
      point(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, aligned(key.vector_alignment));
    }
    cublasLtMatmulPreferenceOpaque_t preference = {};
    gpu::check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
    set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace_bytes});
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    const auto bytes = [](int alignment) { return static_cast<std::uint32_t>(alignment); };
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, bytes(key.first_alignment));
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, bytes(key.second_alignment));
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, bytes(key.result_alignment));
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, bytes(key.result_alignment));

    cublasLtMatmulHeuristicResult_t best = {};
    int found = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle_.get(), &plan.product, &plan.first, &plan.second, &plan.result,
                                       &plan.result, &preference, 1, &best, &found);
    // Where there is an epilogue, the description may break a rule of it that run_fused() does not know: two
    // passes do it then. That the usual ones are fused is a test on GPUs.
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return std::nullopt;
    if (status == CUBLAS_STATUS_INVALID_VALUE && key.epilogue != Epilogue::none) return std::nullopt;
    gpu::check(status, "cublasLtMatmulAlgoGetHeuristic");
    if (found == 0 || best.state != CUBLAS_STATUS_SUCCESS) return std::nullopt;
    plan.algorithm = best.algo;
    return plan;
  }

  cudaStream_t stream_;
  std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, Destroy> handle_;
  void* workspace_ = nullptr;
  std::map<GemmKey, std::optional<Plan>> plans_;
};

}  // namespace trilith::inline v0::ops
