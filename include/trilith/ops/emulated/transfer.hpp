// Copies between this program's memory and the emulator's, which are the same kind.
#pragma once

#include <trilith/core/tensor.hpp>
#include <trilith/device/emulated.hpp>
#include <trilith/ops/host/transfer.hpp>

namespace trilith::inline v0::ops {

// As ops/host/transfer.hpp says.
template <class T>
void upload(const Emulated::Stream& stream, const T* host, Vector<T> device) {
  upload(stream.host(), host, device);
}
template <class T>
void download(const Emulated::Stream& stream, Vector<const T> device, T* host) {
  download(stream.host(), device, host);
}

}  // namespace trilith::inline v0::ops
