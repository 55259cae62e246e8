"""The external repositories of a build with Debian's Bazel, none of which needs a network.

Bazel's built-in definitions of `rules_cc`, `rules_java`, `platforms` and `remote_coverage_tools` would be downloaded;
a repository defined earlier under the same name takes their place. So call this first in a WORKSPACE:

    load("@trilith//bazel:repositories.bzl", "trilith_repositories")

    trilith_repositories()
"""

load("//bazel/system:cuda.bzl", "system_cuda")
load("//bazel/system:mpi.bzl", "system_mpi")

_RULES_CC_DEFS = """\
cc_binary = native.cc_binary
cc_import = native.cc_import
cc_library = native.cc_library
cc_proto_library = native.cc_proto_library
cc_test = native.cc_test
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite
objc_import = native.objc_import
objc_library = native.objc_library
"""

_RULES_CC_FIND_CC_TOOLCHAIN = """\
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", _find_cpp_toolchain = "find_cpp_toolchain")

find_cc_toolchain = _find_cpp_toolchain
"""

_COVERAGE_BUILD = """\
package(default_visibility = ["//visibility:public"])

filegroup(name = "coverage_report_generator")

filegroup(name = "lcov_merger")
"""

def _written_repository_impl(repository_ctx):
    for path, content in repository_ctx.attr.files.items():
        repository_ctx.file(path, content, executable = False)

_written_repository = repository_rule(
    implementation = _written_repository_impl,
    doc = "A repository of the files given: path to content.",
    attrs = {"files": attr.string_dict(mandatory = True)},
)

def _unless_defined(rule, name, **kwargs):
    if name not in native.existing_rules():
        rule(name = name, **kwargs)

def trilith_repositories():
    """Defines what Bazel itself and trilith need, leaving alone what the WORKSPACE has defined already."""
    _unless_defined(
        _written_repository,
        name = "rules_cc",
        files = {
            "BUILD.bazel": "",
            "cc/BUILD.bazel": "",
            "cc/defs.bzl": _RULES_CC_DEFS,
            "cc/find_cc_toolchain.bzl": _RULES_CC_FIND_CC_TOOLCHAIN,
        },
    )
    _unless_defined(
        _written_repository,
        name = "remote_coverage_tools",
        files = {"BUILD.bazel": _COVERAGE_BUILD},
    )
    _unless_defined(native.local_repository, name = "rules_java", path = "/usr/share/bazel/rules/java")
    _unless_defined(native.local_repository, name = "platforms", path = "/usr/share/bazel/tools/platforms")
    _unless_defined(system_mpi, name = "trilith_mpi")
    _unless_defined(system_cuda, name = "trilith_cuda")
