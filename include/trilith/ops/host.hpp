// Every operation of the host device.
#pragma once

#include <trilith/ops/host/adamw.hpp>
#include <trilith/ops/host/attention.hpp>
#include <trilith/ops/host/cross_entropy.hpp>
#include <trilith/ops/host/elementwise.hpp>
#include <trilith/ops/host/embedding.hpp>
#include <trilith/ops/host/gelu.hpp>
#include <trilith/ops/host/gemm.hpp>
#include <trilith/ops/host/layer_norm.hpp>
#include <trilith/ops/host/reduce.hpp>
#include <trilith/ops/host/rms_norm.hpp>
#include <trilith/ops/host/rotary.hpp>
#include <trilith/ops/host/swiglu.hpp>
#include <trilith/ops/host/transfer.hpp>
