"""The reference for chat templates: Debian's python3-jinja2, set up as Hugging Face documents it.

A sandboxed, immutable environment with trim_blocks, lstrip_blocks, break and continue; tojson is
json.dumps without escapes for HTML; raise_exception, strftime_now and the generation tag.
"""

import copy
import datetime
import json
import warnings

import jinja2
import jinja2.ext
import jinja2.sandbox

# The reference compiles templates to Python, whose compiler has opinions on odd ones.
warnings.simplefilter("ignore", SyntaxWarning)
NOW = datetime.datetime(2024, 7, 26, 9, 5, 3, 42)
MARK = "CONTINUE_FINAL_MESSAGE_TAG "


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_pass_on"), [], [], body).set_lineno(line)

    def _pass_on(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def make_environment():
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: (
        json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    )
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: NOW.strftime(form)
    return environment


ENVIRONMENT = make_environment()


def render(source, variables):
    """The text, or None where the reference fails."""
    try:
        text = ENVIRONMENT.from_string(source).render(**copy.deepcopy(variables))
        text.encode()
        return text
    except Exception:
        return None


def prepared(message):
    """A message as a template gets it: see engine/text/chat_messages.h."""
    message = {key: value for key, value in message.items() if value is not None}
    names = ("reasoning_content", "thinking", "reasoning")
    reasoning = next((message[name] for name in names if name in message), None)
    if reasoning is not None:
        message = {"thinking": reasoning, **message, "reasoning_content": reasoning}
    for call in message.get("tool_calls", []):
        if isinstance(call.get("function", {}).get("arguments"), str):
            try:
                value = json.loads(call["function"]["arguments"])
            except ValueError:
                continue
            if isinstance(value, dict):
                call["function"]["arguments"] = value
    return message


def render_chat(source, case, bos_token, eos_token):
    """The prompt of a case, or None where the reference fails."""
    messages = [prepared(json.loads(json.dumps(message))) for message in case["messages"]]
    final = None
    if case.get("continue_final_message"):
        final = messages[-1]["content"]
        messages[-1]["content"] = final + MARK
    variables = {
        "messages": messages,
        "tools": case.get("tools") or None,
        "documents": None,
        "bos_token": bos_token,
        "eos_token": eos_token,
        "add_generation_prompt": case.get("add_generation_prompt", True),
        **case.get("extra", {}),
    }
    text = render(source, variables)
    if text is None or final is None:
        return text
    if final.strip() not in text or MARK.strip() not in text:
        return None
    place = text.rindex(MARK.strip())
    if text[place : place + len(MARK)] == MARK:
        return text[:place]
    return text[:place].rstrip()
