#!/usr/bin/python3
"""Compares random templates with the reference, over and over.

diff_templates.py --binary build/cpu/tests/engine_tests [--seed N] [--rounds N] [--count N]
Needs Debian's python3-jinja2 3.1.2. Exit 1 at the first round with a difference; its file is kept.
"""

import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import template_constructs
import template_oracle

# An address, a hash order or an integer of more than 64 bits says nothing about the template.
UNSTABLE = re.compile(r"0x[0-9a-f]{6}|\d{19}|object at|<function|<Macro|LoopContext", re.IGNORECASE)
# What the subset refuses; see engine/text/jinja/README.md.
MISSING = re.compile(r"\b(?:cycler|joiner|lipsum|nope|encode|format\(|attr\b)|\|\w+\.")

# What a template sets. A name of the request that is set is read as undefined by a macro or block
# before that place, unless the template has read it itself: no template wants that.
OWN = ["own", "mine"]


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)
        known = template_oracle.ENVIRONMENT.filters
        expressions = [text for line in template_constructs.EXPRESSIONS.strip().splitlines() for text in line.split(" ¦ ")]
        self.atoms = [text for text in expressions if len(text) < 24 and "big" not in text]
        self.names = [name for name in template_constructs.VARIABLES if name != "big"] + OWN
        filters = set(re.findall(r"\|(\w+(?:\([^()]*\))?)", " ".join(expressions)))
        self.filters = sorted(text for text in filters if text.split("(")[0] in known and "nope" not in text)
        self.tests = sorted(set(re.findall(r" is (\w+(?: \d+|\(\d+\))?)", " ".join(expressions))) - {"not", "nope"})
        self.methods = sorted(set(re.findall(r"\.(\w+\([^()]*\))", " ".join(expressions))))

    def expression(self, depth):
        pick = self.random.random()
        if depth == 0 or pick < 0.2:
            return self.random.choice(self.names) if self.random.random() < 0.6 else f"({self.random.choice(self.atoms)})"
        inner = self.expression(depth - 1)
        other = self.expression(depth - 1)
        return self.random.choice([
            lambda: f"{inner}|{self.random.choice(self.filters)}",
            lambda: f"({inner} {self.random.choice(['+', '-', '*', '/', '//', '%', '~', '==', '<', '>=', 'in', 'not in', 'and', 'or'])} {other})",
            lambda: f"({inner} is {self.random.choice(['', 'not '])}{self.random.choice(self.tests)})",
            lambda: f"{inner}.{self.random.choice(self.methods)}",
            lambda: f"{inner}[{self.random.choice(['0', '-1', '1:', '::-1', ':2', repr('a'), 'i', '-2:', '1:3', repr('role')])}]",
            lambda: f"{inner}.{self.random.choice(['a', 'b', 'x', 'role', 'items', 'content'])}",
            lambda: f"({inner} if {other} else {self.expression(depth - 1)})",
            lambda: f"[{inner}, {other}]",
            lambda: f"{{'k': {inner}, 'l': {other}}}",
            lambda: f"(not {inner})",
        ])()

    def space(self):
        return self.random.choice(["", "", " ", "\n", "  \n", "\n  ", "\t", "\n\n"])

    def tag(self, text):
        return "{%" + self.random.choice(["", "", "-", "+"]) + f" {text} " + self.random.choice(["", "", "-", "+"]) + "%}"

    def statements(self, depth):
        return "".join(self.space() + self.statement(depth) + self.space() for _ in range(self.random.randint(1, 3)))

    def statement(self, depth):
        value = self.expression(self.random.randint(0, 3))
        if depth == 0:
            return "{{" + self.random.choice(["", "-"]) + f" {value} " + self.random.choice(["", "-"]) + "}}"
        body = self.statements(depth - 1)
        return self.random.choice([
            lambda: "{{ " + value + " }}",
            lambda: f"text{self.space()}" + "{#" + self.random.choice(["", "-"]) + " note " + self.random.choice(["", "-"]) + "#}",
            lambda: self.tag(f"if {value}") + body + self.tag("else") + self.statements(depth - 1) + self.tag("endif"),
            lambda: self.tag(f"if {value}") + body + self.tag("endif"),
            lambda: self.tag(f"for x in {value}") + body + "{{ x }}{{ loop.index }}" + self.tag("endfor"),
            lambda: self.tag(f"for x in {value} if x") + body + self.tag("else") + "none" + self.tag("endfor"),
            lambda: self.tag(f"set {self.random.choice(OWN)} = {value}"),
            lambda: self.tag("set w") + body + self.tag("endset") + "{{ w }}",
            lambda: self.tag("macro m(a, b=1)") + body + "{{ a }}" + self.tag("endmacro") + "{{ m(" + value + ") }}",
            lambda: self.tag("filter upper") + body + self.tag("endfilter"),
            lambda: self.tag("set ns = namespace(v=0)") + self.tag("for x in l") + self.tag("set ns.v = ns.v + x") + body + self.tag("endfor") + "{{ ns.v }}",
            lambda: self.tag("generation") + body + self.tag("endgeneration"),
            lambda: self.tag("raw") + "{{ raw }}\n" + self.tag("endraw"),
        ])()

    def cases(self, count, longest=3000):
        found = []
        while len(found) < count:
            if self.random.random() < 0.5:
                source = "{{ " + self.expression(self.random.randint(1, 4)) + " }}"
            else:
                source = self.statements(self.random.randint(0, 2))
            if len(source) > longest or MISSING.search(source):
                continue
            output = template_oracle.render(source, template_constructs.VARIABLES)
            # Where the reference fails, so may a template that the subset refuses: nothing to learn.
            if output is not None and len(output) < 4 * longest and not UNSTABLE.search(output):
                found.append([source, output])
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--count", type=int, default=2000)
    arguments = parser.parse_args()
    for seed in range(arguments.seed, arguments.seed + arguments.rounds):
        cases = Generator(seed).cases(arguments.count)
        path = pathlib.Path(tempfile.gettempdir()) / f"template_cases_{seed}.json"
        path.write_text(json.dumps({"variables": template_constructs.json_variables(), "cases": cases}))
        command = [arguments.binary, "--gtest_filter=JinjaGolden.RandomTemplates*", "--gtest_brief=1"]
        result = subprocess.run(command, env={**os.environ, "THRESHER_TEMPLATE_CASES": str(path)}, capture_output=True, text=True, check=False)
        if result.returncode:
            sys.exit(f"{result.stdout[-6000:]}\nseed {seed}: {path}")
        path.unlink()
        print(f"seed {seed}: {len(cases)} templates render as the reference", flush=True)


if __name__ == "__main__":
    main()
