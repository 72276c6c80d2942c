#!/usr/bin/python3
"""Writes tests/golden/templates/*.json: what the reference makes of templates.

Needs Debian's python3-jinja2 3.1.2. constructs.json: a table of small templates; random.json: random ones. <name>.json, one for
each <name>.jinja there: prompts for random chats.
"""

import json
import pathlib
import random

import diff_templates
import template_chats
import template_constructs
import template_oracle

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "templates"
CASES = 16


def write(name, golden):
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in golden.pop("cases"))
    head = json.dumps(golden, ensure_ascii=False)[:-1]
    (FOLDER / f"{name}.json").write_text(f'{head}, "cases": [\n{lines}\n]}}\n')


def main():
    variables = template_constructs.VARIABLES
    cases = [[source, template_oracle.render(source, variables)] for source in template_constructs.constructs()]
    write("constructs", {"variables": template_constructs.json_variables(), "cases": cases})
    print(f"constructs: {len(cases)}, {sum(case[1] is None for case in cases)} of them errors")
    cases = diff_templates.Generator(0).cases(250, 300)
    write("random", {"variables": template_constructs.json_variables(), "cases": cases})
    for path in sorted(FOLDER.glob("*.jinja")):
        bos, eos = template_chats.TOKENS.get(path.stem, ("<s>", "</s>"))
        cases = []
        for case in template_chats.chats(random.Random(path.stem), path.stem, CASES):
            case["prompt"] = template_oracle.render_chat(path.read_text(), case, bos, eos)
            cases.append(case)
        write(path.stem, {"bos_token": bos, "eos_token": eos, "cases": cases})
        print(f"{path.stem}: {sum(case['prompt'] is None for case in cases)} of {CASES} are errors")


if __name__ == "__main__":
    main()
