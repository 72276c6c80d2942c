#!/bin/bash
# English text of three domains from Debian packages, for calibration and evaluation:
# DIR/{prose,technical,code}.txt and, from other parts of the same sources, DIR/*.held_out.txt.
# Needs apt-get (with an index), dpkg-deb and python3; installs nothing.
# usage: deploy/scripts/fetch_texts.sh [DIR]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
target=${1:-build/texts}
mkdir -p "$target"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
packages=(debian-history dict-jargon debian-policy perl-doc libpython3.11-stdlib)
# apt's sandbox user cannot write here, and says so on stderr although the download succeeds.
(cd "$work" && apt-get download -qq "${packages[@]}" 2>"$work/errors") || { cat "$work/errors" >&2; exit 1; }
for package in "$work"/*.deb; do dpkg-deb -x "$package" "$work/root"; done
python3 - "$work/root" "$target" <<'PYTHON'
import gzip, html.parser, pathlib, re, sys

root, target = map(pathlib.Path, sys.argv[1:])
LIMIT = 3_000_000  # characters of a domain


class Text(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.parts, self.skipped = [], 0

    def handle_starttag(self, tag, attributes):
        self.skipped += tag in ("script", "style", "head")

    def handle_endtag(self, tag):
        self.skipped -= tag in ("script", "style", "head")

    def handle_data(self, data):
        if not self.skipped:
            self.parts.append(data)


def read(path):
    data = path.read_bytes()
    if path.suffix in (".gz", ".dz"):
        data = gzip.decompress(data)
    text = data.decode("utf-8", errors="replace")
    if path.suffix == ".html":
        parser = Text()
        parser.feed(text)
        text = re.sub(r"\n\s*\n", "\n\n", re.sub(r"\n[ \t]+", "\n", "".join(parser.parts)))
    return re.sub(r"\n{3,}", "\n\n", text)


def files(*patterns):
    return [path for pattern in patterns for path in sorted(root.glob(pattern)) if path.is_file()]


domains = {
    "prose": files("usr/share/doc/debian-history/docs/*.en.html", "usr/share/dictd/jargon.dict.dz"),
    "technical": files("usr/share/doc/debian-policy/policy.txt.gz", "usr/share/perl/*/pod/perl[f-s]*.pod"),
    "code": [f for f in files("usr/lib/python3.11/**/*.py") if f.name not in ("topics.py",)],
}
for name, paths in domains.items():
    if not paths:
        sys.exit(f"fetch_texts: no file of the domain {name} in the packages")
    # Files take turns, and a large one is cut in the middle, so that both halves speak alike.
    halves = ["", ""]
    for index, path in enumerate(paths):
        text = read(path)
        if len(text) > LIMIT // 4:
            middle = text.find("\n", len(text) // 2) + 1
            parts = [text[:middle], text[middle:]]
        else:
            parts = [text, ""] if index % 2 == 0 else ["", text]
        for half in (0, 1):
            room = LIMIT // 2 - len(halves[half])
            halves[half] += parts[half][: max(room, 0)]
    for half, suffix in ((0, ""), (1, ".held_out")):
        path = target / f"{name}{suffix}.txt"
        path.write_text(halves[half], encoding="utf-8")
        print(f"{path}: {path.stat().st_size / 1e6:.2f} MB")
PYTHON
