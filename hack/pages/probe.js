// Collects the errors of the page, measures it once it is loaded, and reports to the frame around it.
(() => {
  const errors = [];
  addEventListener("error", e => errors.push(e.message || "a resource failed to load"), true);
  addEventListener("unhandledrejection", e => errors.push(String(e.reason)));
  addEventListener("securitypolicyviolation", e => errors.push(e.violatedDirective));
  const original = console.error;
  console.error = (...all) => { errors.push(all.join(" ")); original(...all); };

  const numbers = color => (color.match(/[\d.]+/g) || []).map(Number);
  const opaque = color => { const n = numbers(color); return n.length >= 3 && (n.length < 4 || n[3] > .9); };
  const luminance = color => {
    const [r, g, b] = numbers(color).map(v => { const s = v / 255; return s <= .03928 ? s / 12.92 : ((s + .055) / 1.055) ** 2.4; });
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const color = getComputedStyle(e).backgroundColor;
      if (opaque(color)) return color;
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? "rgb(18, 18, 18)" : "rgb(255, 255, 255)";
  };
  const contrast = (a, b) => { const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };

  addEventListener("load", () => {
    const found = { errors, width: document.documentElement.scrollWidth, texts: 0, smallest: 1e9, smallestText: "", contrast: 21, contrastText: "" };
    for (const e of document.body.querySelectorAll("*")) {
      const text = [...e.childNodes].filter(n => n.nodeType === 3).map(n => n.textContent).join("").trim();
      const box = e.getBoundingClientRect();
      if (!text || !box.width || e.closest("title, script, style")) continue;
      found.texts++;
      const style = getComputedStyle(e), svg = e.ownerSVGElement;
      const scale = svg ? svg.getScreenCTM().a : 1;
      const size = parseFloat(style.fontSize) * scale;
      if (size < found.smallest) { found.smallest = size; found.smallestText = text; }
      if (svg && !e.matches(".ip, .axis, .soft")) continue; // what is below the others is a shape, not a background
      const ratio = contrast(svg ? style.fill : style.color, behind(svg ? svg.parentElement : e));
      if (ratio < found.contrast) { found.contrast = ratio; found.contrastText = text; }
    }
    parent.postMessage(JSON.stringify(found), "*");
  });
})();
