"""Finds the system's MPI."""

_BUILD = """\
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "mpi",
    hdrs = glob(["include/**/*.h"]),
    includes = ["include"],
    # Without Open MPI's deprecated C++ bindings.
    defines = ["OMPI_SKIP_MPICXX=1"],
    linkopts = {linkopts},
)
"""

def _words(result):
    return [word for word in result.stdout.strip().split(" ") if word]

def _system_mpi_impl(repository_ctx):
    compiler = repository_ctx.which("mpicc")
    if not compiler:
        fail("MPI: no mpicc found; install Debian's libopenmpi-dev")
    include = None
    for folder in _words(repository_ctx.execute([compiler, "--showme:incdirs"])):
        if repository_ctx.path(folder).get_child("mpi.h").exists:
            include = folder
            break
    if not include:
        fail("MPI: mpicc names no folder that holds mpi.h; install Debian's libopenmpi-dev")
    repository_ctx.symlink(include, "include")
    linkopts = ["-L" + folder for folder in _words(repository_ctx.execute([compiler, "--showme:libdirs"]))]
    repository_ctx.file("BUILD.bazel", _BUILD.format(linkopts = repr(linkopts + ["-lmpi"])), executable = False)

system_mpi = repository_rule(
    implementation = _system_mpi_impl,
    doc = "A repository whose target `:mpi` is the system's Open MPI.",
    environ = ["PATH"],
    local = True,
)
