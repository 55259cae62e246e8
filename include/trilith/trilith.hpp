// Trilith: 3D-parallel transformer training as types. This header brings everything but CUDA.
#pragma once

#if __cplusplus < 202002L
#error "Trilith needs C++20: compile with -std=c++20"
#endif
#ifndef _OPENMP
#error "Trilith computes with OpenMP on the host: compile with -fopenmp"
#endif

#include <trilith/attention/context_attention.hpp>
#include <trilith/comm/thread_world.hpp>
#include <trilith/core/config.hpp>
#include <trilith/core/error.hpp>
#include <trilith/core/model_shape.hpp>
#include <trilith/core/precision.hpp>
#include <trilith/core/version.hpp>
#include <trilith/device/host.hpp>
#include <trilith/nn/gpt.hpp>
#include <trilith/nn/llama.hpp>
#include <trilith/ops/host.hpp>
#include <trilith/optim/adamw.hpp>
#include <trilith/optim/learning_rate.hpp>
#include <trilith/parallel/parallelism.hpp>
#include <trilith/schedule/dual_pipe_v.hpp>
#include <trilith/schedule/gpipe.hpp>
#include <trilith/schedule/interleaved.hpp>
#include <trilith/schedule/microbatches.hpp>
#include <trilith/schedule/one_f_one_b.hpp>
#include <trilith/schedule/zero_bubble_h1.hpp>
#include <trilith/schedule/zero_bubble_h2.hpp>
#include <trilith/schedule/zero_bubble_v.hpp>
#include <trilith/train/batch.hpp>
#include <trilith/train/trainer.hpp>
