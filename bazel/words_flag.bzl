"""A setting that holds a list of words, given as --//path:name=80,90a."""

WordsInfo = provider(doc = "The words of a setting.", fields = ["words"])

words_flag = rule(
    implementation = lambda ctx: [WordsInfo(words = ctx.build_setting_value)],
    doc = "A list of words as a command-line flag.",
    build_setting = config.string_list(flag = True),
)
