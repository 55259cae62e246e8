// Device<Emulated> with its operations, beside what trilith.hpp brings. Needs Boost.Context to link
// (`//bazel/system:boost_context`).
#pragma once

#include <trilith/device/emulated.hpp>
#include <trilith/ops/emulated.hpp>
