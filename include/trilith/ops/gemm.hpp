// How a matrix product reads its factors, on any device.
#pragma once

namespace trilith::inline v0::ops {

enum class Transpose : bool { no, yes };

}  // namespace trilith::inline v0::ops
