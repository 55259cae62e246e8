"""Tests of compile errors."""

def compile_fail_test(name, src, sentence, defines = [], includes = [], data = [], size = "small", **kwargs):
    """Tests that a file does not compile, and that the first line with `error:` holds a sentence.

    Args:
      name: the test's name.
      src: the source file.
      sentence: what the first line with `error:` must contain, literally.
      defines: preprocessor macros, so that one file can hold several cases (`#ifdef TWO_SCHEDULES`).
      includes: folders to search before the library's own, from the repository's root.
      data: files that src includes besides the library's headers.
      size: as for any test.
      **kwargs: as for any test.
    """
    native.sh_test(
        name = name,
        size = size,
        srcs = ["//bazel:compile_fail.sh"],
        args = ["-I" + folder for folder in includes] + ["-D" + define for define in defines],
        data = data + [src, "//:headers"],
        env = {
            "SOURCE": "$(rootpath %s)" % src,
            "SENTENCE": sentence.replace("$", "$$"),
        },
        **kwargs
    )
