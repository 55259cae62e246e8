// Every operation of GPUs: those made of kernels, and those of the toolkit's libraries.
#pragma once

#include <trilith/ops/cuda/adamw.hpp>
#include <trilith/ops/cuda/algorithms.cuh>
#include <trilith/ops/cuda/attention.hpp>
#include <trilith/ops/cuda/attention_backward.hpp>
#include <trilith/ops/cuda/attention_float.hpp>
#include <trilith/ops/cuda/cross_entropy.hpp>
#include <trilith/ops/cuda/elementwise.hpp>
#include <trilith/ops/cuda/embedding.hpp>
#include <trilith/ops/cuda/gelu.hpp>
#include <trilith/ops/cuda/gemm.cuh>
#include <trilith/ops/cuda/layer_norm.hpp>
#include <trilith/ops/cuda/rms_norm.hpp>
#include <trilith/ops/cuda/rotary.hpp>
#include <trilith/ops/cuda/swiglu.hpp>
#include <trilith/ops/cuda/transfer.cuh>
