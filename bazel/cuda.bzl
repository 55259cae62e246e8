"""CUDA sources, compiled by the nvcc that @trilith_cuda found.

    load("@trilith//bazel:cuda.bzl", "cuda_binary")

    cuda_binary(
        name = "main",
        srcs = ["main.cu", "host.cc"],
        deps = ["@trilith//:trilith"],
    )

Code is made for each architecture of --@trilith//bazel:cuda_architectures=80,90a (80, 90 and 100 if not given). Headers
come from `hdrs` and `deps`; a change of one compiles again what may include it. Where no toolkit is found all these
targets are incompatible: `bazel build //...` leaves them out, and a test is reported as skipped in one line.
"""

load("@trilith_cuda//:toolkit.bzl", "NVCC")
load("//bazel:words_flag.bzl", "WordsInfo")

# For target_compatible_with.
requires_nvcc = [] if NVCC else ["@platforms//:incompatible"]

_OPTIONS = ["-std=c++20", "--expt-relaxed-constexpr", "-O3", "-Xcompiler=-fopenmp"]

_ATTRS = {
    "hdrs": attr.label_list(allow_files = [".h", ".hpp", ".cuh"], doc = "Headers that lie beside the sources."),
    "copts": attr.string_list(doc = "More options for nvcc."),
    "deps": attr.label_list(providers = [CcInfo]),
    "architectures": attr.label(default = Label("//bazel:cuda_architectures"), providers = [WordsInfo]),
}

def _architectures(ctx):
    words = ctx.attr.architectures[WordsInfo].words
    for word in words or [""]:
        if not word.rstrip("af").isdigit():
            fail("%s: \"%s\" is no architecture: give a list such as 80,90a" % (ctx.attr.architectures.label, word))
    return words

def _run_nvcc(ctx, source, output, options):
    context = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]).compilation_context
    arguments = ctx.actions.args()
    arguments.add_all(_OPTIONS)
    arguments.add_all(options)
    arguments.add("-I", ctx.label.workspace_root or ".")
    arguments.add_all(context.quote_includes, before_each = "-I")
    arguments.add_all(context.includes, before_each = "-I")
    arguments.add_all(context.system_includes, before_each = "-isystem")
    arguments.add_all(context.defines, format_each = "-D%s")
    arguments.add_all(ctx.attr.copts)
    arguments.add(source)
    arguments.add("-o", output)
    ctx.actions.run(
        executable = NVCC,
        arguments = [arguments],
        inputs = depset([source] + ctx.files.hdrs, transitive = [context.headers]),
        outputs = [output],
        mnemonic = "CudaCompile",
        progress_message = "Compiling %s for CUDA" % source.short_path,
        use_default_shell_env = True,
    )

def _cuda_objects_impl(ctx):
    code = ["-gencode=arch=compute_%s,code=sm_%s" % (each, each) for each in _architectures(ctx)]
    objects = []
    for source in ctx.files.srcs:
        output = ctx.actions.declare_file("%s/%s.o" % (ctx.label.name, source.basename))
        _run_nvcc(ctx, source, output, ["-c", "-Xcompiler", "-fPIC"] + code)
        objects.append(output)
    return [DefaultInfo(files = depset(objects))]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = dict(_ATTRS, srcs = attr.label_list(allow_files = [".cu"], mandatory = True)),
)

def _cuda_assembly_impl(ctx):
    outputs = []
    for architecture in _architectures(ctx):
        name = "%s/sm_%s" % (ctx.label.name, architecture)
        ptx = ctx.actions.declare_file(name + ".ptx")
        _run_nvcc(ctx, ctx.file.src, ptx, ["-ptx", "-arch=sm_" + architecture])
        usage = ctx.actions.declare_file(name + ".usage")
        ctx.actions.run_shell(
            command = '"$1" -arch=sm_"$2" -Xptxas -v -cubin "$3" -o /dev/null >"$4" 2>&1 || { cat "$4"; exit 1; }',
            arguments = [NVCC, architecture, ptx.path, usage.path],
            inputs = [ptx],
            outputs = [usage],
            mnemonic = "CudaUsage",
            use_default_shell_env = True,
        )
        outputs += [ptx, usage]
    return [DefaultInfo(files = depset(outputs), runfiles = ctx.runfiles(files = outputs))]

_cuda_assembly = rule(
    implementation = _cuda_assembly_impl,
    attrs = dict(_ATTRS, src = attr.label(allow_single_file = [".cu"], mandatory = True)),
)

def cuda_assembly(name, src, **kwargs):
    """For each architecture NAME/sm_80.ptx, and NAME/sm_80.usage: ptxas's report on registers, memory and spills.

    Args:
      name: the target's name.
      src: one .cu file.
      **kwargs: hdrs, deps, copts (for nvcc), and what every rule has.
    """
    _cuda_assembly(name = name, src = src, target_compatible_with = requires_nvcc, **kwargs)

def _compiled(name, srcs, hdrs, deps, nvcc_copts, architectures, testonly):
    """Splits sources by their compiler: what a cc rule takes instead of `srcs`."""
    cuda = [source for source in srcs if source.endswith(".cu")]
    if not cuda:
        return srcs
    _cuda_objects(
        name = name + ".cuda",
        srcs = cuda,
        hdrs = hdrs,
        copts = nvcc_copts,
        architectures = architectures,
        deps = deps,
        testonly = testonly,
        target_compatible_with = requires_nvcc,
        visibility = ["//visibility:private"],
    )
    return [source for source in srcs if not source.endswith(".cu")] + [name + ".cuda"]

def cuda_library(name, srcs = [], hdrs = [], deps = [], nvcc_copts = [], architectures = None, **kwargs):
    """A cc_library whose sources may be .cu files as well.

    Args:
      name: the target's name.
      srcs: .cu files, for nvcc, and what cc_library takes.
      hdrs: as for cc_library.
      deps: as for cc_library; the CUDA runtime is linked without being named.
      nvcc_copts: more options for nvcc.
      architectures: a words_flag (words_flag.bzl) that says for which GPUs; cuda_architectures if not given.
      **kwargs: as for cc_library.
    """
    native.cc_library(
        name = name,
        srcs = _compiled(name, srcs, hdrs, deps, nvcc_copts, architectures, kwargs.get("testonly", False)),
        hdrs = hdrs,
        deps = deps + ["@trilith_cuda//:cudart"],
        target_compatible_with = requires_nvcc,
        **kwargs
    )

def _with_headers(name, srcs, deps, nvcc_copts, architectures, testonly):
    headers = [source for source in srcs if source.endswith(".hpp") or source.endswith(".cuh") or source.endswith(".h")]
    return _compiled(name, srcs, headers, deps, nvcc_copts, architectures, testonly)

def cuda_binary(name, srcs, deps = [], nvcc_copts = [], architectures = None, **kwargs):
    """A cc_binary whose sources may be .cu files as well. Arguments as for cuda_library and cc_binary."""
    native.cc_binary(
        name = name,
        srcs = _with_headers(name, srcs, deps, nvcc_copts, architectures, kwargs.get("testonly", False)),
        deps = deps + ["@trilith_cuda//:cudart"],
        target_compatible_with = requires_nvcc,
        **kwargs
    )

def cuda_test(name, srcs, deps = [], nvcc_copts = [], architectures = None, tags = [], size = "small", **kwargs):
    """A cc_test whose sources may be .cu files as well. Arguments as for cuda_library and cc_test."""
    native.cc_test(
        name = name,
        size = size,
        srcs = _with_headers(name, srcs, deps, nvcc_copts, architectures, True),
        tags = tags,
        deps = deps + ["@trilith_cuda//:cudart"],
        target_compatible_with = requires_nvcc,
        **kwargs
    )
