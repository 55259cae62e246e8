"""Header-only libraries, and sources that include their headers one by one or all together."""

def _header_library_impl(ctx):
    root = ctx.label.workspace_root
    folder = root + "/" + ctx.attr.folder if root else ctx.attr.folder
    folders = depset([folder])

    # Users of the library see none of its warnings; its own build sees them all.
    compilation_context = cc_common.create_compilation_context(
        headers = depset(ctx.files.hdrs),
        includes = depset() if root else folders,
        system_includes = folders if root else depset(),
    )
    return [
        DefaultInfo(files = depset(ctx.files.hdrs), runfiles = ctx.runfiles(files = ctx.files.hdrs)),
        CcInfo(compilation_context = compilation_context),
    ]

header_library = rule(
    implementation = _header_library_impl,
    doc = "Headers, and the folder that dependents search for them. Serves as `deps` and as `data`.",
    attrs = {
        "hdrs": attr.label_list(allow_files = [".h", ".hpp", ".cuh"], mandatory = True),
        "folder": attr.string(mandatory = True),
    },
)

def _include_path(header, folder):
    """The header as #include spells it, or None where only nvcc compiles it."""
    path = header.short_path
    if path.endswith(".cuh"):
        return None
    if not path.startswith(folder + "/"):
        fail("%s: expected below %s/" % (path, folder))
    return path[len(folder) + 1:]

def _header_sources_impl(ctx):
    paths = [_include_path(header, ctx.attr.folder) for header in ctx.files.headers]
    paths = sorted([path for path in paths if path])
    if not paths:
        fail("%s: no headers found" % ctx.label)
    if ctx.attr.together:
        includes = "".join(["#include <%s>\n" % path for path in paths])
        contents = {"first.cc": includes, "second.cc": includes}
    else:
        contents = {
            path.replace("/", ".") + ".cc": "#include <%s>\n#include <%s>\n" % (path, path)
            for path in paths
        }
    sources = []
    for name, content in contents.items():
        source = ctx.actions.declare_file(ctx.label.name + "/" + name)
        ctx.actions.write(source, content)
        sources.append(source)
    return [DefaultInfo(files = depset(sources))]

header_sources = rule(
    implementation = _header_sources_impl,
    doc = """Writes sources for a cc_test or cc_library: one for each header, which includes it twice, or, with
    `together`, two that each include every header. Headers that need nvcc are left out.""",
    attrs = {
        "headers": attr.label_list(allow_files = True, mandatory = True),
        "folder": attr.string(default = "include"),
        "together": attr.bool(default = False),
    },
)
