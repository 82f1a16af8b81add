"use strict";

// Tables that can be searched: sort by a heading, filter by text and by one column. Rows without a number go last.
for (const table of document.querySelectorAll("table[data-choose]")) {
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
    const column = header.cellIndex;
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
  filter.type = "search";
  filter.autocomplete = "off";
  filter.placeholder = "part of a name, unit …";
  shown.setAttribute("aria-live", "polite");
  const controls = document.createElement("div");
  controls.className = "controls";
  controls.append(labelled("Filter", filter), labelled(table.dataset.choose, choice), shown);
  table.parentElement.before(controls);
  if (headers.length) headers[0].setAttribute("aria-sort", "ascending");
  filter.addEventListener("input", choose);
  choice.addEventListener("change", choose);
  choose();
}

// Figures: only the one that is looked at is drawn; printing draws all of the chosen group.
[...document.querySelectorAll(".figures")].forEach((box, number) => {
  const runs = JSON.parse(box.querySelector("script").textContent);
  if (!runs.length || typeof Plotly === "undefined") return;
  const tabs = box.querySelector(".tabs");
  const select = box.querySelector("select");
  const panel = box.querySelector(".panel");
  const plot = box.querySelector(".plot");
  const caption = box.querySelector("figcaption");
  const printed = box.querySelector(".printed");
  panel.id = `panel-${number}`;
  const config = {
    responsive: true,
    displaylogo: false,
    // Named one by one, and no server: Plotly's own set offers to upload the chart.
    modeBarButtons: [["toImage"], ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
    plotlyServerURL: "",
  };
  let run = 0;
  let joint = 0;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  // A trace says what it is; how that looks is the style sheet's.
  const looks = {
    measured: () => ({ color: colour("measured"), width: 3.2 }),
    predicted: () => ({ color: colour("predicted"), width: 1.5 }),
    nominal: () => ({ color: colour("nominal"), width: 1.2, dash: "dot" }),
    residual: () => ({ color: colour("predicted"), width: 1.4 }),
    unscored: () => ({ color: colour("unscored"), width: 1.2 }),
    band: () => ({ color: colour("predicted"), width: 1, dash: "dot" }),
  };

  function painted(figure) {
    const axis = { gridcolor: colour("grid"), linecolor: colour("line"), zerolinecolor: colour("line"), ticks: "outside", tickcolor: colour("line") };
    const layout = structuredClone(figure.layout);
    for (const name of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key))) {
      layout[name] = { ...axis, automargin: name.startsWith("y"), ...layout[name] };
    }
    layout.font = { family: getComputedStyle(document.body).fontFamily, size: 12.5, color: colour("ink") };
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.hoverlabel = { bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("ink") } };
    layout.modebar = { bgcolor: "rgba(0,0,0,0)", color: colour("pale"), activecolor: colour("ink") };
    for (const shape of layout.shapes || []) shape.fillcolor ??= colour("rest");
    const data = figure.data.map((trace) => (looks[trace.meta] ? { ...trace, line: looks[trace.meta]() } : trace));
    return { data, layout, frames: figure.frames || [] };
  }

  function draw() {
    const chosen = runs[run].joints[joint];
    const { data, layout, frames } = painted(chosen.figure);
    Plotly.react(plot, { data, layout, config, frames });
    caption.textContent = chosen.caption;
  }

  function show(index, focus) {
    joint = index;
    [...(tabs ? tabs.children : [])].forEach((tab, k) => {
      tab.setAttribute("aria-selected", String(k === joint));
      tab.tabIndex = k === joint ? 0 : -1;
      if (k === joint) panel.setAttribute("aria-labelledby", tab.id);
      if (k === joint && focus) tab.focus();
    });
    draw();
  }

  function fill() {
    if (tabs) {
      panel.setAttribute("role", "tabpanel");
      tabs.replaceChildren(
        ...runs[run].joints.map((entry, k) => {
          const tab = document.createElement("button");
          tab.type = "button";
          tab.id = `tab-${number}-${k}`;
          tab.setAttribute("role", "tab");
          tab.setAttribute("aria-controls", panel.id);
          tab.textContent = tab.title = entry.name;
          tab.addEventListener("click", () => show(k, false));
          return tab;
        }),
      );
    }
    show(Math.min(joint, runs[run].joints.length - 1), false);
  }

  if (tabs) {
    tabs.addEventListener("keydown", (event) => {
      const count = tabs.children.length;
      const next = { ArrowRight: joint + 1, ArrowLeft: joint - 1 + count, Home: 0, End: count - 1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      show(next % count, true);
    });
  }
  if (select) select.addEventListener("change", () => { run = Number(select.value); fill(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("printing");
    for (const entry of runs[run].joints) {
      const figure = document.createElement("figure");
      const heading = document.createElement("h3");
      const space = document.createElement("div");
      const text = document.createElement("figcaption");
      heading.textContent = [runs[run].name, entry.name].filter(Boolean).join(" · ");
      text.textContent = entry.caption;
      figure.append(heading, space, text);
      printed.append(figure);
      const { data, layout } = painted(entry.figure);
      Plotly.newPlot(space, data, { ...layout, width: 680, height: 340 }, { staticPlot: true });
    }
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    printed.replaceChildren();
    draw();
  });

  fill();
});
