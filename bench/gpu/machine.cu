#include <cuda_runtime_api.h>

#include <ctime>
#include <fstream>
#include <string>

#include "bench/gpu/measurement.hpp"

namespace trilith::bench {

Machine find_machine(std::string& why) {
  int count = 0;
  cudaDeviceProp properties = {};
  cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) status = cudaGetDeviceProperties(&properties, 0);
  why = status != cudaSuccess ? cudaGetErrorString(status) : (count == 0 ? "no CUDA device" : "");
  if (!why.empty()) return {};

  Machine machine{.card = properties.name, .driver = {}, .date = {}};
  std::ifstream("/sys/module/nvidia/version") >> machine.driver;
  if (machine.driver.empty()) {
    int version = 0;
    static_cast<void>(cudaDriverGetVersion(&version));
    machine.driver = "of CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  }
  const std::time_t now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  machine.date = date;
  return machine;
}

}  // namespace trilith::bench
