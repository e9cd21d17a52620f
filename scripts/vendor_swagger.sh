#!/bin/sh
# Fetch the interactive API docs (swagger-ui-dist) from npm into the package, so that /docs works without internet.
# Usage: scripts/vendor_swagger.sh [version]   (default: the version already vendored)
set -eu
cd "$(dirname "$0")/.."
target=src/assay/api/vendor
version=${1:-$(cat "$target/VERSION")}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && npm pack --silent "swagger-ui-dist@$version" >/dev/null && tar -xzf ./*.tgz)
mkdir -p "$target"
for file in swagger-ui-bundle.js swagger-ui-bundle.js.LICENSE.txt swagger-ui.css LICENSE NOTICE; do
    cp "$work/package/$file" "$target/$file"
    chmod 644 "$target/$file"
done
printf '%s\n' "$version" > "$target/VERSION"
