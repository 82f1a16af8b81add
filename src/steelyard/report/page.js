"use strict";

// Tables that can be searched: sort by a heading, filter by text and by one column. Rows without a number go last.
for (const table of document.querySelectorAll("table[data-searched]")) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const order = new Map(rows.map((row, k) => [row, k]));
  const headers = [...table.querySelectorAll("th[data-sorts]")];
  const filter = document.createElement("input");
  const choice = document.createElement("select");
  const shown = document.createElement("output");

  function sort(header) {
    const rising = header.getAttribute("aria-sort") !== "ascending";
    headers.forEach((other) => other.removeAttribute("aria-sort"));
    header.setAttribute("aria-sort", rising ? "ascending" : "descending");
    const column = Number(header.dataset.sorts);
    const key = (row) => (column ? row.cells[column].dataset.sort : order.get(row));
    const sign = rising ? 1 : -1;
    rows.sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
      return sign * (Number(x) - Number(y)) || order.get(a) - order.get(b);
    });
    body.append(...rows);
  }

  function choose() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const fits = (!choice.value || row.dataset.choice === choice.value) && words.every((w) => text.includes(w));
      row.hidden = !fits;
      count += fits;
    }
    shown.textContent = `${count} of ${rows.length} shown`;
  }

  function labelled(text, control) {
    const label = document.createElement("label");
    label.append(text, control);
    return label;
  }

  for (const header of headers) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    button.addEventListener("click", () => sort(header));
    header.append(button);
  }
  const counts = new Map();
  for (const row of rows) counts.set(row.dataset.choice, (counts.get(row.dataset.choice) || 0) + 1);
  choice.append(new Option("all", ""), ...[...counts].map(([name, count]) => new Option(`${name} (${count})`, name)));
  const chosen = table.dataset.choose ? [labelled(table.dataset.choose, choice)] : [];
  filter.type = "search";
  filter.autocomplete = "off";
  filter.placeholder = "part of a name, unit …";
  shown.setAttribute("aria-live", "polite");
  const controls = document.createElement("div");
  controls.className = "controls";
  controls.append(labelled("Filter", filter), ...chosen, shown);
  table.parentElement.before(controls);
  if (headers.length) headers[0].setAttribute("aria-sort", "ascending");
  filter.addEventListener("input", choose);
  choice.addEventListener("change", choose);
  choose();
}

// Every table can be saved as CSV, with all its columns and unrounded numbers.
for (const source of document.querySelectorAll('script[type="text/csv"]')) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "save";
  button.textContent = "Save as CSV";
  button.addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([source.textContent], { type: "text/csv" }));
    link.download = `${source.dataset.table}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  source.after(button);
}

// Texts to copy: a command, a file, a program.
for (const block of document.querySelectorAll(".copy")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "save";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    const text = block.querySelector("code").textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      // a file opened from the disk may have no clipboard: select it instead
      getSelection().selectAllChildren(block.querySelector("code"));
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  block.append(button);
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// A trace says what it is; how that looks is the style sheet's.
const looks = {
  measured: () => ({ line: { color: colour("measured"), width: 3 } }),
  predicted: () => ({ line: { color: colour("predicted"), width: 1.5 } }),
  nominal: () => ({ line: { color: colour("nominal"), width: 1.2, dash: "dot" } }),
  residual: () => ({ line: { color: colour("predicted"), width: 1.2 } }),
  band: () => ({ line: { width: 0 }, fillcolor: colour("band") }),
  dots: () => ({ marker: { color: colour("measured"), size: 3, opacity: 0.7 } }),
  estimate: () => ({ line: { color: colour("predicted"), width: 1 }, marker: { color: colour("predicted"), size: 8 }, error_y: { color: colour("predicted"), thickness: 1.6, width: 4 }, error_x: { color: colour("predicted"), thickness: 1.6, width: 4 } }),
  change: () => ({ marker: { color: colour("error"), size: 8 }, error_x: { color: colour("error"), thickness: 1.6, width: 4 } }),
  quiet: () => ({ marker: { color: colour("measured"), size: 7 }, error_x: { color: colour("measured"), thickness: 1.2, width: 3 } }),
  stated: () => ({ marker: { color: colour("nominal"), size: 9, symbol: "diamond-open" } }),
  file: () => ({ color: colour("measured"), opacity: 0.35, flatshading: false }),
  identified: () => ({ color: colour("predicted"), opacity: 0.55, flatshading: false }),
  skeleton: () => ({ line: { color: colour("ink"), width: 5 }, marker: { color: colour("ink"), size: 2.5 } }),
  correlation: () => ({ colorscale: [[0, colour("predicted")], [0.5, colour("card")], [1, colour("nominal")]] }),
  numbers: () => ({ textfont: { color: colour("ink"), size: 14 } }),
};
// The colour of a role in the legend of a group.
const swatches = { dots: "measured", residual: "predicted", estimate: "predicted", change: "error", quiet: "measured", stated: "nominal", "fitted rows": "predicted", "unseen rows": "unseen", "at rest or left out": "rest" };
const ribbons = { "fitted rows": "predicted", "unseen rows": "unseen", "at rest or left out": "rest" };

const config = {
  responsive: true,
  displaylogo: false,
  // Named one by one, and no server: Plotly's own set offers to upload the chart.
  modeBarButtons: [["toImage"], ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
  plotlyServerURL: "",
};
const config3d = { ...config, modeBarButtons: [["toImage"], ["orbitRotation", "pan3d", "zoom3d", "resetCameraDefault3d"]] };

// The numbers of an array: 16-bit steps from `low`; the last code is a number that is not known.
function unpacked({ low, step, codes, log }) {
  const text = atob(codes);
  const out = new Array(text.length / 2);
  for (let k = 0; k < out.length; k++) {
    const code = text.charCodeAt(2 * k) + 256 * text.charCodeAt(2 * k + 1);
    const x = low + step * code;
    out[k] = code === 65535 ? null : log ? Math.exp(x) : x;
  }
  return out;
}

function filled(value, arrays) {
  if (Array.isArray(value)) return value.map((one) => filled(one, arrays));
  if (value === null || typeof value !== "object") return value;
  const keys = Object.keys(value);
  if (keys.length === 1 && keys[0] === "array") return unpacked(arrays[value.array]);
  return Object.fromEntries(keys.map((key) => [key, filled(value[key], arrays)]));
}

// What a legend hides together: the role of a trace, or its name where it has colours of its own.
const role = (trace) => trace.meta || trace.name;

function painted(figure, hidden = new Set()) {
  const axis = { gridcolor: colour("grid"), linecolor: colour("line"), zerolinecolor: colour("line"), ticks: "outside", tickcolor: colour("line") };
  const layout = figure.layout;
  const scene = layout.scene;
  for (const name of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key))) {
    layout[name] = { ...axis, automargin: name.startsWith("y"), ...layout[name] };
  }
  if (scene) {
    for (const name of ["xaxis", "yaxis", "zaxis"]) {
      scene[name] = { gridcolor: colour("line"), zerolinecolor: colour("line"), color: colour("pale"), showbackground: false, ...scene[name] };
    }
  }
  layout.font = { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("ink") };
  layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
  layout.hoverlabel = { bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("ink") } };
  layout.modebar = { bgcolor: "rgba(0,0,0,0)", color: colour("pale"), activecolor: colour("ink") };
  for (const slider of layout.sliders || []) {
    Object.assign(slider, { bgcolor: colour("grid"), bordercolor: colour("line"), activebgcolor: colour("accent"), font: { color: colour("pale") } });
  }
  for (const shape of layout.shapes || []) {
    shape.visible = !hidden.has(shape.name);
    if (shape.type === "line") shape.line = { color: colour("pale"), ...shape.line };
    else shape.fillcolor ??= colour(ribbons[shape.name] || "rest");
  }
  const data = figure.data.map((trace) => {
    const look = looks[trace.meta] ? looks[trace.meta]() : {};
    const own = { ...trace, ...look };
    if (hidden.has(role(trace))) own.visible = false;
    for (const key of ["line", "marker", "error_x", "error_y"]) {
      if (look[key] && !trace[key] && key.startsWith("error")) delete own[key];
      if (look[key] && trace[key]) own[key] = { ...look[key], ...trace[key] };
    }
    return own;
  });
  return { data, layout, frames: figure.frames || [] };
}

// Figures of a group next to each other, each drawn when it comes into view; printing draws all of the group.
const boxes = [...document.querySelectorAll(".figures")].map((box) => {
  const { groups, arrays } = JSON.parse(box.querySelector("script").textContent);
  const select = box.querySelector("select");
  const multiples = box.querySelector(".multiples");
  const printed = box.querySelector(".printed");
  const note = box.querySelector(".group-note");
  const linked = box.hasAttribute("data-linked");
  let group = 0;
  const legend = box.querySelector(".legend");
  const hidden = new Set();
  let spreading = false;
  const drawn = new Set();

  function draw(panel) {
    const { data, layout, frames } = painted(filled(panel.entry.figure, arrays), hidden);
    if (!layout.scene && layout.meta !== "own legend") layout.showlegend = false;
    const first = !drawn.has(panel);
    drawn.add(panel);
    // `react` ignores frames of a plot that has none yet
    const made = first ? Plotly.newPlot(panel.plot, { data, layout, frames, config: layout.scene ? config3d : config })
                       : Plotly.react(panel.plot, { data, layout, frames, config: layout.scene ? config3d : config });
    if (first && linked) made.then(() => panel.plot.on("plotly_relayout", (change) => spread(panel, change)));
  }

  // One legend for all figures of a group; a click hides or shows a curve in each.
  function explain() {
    const roles = new Map();
    const own = new Map();
    for (const { figure } of groups[group].joints) {
      if (figure.layout.scene || figure.layout.meta === "own legend" || figure.layout.showlegend === false) continue;
      for (const trace of figure.data) {
        if (trace.name && trace.showlegend !== false) roles.set(role(trace), trace.name);
        if (!trace.meta && trace.line?.color) own.set(trace.name, trace.line.color);
      }
      for (const shape of figure.layout.shapes || []) if (shape.showlegend) roles.set(shape.name, shape.name);
    }
    legend.replaceChildren(
      ...[...roles].map(([role, name]) => {
        const button = document.createElement("button");
        const swatch = document.createElement("span");
        button.type = "button";
        button.setAttribute("aria-pressed", String(!hidden.has(role)));
        swatch.style.background = own.get(role) || `var(--${swatches[role] || role})`;
        button.append(swatch, name);
        button.addEventListener("click", () => {
          if (!hidden.delete(role)) hidden.add(role);
          button.setAttribute("aria-pressed", String(!hidden.has(role)));
          drawn.forEach(draw);
        });
        return button;
      }),
    );
  }

  // A zoom along x in one figure applies to all of the group.
  function spread(from, change) {
    if (spreading) return;
    const range = change["xaxis.range[0]"] !== undefined ? [change["xaxis.range[0]"], change["xaxis.range[1]"]] : change["xaxis.range"];
    const whole = change["xaxis.autorange"];
    if (!range && !whole) return;
    spreading = true;
    const others = [...drawn].filter((panel) => panel !== from);
    Promise.all(others.map((panel) => Plotly.relayout(panel.plot, whole ? { "xaxis.autorange": true, "yaxis.autorange": true } : { "xaxis.range": range })))
      .finally(() => { spreading = false; });
  }

  const watch = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      watch.unobserve(target);
      draw(target.panel);
    }
  }, { rootMargin: "300px" });

  function fill() {
    for (const panel of drawn) Plotly.purge(panel.plot);
    drawn.clear();
    note.textContent = groups[group].note || "";
    explain();
    multiples.replaceChildren(
      ...groups[group].joints.map((entry) => {
        const figure = document.createElement("figure");
        const plot = document.createElement("div");
        const caption = document.createElement("figcaption");
        if (entry.name) {
          const heading = document.createElement("h3");
          heading.textContent = entry.name;
          figure.append(heading);
        }
        plot.className = "plot";
        plot.style.height = `${entry.figure.layout.height || 400}px`;
        caption.textContent = entry.caption;
        figure.append(plot, caption);
        figure.panel = { entry, plot };
        watch.observe(figure);
        return figure;
      }),
    );
  }

  if (select) select.addEventListener("change", () => { group = Number(select.value); fill(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach(draw));

  function print() {
    for (const entry of groups[group].joints) {
      const figure = document.createElement("figure");
      const heading = document.createElement("h3");
      const space = document.createElement("div");
      const text = document.createElement("figcaption");
      heading.textContent = [groups[group].name, entry.name].filter(Boolean).join(" · ");
      text.textContent = entry.caption;
      figure.append(heading, space, text);
      printed.append(figure);
      const { data, layout } = painted(filled(entry.figure, arrays), hidden);
      delete layout.sliders;
      Plotly.newPlot(space, data, { ...layout, width: 680, height: layout.height || 340 }, { staticPlot: true });
    }
  }
  return { fill, print, clear: () => printed.replaceChildren(), redraw: () => drawn.forEach(draw) };
});
if (typeof Plotly !== "undefined") {
  boxes.forEach((box) => box.fill());
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("printing");
    boxes.forEach((box) => box.print());
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    boxes.forEach((box) => { box.clear(); box.redraw(); });
  });
}
