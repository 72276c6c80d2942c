"""Random chats for chat templates: plain turns, tools, reasoning, odd text, wrong orders."""

TOKENS = {
    "chatml": ("", "<|im_end|>"),
    "deepseek": ("<|begin|>", "<|end|>"),
    "llama31": ("<|begin_of_text|>", "<|eot_id|>"),
    "qwen25": ("", "<|im_end|>"),
    "qwen3": ("", "<|im_end|>"),
    "smollm2": ("<|im_start|>", "<|im_end|>"),
}

WORDS = (
    "hello", "the cat", "42", "\n", "  ", "{{ x }}", "{% if %}", "<|im_end|>", "é", "🙂", "日本語", "\"q\"", "it's", "\\n", "&<>",
    "</think>", "<think>", "```py\nx = 1\n```", "\t", "end.", "e\u0301", "[INST]", "a, b",
)
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "Weather of a \"city\" — now.", "parameters": {
        "type": "object", "properties": {"city": {"type": "string", "description": "Its name"}, "days": {"type": "integer"}},
        "required": ["city"]}}},
    {"type": "function", "function": {"name": "search", "description": "Suche & <find>", "parameters": {
        "type": "object", "properties": {"q": {"type": ["string", "null"], "enum": ["a", None]}}, "required": []}}},
]


def text(random, low=0):
    return " ".join(random.choice(WORDS) for _ in range(random.randint(low, 6)))


def call(random, index):
    name = random.choice(TOOLS)["function"]["name"]
    arguments = {"city": text(random, 1), "days": random.randint(0, 9)} if name == "get_weather" else {"q": None, "f": [1.5, True]}
    return {"id": f"call{index:05d}", "type": "function", "function": {"name": name, "arguments": arguments}}


def turns(random, with_tools, thinks):
    messages = []
    if random.random() < 0.5:
        messages.append({"role": "system", "content": text(random)})
    for turn in range(random.randint(1, 4)):
        messages.append({"role": "user", "content": text(random)})
        if with_tools and random.random() < 0.6:
            calls = [call(random, 10 * turn + index) for index in range(random.randint(1, 2))]
            message = {"role": "assistant", "content": random.choice(["", None, text(random)]), "tool_calls": calls}
            if random.random() < 0.3:
                message["tool_calls"][0]["function"]["arguments"] = "{\"city\": \"Köln\", \"n\": 1.0}"
            messages.append(message)
            for one in calls:
                messages.append({"role": "tool", "name": one["function"]["name"], "tool_call_id": one["id"], "content": text(random)})
        if turn and random.random() < 0.3:
            continue
        answer = {"role": "assistant", "content": text(random)}
        if thinks and random.random() < 0.5:
            answer["reasoning_content"] = text(random, 1)
        elif thinks and random.random() < 0.5:
            answer["content"] = f"<think>\n{text(random, 1)}\n</think>\n\n{text(random)}"
        messages.append(answer)
    if messages[-1]["role"] == "assistant" and random.random() < 0.6:
        messages.append({"role": "user", "content": text(random, 1)})
    return messages


def chats(random, name, count):
    for index in range(count):
        with_tools = name not in ("smollm2", "llama2", "chatml") and random.random() < 0.5
        case = {"messages": turns(random, with_tools, name in ("qwen3", "deepseek"))}
        if with_tools:
            case["tools"] = TOOLS[: random.randint(1, 2)]
        case["add_generation_prompt"] = random.random() < 0.7
        last = case["messages"][-1]
        if last["role"] == "assistant" and last.get("content") and "tool_calls" not in last and random.random() < 0.6:
            case["add_generation_prompt"] = False
            case["continue_final_message"] = True
        if name == "qwen3" and random.random() < 0.4:
            case["extra"] = {"enable_thinking": random.random() < 0.5}
        if name == "llama31" and random.random() < 0.4:
            case["extra"] = {"date_string": "1 Jan 2025", "tools_in_user_message": random.random() < 0.5}
        if index % 10 == 9:
            random.shuffle(case["messages"])
            case.pop("continue_final_message", None)
        yield case
