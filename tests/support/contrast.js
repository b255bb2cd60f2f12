// The contrast of every text that is seen, against what lies below it, as WCAG computes it.
const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
function colour(css) {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = css;
  canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
}
function over([r, g, b, a], below) { return [r, g, b].map((v, i) => v * a / 255 + below[i] * (1 - a / 255)); }
function below(element) {
  const layers = [];
  for (let at = element; at; at = at.parentElement) layers.unshift(colour(getComputedStyle(at).backgroundColor));
  return layers.reduce((base, layer) => over(layer, base), [255, 255, 255]);
}
function light(rgb) {
  const [r, g, b] = rgb.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function weak(least) {
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    if (![...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
    if (!element.checkVisibility() || ["SCRIPT", "NOSCRIPT", "P"].includes(element.tagName)) continue;
    const ground = below(element);
    const style = getComputedStyle(element);
    const [r, g, b, a] = colour(style.color);
    let opacity = 1;
    for (let at = element; at; at = at.parentElement) opacity *= getComputedStyle(at).opacity;
    const [x, y] = [light(over([r, g, b, a * opacity], ground)), light(ground)];
    const ratio = (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
    if (ratio < least) found.push(`${element.localName}.${element.className} ${element.textContent} ${ratio}`);
  }
  return [...new Set(found)];
}
