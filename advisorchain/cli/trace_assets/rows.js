// One row of the timeline: name, bar, duration, tokens.

const ROOM = 140; // pixels that a name keeps, however deep it stands
const LABEL = 36; // pixels of a time on the axis
const PREFIXES = { agent: "invoke_agent ", advisor: "advisor ", chat: "chat ", tool: "execute_tool ", mcp: "execute_tool ", memory: "retrieval " };

function nameCell(row, hits) {
  const { node, level } = row;
  const cell = make("div", "cell-name");
  cell.setAttribute("role", "gridcell");
  cell.style.paddingInlineStart = `min(${8 + (level - 1) * 14}px, 100% - ${ROOM}px)`;
  const twist = make("span", `twist${node.children.length ? (row.isOpen ? " open" : " closed") : ""}`);
  twist.setAttribute("aria-hidden", "true");
  cell.append(twist, make("i", `dot ${node.kind}`));
  const label = foreign("span", `label${hits?.has(node) ? " hit" : ""}`, null);
  const prefix = PREFIXES[node.kind];
  if (prefix && node.name.startsWith(prefix) && node.name.length > prefix.length) {
    label.append(make("span", `prefix of-${node.kind}`, prefix), make("bdi", "", shownLine(node.name.slice(prefix.length))));
  } else label.append(make("bdi", "", shownLine(node.name)));
  cell.title = shownLine(node.name);
  cell.append(label);
  if (node.isLoop) cell.append(badge("loop", "↻ loop", "the tool loop"));
  if (node.shortCircuited) cell.append(badge("short", "⤺ short-circuit", "answered without going further inside"));
  if (node.outcome === "cancelled") cell.append(badge("short", "cancelled"));
  if (node.retries) cell.append(badge("retry", `⟳ ${node.retries}`, "called the rest of the chain again"));
  if (node.open) cell.append(badge("short", "not over"));
  if (node.failed && !node.group) {
    const type = node.errorType === undefined ? "" : shownLine(node.errorType, 60);
    const error = badge("error", "✕", type || "ended with an error");
    error.append(make("span", "error-type", type && ` ${type}`));
    cell.append(error);
  }
  return cell;
}

function barCell(node, [low, high]) {
  const cell = make("div", "cell-bars");
  cell.setAttribute("role", "gridcell");
  const share = (time) => ((time - low) / (high - low)) * 100;
  const from = Math.max(share(node.start), 0);
  const to = Math.min(share(node.last), 100);
  const track = make("div", "track");
  cell.append(track);
  if (to < 0 || from > 100) return cell;
  const bar = make("div", `bar ${node.kind}${node.failed && !node.group ? " failed" : ""}${node.shortCircuited ? " short" : ""}${node.open ? " open" : ""}`);
  bar.style.left = `${from}%`;
  bar.style.width = `${Math.max(to - from, 0)}%`;
  track.append(bar);
  for (const event of node.events.slice(0, 200)) {
    const at = share(event.time);
    if (at < 0 || at > 100) continue;
    const isRetry = RETRY_EVENTS.includes(event.name);
    const mark = make("span", `mark${isRetry ? " retry" : event.name === "exception" ? " exception" : ""}`);
    mark.style.left = `${at}%`;
    mark.title = `${shownLine(event.name)} at +${duration(event.time)}`;
    track.append(mark);
  }
  return cell;
}

function rowElement(row, index, view) {
  const { node } = row;
  const element = make("div", `row ${node.kind}${node.failed && !node.group ? " failed" : ""}${index === view.selected ? " selected" : ""}`);
  element.id = `row-${index}`;
  element.setAttribute("role", "row");
  element.setAttribute("aria-level", String(row.level));
  element.setAttribute("aria-rowindex", String(index + 1));
  element.setAttribute("aria-selected", String(index === view.selected));
  if (node.children.length) element.setAttribute("aria-expanded", String(Boolean(row.isOpen)));
  element.style.top = `${index * view.height}px`;
  const time = make("div", "cell-time", node.open ? "…" : duration(node.last - node.start));
  const { tokens } = node;
  const spent = make("div", "cell-tokens", tokens ? `${count(tokens.input ?? NaN)} → ${count(tokens.output ?? NaN)}` : "");
  if (tokens) spent.title = "input → output tokens";
  for (const cell of [time, spent]) cell.setAttribute("role", "gridcell");
  element.append(nameCell(row, view.hits), barCell(node, view.window), time, spent);
  return element;
}

// Steps of 1, 2 or 5 that give about so many ticks.
function ticks([low, high], wanted) {
  const rough = (high - low) / Math.max(wanted, 1);
  const base = 10 ** Math.floor(Math.log10(rough));
  const step = base * ([1, 2, 5].find((factor) => base * factor >= rough) ?? 10);
  const times = [];
  for (let time = Math.ceil(low / step) * step; time <= high && times.length < 50; time += step) times.push(time);
  return { step, times };
}

function showAxis(axis, grid, window, width) {
  const { step, times } = ticks(window, Math.max(2, Math.floor(width / 80)));
  axis.replaceChildren();
  grid.replaceChildren();
  for (const time of times) {
    const share = (time - window[0]) / (window[1] - window[0]);
    const at = `${share * 100}%`;
    const label = make("span", "tick", tickText(time, step));
    const line = make("span", "line");
    label.style.left = at;
    line.style.left = at;
    grid.append(line);
    if (share * width + LABEL <= width) axis.append(label); // else it would stand in the next column
  }
}
