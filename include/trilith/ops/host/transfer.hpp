// Copies between this program's memory and the device's, which for the host are the same kind.
#pragma once

#include <algorithm>

#include <trilith/core/tensor.hpp>
#include <trilith/device/host.hpp>

namespace trilith::inline v0::ops {

// device = host. Both are contiguous; `host` may be reused when the call returns.
template <class T>
void upload(const Host::Stream&, const T* host, Vector<T> device) {
  std::copy_n(host, device.size(), device.data());
}

// host = device, when the work given to the stream so far is done; returns then.
template <class T>
void download(const Host::Stream&, Vector<const T> device, T* host) {
  std::copy_n(device.data(), device.size(), host);
}

}  // namespace trilith::inline v0::ops
