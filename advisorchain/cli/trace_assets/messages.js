// Captured content as a conversation.

const LONG = 20_000; // characters of a text that are shown at once

const PIECE = 8_000; // a longer text is laid out in pieces, when they are seen

// The end of the piece that begins there: after a line, else after a word, never inside a character.
function pieceEnd(text, begin) {
  const end = begin + PIECE;
  if (end >= text.length) return text.length;
  for (const break_ of ["\n", " "]) {
    const at = text.lastIndexOf(break_, end - 1);
    if (at > begin + PIECE / 2) return at + 1;
  }
  const code = text.charCodeAt(end);
  return code >= 0xdc00 && code <= 0xdfff ? end - 1 : end;
}

function fill(block, text) {
  const pieces = [];
  for (let begin = 0, end; begin < text.length; begin = end) {
    end = pieceEnd(text, begin);
    pieces.push(make("span", "piece", text.slice(begin, end)));
  }
  block.replaceChildren(...(pieces.length > 1 ? pieces : [text]));
}

function textBlock(className, text) {
  const whole = textOf(text);
  const block = foreign("pre", className, null);
  fill(block, shown(whole.slice(0, LONG)));
  if (whole.length <= LONG) return block;
  const both = make("div");
  const more = make("button", "more", `Show all ${whole.length.toLocaleString("en")} characters`);
  more.type = "button";
  more.addEventListener("click", () => {
    fill(block, shown(whole));
    more.remove();
  });
  both.append(block, more);
  return both;
}

function partElement(part) {
  if (typeof part !== "object" || part === null) return textBlock("said", pretty(part));
  const { type, ...rest } = part;
  if (type === "text" && "content" in part) return textBlock("said", pretty(part.content));
  if (type === "reasoning" && "content" in part) return textBlock("said reasoning", pretty(part.content));
  if (type === "tool_call" || type === "tool_call_response") {
    const isCall = type === "tool_call";
    const box = make("div", "tool-part");
    const head = make("div", "tool-part-head", isCall ? "→ " : "← ");
    head.append(foreign("strong", "", shownLine(isCall ? part.name ?? "?" : "result", 200)));
    if (part.id !== undefined) head.append(" ", foreign("code", "", shownLine(part.id, 100)));
    const value = isCall ? part.arguments : part.response ?? part.result;
    box.append(head, textBlock("said value", pretty(parsed(value) ?? value ?? "")));
    return box;
  }
  const box = make("div", "tool-part");
  box.append(make("div", "tool-part-head", shownLine(type ?? "part", 100)), textBlock("said value", pretty(rest)));
  return box;
}

function messageElement(message) {
  const isMessage = typeof message === "object" && message !== null;
  const role = isMessage && typeof message.role === "string" ? message.role : "message";
  const box = make("div", "message");
  if (["system", "user", "assistant", "tool"].includes(role)) box.classList.add(role);
  const head = make("div", "role", shownLine(role, 40));
  if (isMessage && message.finish_reason) head.append(" · ", shownLine(message.finish_reason, 60));
  box.append(head);
  const parts = isMessage ? message.parts ?? message.content ?? [] : [message];
  for (const part of Array.isArray(parts) ? parts : [parts]) box.append(partElement(part));
  return box;
}

// The conversation of a span, or null if none was captured.
function conversation(span) {
  const box = make("div", "conversation");
  const take = (name, asMessages) => {
    if (!span.attributes.has(name)) return;
    const raw = span.attributes.get(name);
    const value = parsed(raw);
    const messages = Array.isArray(value) ? asMessages(value) : null;
    box.append(...(messages ?? [{ role: name.split(".")[1].replace("_", " "), parts: [raw] }]).map(messageElement));
  };
  take("gen_ai.system_instructions", (parts) => [{ role: "system", parts }]);
  take("gen_ai.input.messages", (messages) => messages);
  take("gen_ai.output.messages", (messages) => messages);
  return box.childElementCount ? box : null;
}
