#!/usr/bin/env bash
# Builds and runs test/consumer/project as a user would who has it beside a checkout of trilith, with an output root of
# its own and nothing of this repository's .bazelrc.
set -euo pipefail

folder=$(mktemp -d "$TEST_TMPDIR/consumer.XXXXXX")
mkdir "$folder/trilith"
cp -RL BUILD.bazel WORKSPACE bazel include "$folder/trilith"
cp -RL test/consumer/project "$folder/project"

cd "$folder/project"
bazel() {
  env -u TEST_TMPDIR HOME="$folder" /usr/bin/bazel-4 --batch --nohome_rc \
    --output_user_root="$folder/output" "$@"
}
bazel build --noshow_progress //:main
bazel-bin/main
chmod -R u+w "$folder"
