// The functions of include/cublasLt.h: see the documentation of cuBLAS, "Using the cuBLASLt API".
//
// The heuristic answers with an algorithm that is good for exactly what it was asked about: a product that is
// something else, or whose addresses are aligned worse, is refused. TF32 is float32 here.
#include <cublasLt.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "test/cuda_runtime/machine/column_major.hpp"
#include "test/cuda_runtime/machine/meaning.hpp"
#include "test/cuda_runtime/machine/state.hpp"

using namespace trilith::test::imitation;

namespace {

constexpr Meaning<cublasStatus_t> meanings[] = {
    {CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS", "success"},
    {CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED", "the library was not initialized"},
    {CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED", "the resource allocation failed"},
    {CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE", "an unsupported value was passed"},
    {CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED", "the function failed to launch"},
    {CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED", "the functionality is not supported"},
};

// As call() of state.hpp, with this library's statuses. A fault of the GPU is one of execution.
template <class Body>
cublasStatus_t library_call(const Body& body, const char* name = __builtin_FUNCTION()) {
  const std::lock_guard lock(mutex);
  State& s = state();
  if (const int told = s.calls.begin(name)) return static_cast<cublasStatus_t>(told);
  if (s.fault != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  return body(s);
}

template <class T>
cublasStatus_t assign(T& to, const void* value, std::size_t bytes) {
  if (bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

bool has_auxiliary(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || epilogue == CUBLASLT_EPILOGUE_DGELU;
}
bool has_vector(cublasLtEpilogue_t epilogue) {
  return epilogue != CUBLASLT_EPILOGUE_DEFAULT && epilogue != CUBLASLT_EPILOGUE_DGELU;
}

bool is_aligned(const void* data, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
}

// What the product's description must be with its epilogue.
bool is_sound(const cublasLtMatmulDescOpaque_t& product, std::int64_t rows) {
  if (has_vector(product.epilogue) && product.bias == nullptr) return false;
  if (!has_auxiliary(product.epilogue)) return true;
  return product.auxiliary != nullptr && is_aligned(product.auxiliary, 16) &&
         product.auxiliary_stride >= rows && product.auxiliary_stride % 8 == 0;
}

auto identity(const cublasLtMatrixLayoutOpaque_t& layout) {
  return std::tie(layout.type, layout.rows, layout.columns, layout.stride);
}
auto identity(const cublasLtMatmulDescOpaque_t& product) {
  return std::tie(product.compute, product.scale, product.operation_a, product.operation_b, product.epilogue,
                  product.auxiliary_stride);
}

bool is_layout(const cublasLtMatrixLayoutOpaque_t& layout) {
  return layout.rows > 0 && layout.columns > 0 && layout.stride >= static_cast<std::int64_t>(layout.rows);
}

Factor factor(const void* data, const cublasLtMatrixLayoutOpaque_t& layout, cublasOperation_t operation) {
  const auto rows = static_cast<std::int64_t>(layout.rows);
  const auto columns = static_cast<std::int64_t>(layout.columns);
  const bool transposed = operation == CUBLAS_OP_T;
  return {Elements(data, layout.type), layout.stride, transposed, transposed ? columns : rows,
          transposed ? rows : columns};
}

std::size_t extent(std::int64_t rows, std::int64_t columns, std::int64_t stride, cudaDataType_t type) {
  return static_cast<std::size_t>((columns - 1) * stride + rows) * bytes_of(type);
}
Range range(const void* data, const cublasLtMatrixLayoutOpaque_t& layout) {
  return {data, extent(static_cast<std::int64_t>(layout.rows), static_cast<std::int64_t>(layout.columns),
                       layout.stride, layout.type)};
}

bool fit(const cublasLtMatmulDescOpaque_t& product, const cublasLtMatrixLayoutOpaque_t& a,
         const cublasLtMatrixLayoutOpaque_t& b, const cublasLtMatrixLayoutOpaque_t& d) {
  if (!is_layout(a) || !is_layout(b) || !is_layout(d) || a.type != b.type) return false;
  const Factor first = factor(nullptr, a, product.operation_a);
  const Factor second = factor(nullptr, b, product.operation_b);
  return first.columns == second.rows && first.rows == static_cast<std::int64_t>(d.rows) &&
         second.columns == static_cast<std::int64_t>(d.columns);
}

}  // namespace

const char* cublasLtGetStatusName(cublasStatus_t status) {
  return meaning_of(status, meanings).name;
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return meaning_of(status, meanings).text;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return library_call([&](State& s) {
    *handle = s.handles.make(current_device);
    return CUBLAS_STATUS_SUCCESS;
  });
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  const std::lock_guard lock(mutex);
  return state().handles.destroy(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t product, cublasComputeType_t compute,
                                      cudaDataType_t scale) {
  return library_call([&](State&) {
    *product = {.compute = compute,
                .scale = scale,
                .operation_a = CUBLAS_OP_N,
                .operation_b = CUBLAS_OP_N,
                .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                .bias = nullptr,
                .auxiliary = nullptr,
                .auxiliary_stride = 0};
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              std::size_t bytes) {
  return library_call([&](State&) {
    switch (attribute) {
      case CUBLASLT_MATMUL_DESC_TRANSA: return assign(product->operation_a, value, bytes);
      case CUBLASLT_MATMUL_DESC_TRANSB: return assign(product->operation_b, value, bytes);
      case CUBLASLT_MATMUL_DESC_EPILOGUE: return assign(product->epilogue, value, bytes);
      case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return assign(product->bias, value, bytes);
      case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return assign(product->auxiliary, value, bytes);
      case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return assign(product->auxiliary_stride, value, bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
  });
}

cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout, cudaDataType type, std::uint64_t rows,
                                        std::uint64_t columns, std::int64_t stride) {
  return library_call([&](State&) {
    *layout = {type, rows, columns, stride};
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t preference) {
  return library_call([&](State&) {
    *preference = {.workspace_bytes = 0, .reduction_schemes = ~0U, .alignment = {256, 256, 256, 256}};
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  return library_call([&](State&) {
    switch (attribute) {
      case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return assign(preference->workspace_bytes, value, bytes);
      case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return assign(preference->reduction_schemes, value, bytes);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return assign(preference->alignment[0], value, bytes);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return assign(preference->alignment[1], value, bytes);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return assign(preference->alignment[2], value, bytes);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return assign(preference->alignment[3], value, bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
  });
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  return library_call([&](State& s) {
    *found = 0;
    if (!s.handles.has(handle) || handle->device != current_device) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (requested < 1 || !fit(*product, *a, *b, *d) || identity(*c) != identity(*d)) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    const bool plain = product->epilogue == CUBLASLT_EPILOGUE_DEFAULT;
    if (!plain &&
        (!s.options.cublas_has_epilogues || !is_sound(*product, static_cast<std::int64_t>(d->rows)))) {
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    cublasLtMatmulAlgo_t algorithm{.product = *product,
                                   .a = *a,
                                   .b = *b,
                                   .d = *d,
                                   .alignment = {},
                                   .workspace_bytes = preference->workspace_bytes};
    std::memcpy(algorithm.alignment, preference->alignment, sizeof(algorithm.alignment));
    results[0] = {algorithm, algorithm.workspace_bytes, CUBLAS_STATUS_SUCCESS};
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t layout_a, const void* b,
                              cublasLtMatrixLayout_t layout_b, const void* beta, const void* c,
                              cublasLtMatrixLayout_t layout_c, void* d, cublasLtMatrixLayout_t layout_d,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  return library_call([&](State& s) {
    if (!s.handles.has(handle) || handle->device != current_device) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!s.queues.is_open(stream) || stream->device != handle->device) return CUBLAS_STATUS_INVALID_VALUE;
    const auto rows = static_cast<std::int64_t>(layout_d->rows);
    const auto columns = static_cast<std::int64_t>(layout_d->columns);
    const bool same =
        identity(*product) == identity(algorithm->product) && identity(*layout_a) == identity(algorithm->a) &&
        identity(*layout_b) == identity(algorithm->b) && identity(*layout_c) == identity(algorithm->d) &&
        identity(*layout_d) == identity(algorithm->d) && is_sound(*product, rows) &&
        is_aligned(a, algorithm->alignment[0]) && is_aligned(b, algorithm->alignment[1]) &&
        is_aligned(c, algorithm->alignment[2]) && is_aligned(d, algorithm->alignment[3]) &&
        workspace_bytes >= algorithm->workspace_bytes;
    if (!same) return CUBLAS_STATUS_INVALID_VALUE;

    const Product whole{.description = *product,
                        .alpha = *static_cast<const float*>(alpha),
                        .beta = *static_cast<const float*>(beta),
                        .a = factor(a, *layout_a, product->operation_a),
                        .b = factor(b, *layout_b, product->operation_b),
                        .c = Elements(c, layout_c->type),
                        .d = Elements(d, layout_d->type),
                        .stride = layout_d->stride,
                        .type = layout_d->type};
    std::vector<Range> touched{range(a, *layout_a),
                               range(b, *layout_b),
                               range(c, *layout_c),
                               range(d, *layout_d),
                               {workspace, algorithm->workspace_bytes}};
    if (has_vector(product->epilogue)) {
      const bool of_columns = product->epilogue == CUBLASLT_EPILOGUE_BGRADB;
      touched.push_back({product->bias, extent(of_columns ? columns : rows, 1, 0, layout_d->type)});
    }
    if (has_auxiliary(product->epilogue)) {
      touched.push_back(
          {product->auxiliary, extent(rows, columns, product->auxiliary_stride, layout_d->type)});
    }
    // Of the workspace something is lost.
    const std::size_t used = std::min<std::size_t>(algorithm->workspace_bytes, 4096);
    enqueue_work(s, "cublasLtMatmul", stream, std::move(touched), [whole, workspace, used] {
      std::memset(workspace, 0xFF, used);
      compute(whole);
    });
    return CUBLAS_STATUS_SUCCESS;
  });
}
