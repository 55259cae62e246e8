"""Tests under a sanitizer, in every test run. (--config=asan, tsan or ubsan puts the whole run under one.)"""

_COPTS = ["-O1", "-g", "-fno-omit-frame-pointer", "-UNDEBUG", "-U_FORTIFY_SOURCE"]

_ENV = {
    # Without detect_stack_use_after_return: g++ 12 then moves locals to memory where it misaligns AVX-512 vectors.
    "address": {"ASAN_OPTIONS": "detect_leaks=1"},
    # libgomp is not built for tsan, which takes its barriers for races: one OpenMP thread per rank.
    "thread": {
        "OMP_NUM_THREADS": "1",
        "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
    },
    "undefined": {"UBSAN_OPTIONS": "print_stacktrace=1"},
}

def sanitized_cc_test(name, sanitizer, copts = [], linkopts = [], env = {}, tags = [], size = "small", **kwargs):
    """A cc_test compiled and linked with a sanitizer, which ends it with an error at the first report.

    Only the test's own sources are instrumented, which is all there is as long as its libraries are header-only.

    Args:
      name: the test's name.
      sanitizer: "address", "thread" or "undefined".
      copts: as for cc_test.
      linkopts: as for cc_test.
      env: as for cc_test.
      tags: as for cc_test.
      size: as for cc_test.
      **kwargs: as for cc_test.
    """
    if sanitizer not in _ENV:
        fail("sanitized_cc_test: sanitizer is \"%s\", must be one of: %s" % (sanitizer, ", ".join(_ENV.keys())))
    flag = "-fsanitize=" + sanitizer
    native.cc_test(
        name = name,
        size = size,
        copts = _COPTS + [flag, "-fno-sanitize-recover=all"] + copts,
        linkopts = [flag] + linkopts,
        env = dict(_ENV[sanitizer], **env),
        tags = tags + ["sanitized"],
        **kwargs
    )
