"""Finds the CUDA Toolkit. Where there is none the repository exists all the same, and says so."""

_BUILD = """\
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "cudart",
    linkopts = {cudart},
)

cc_library(
    name = "cublas_lt",
    linkopts = {cublas_lt},
)

# Headers only; they lie beside the runtime's.
cc_library(name = "nvtx")
"""

def _toolkit_folder(repository_ctx):
    candidates = [repository_ctx.os.environ.get("CUDA_HOME"), "/usr/local/cuda"]
    compiler = repository_ctx.which("nvcc")
    if compiler:
        candidates.insert(1, str(compiler.realpath.dirname.dirname))
    for folder in candidates:
        if folder and repository_ctx.path(folder + "/bin/nvcc").exists:
            return folder
    return None

def _system_cuda_impl(repository_ctx):
    folder = _toolkit_folder(repository_ctx)
    libraries = folder + "/lib64" if folder else None
    cudart = ["-L" + libraries, "-lcudart_static", "-ldl", "-lrt", "-pthread"] if folder else []
    cublas_lt = ["-L" + libraries, "-lcublasLt", "-Wl,-rpath," + libraries] if folder else []
    nvcc = folder + "/bin/nvcc" if folder else None
    build = _BUILD.format(cudart = repr(cudart), cublas_lt = repr(cublas_lt))
    repository_ctx.file("BUILD.bazel", build, executable = False)
    repository_ctx.file("toolkit.bzl", "NVCC = %s\n" % repr(nvcc), executable = False)

system_cuda = repository_rule(
    implementation = _system_cuda_impl,
    doc = """A repository whose `toolkit.bzl` has the path of nvcc (`NVCC`, None where no toolkit is found) and whose
    targets are the toolkit's libraries: `:cudart`, the runtime, `:cublas_lt` and `:nvtx`. Looks at CUDA_HOME, then for
    nvcc in PATH, then in /usr/local/cuda.""",
    environ = ["CUDA_HOME", "PATH"],
    local = True,
)
