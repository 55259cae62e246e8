"""A setting that holds a list of words, given as --//path:name=80,90a."""

WordsInfo = provider(doc = "The words of a setting.", fields = ["words"])

def _words_flag_impl(ctx):
    return [WordsInfo(words = ctx.build_setting_value)]

words_flag = rule(
    implementation = _words_flag_impl,
    doc = "A list of words as a command-line flag.",
    build_setting = config.string_list(flag = True),
)
