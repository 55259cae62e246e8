"""Build settings that choose the layout of an example, as macros for the compiler.

    layout_flag(name = "layout", build_setting_default = "2x2x2")
    schedule_flag(name = "schedule", build_setting_default = "OneFOneB")
    attention_flag(name = "attention", build_setting_default = "")
    cc_binary(name = "train_gpt", deps = [":layout", ":schedule", ":attention", ...], ...)

    bazel run //examples:train_gpt --//examples:layout=4x1x2 --//examples:schedule=GPipe
    bazel run //examples:train_gpt --//examples:layout=1x2x1x2 --//examples:attention=Ring,Zigzag
"""

def _defines(values):
    return [
        CcInfo(compilation_context = cc_common.create_compilation_context(
            defines = depset(["TRAIN_GPT_%s=%s" % (name, value) for name, value in values.items()]),
        )),
    ]

def _layout_flag_impl(ctx):
    value = ctx.build_setting_value
    counts = value.split("x")
    well_formed = len(counts) in [3, 4]
    for count in counts:
        if not count.isdigit() or int(count) < 1:
            well_formed = False
    if not well_formed:
        fail("--%s=%s: a layout is TPxPPxDP or TPxPPxDPxCP in whole numbers from 1 on, such as 2x2x2" % (ctx.label, value))
    tp, pp, dp, cp = (counts + ["1"])[:4]
    return _defines({"TP": tp, "PP": pp, "DP": dp, "CP": cp})

layout_flag = rule(
    implementation = _layout_flag_impl,
    doc = "TPxPPxDP or TPxPPxDPxCP; dependents see TRAIN_GPT_TP, TRAIN_GPT_PP, TRAIN_GPT_DP and TRAIN_GPT_CP.",
    build_setting = config.string(flag = True),
)

_SCHEDULES = ["GPipe", "OneFOneB", "Interleaved", "ZeroBubbleH1", "ZeroBubbleH2", "ZeroBubbleV", "DualPipeV"]

def _schedule_flag_impl(ctx):
    value = ctx.build_setting_value
    name = value.split("<")[0]
    if name not in _SCHEDULES or (name == "Interleaved") != value.endswith(">"):
        fail("--%s=%s: choose one of %s; Interleaved with its chunks, as Interleaved<2>" % (ctx.label, value, ", ".join(_SCHEDULES)))
    return _defines({"SCHEDULE": value})

schedule_flag = rule(
    implementation = _schedule_flag_impl,
    doc = "The name of one of the library's schedules; dependents see it as TRAIN_GPT_SCHEDULE.",
    build_setting = config.string(flag = True),
)

_KINDS = ["Local", "Ring", "Ulysses", "AllGatherKv", "Hybrid"]
_SPLITS = ["Contiguous", "Zigzag", "Striped"]

def _attention_flag_impl(ctx):
    value = ctx.build_setting_value
    if not value:
        return _defines({})
    parts = value.split(",")
    kind = parts[0].split("<")[0]
    if kind not in _KINDS or (kind == "Hybrid") != parts[0].endswith(">") or len(parts) > 2 or (len(parts) == 2 and parts[1] not in _SPLITS):
        fail("--%s=%s: choose one of %s, Hybrid with its ranks, as Hybrid<2>; a split may follow, %s, as Ring,Zigzag" %
             (ctx.label, value, ", ".join(_KINDS), " or ".join(_SPLITS)))
    return _defines({"ATTENTION": value})

attention_flag = rule(
    implementation = _attention_flag_impl,
    doc = "What Attention<…> stands for, such as Ring,Zigzag; dependents see it as TRAIN_GPT_ATTENTION, undefined where the flag is empty.",
    build_setting = config.string(flag = True),
)
