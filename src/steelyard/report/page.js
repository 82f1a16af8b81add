"use strict";

// The table of parameters: sort by a header, filter by text and by quality. Rows without a number go last.
(() => {
  const table = document.getElementById("table");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const headers = [...table.querySelectorAll("th[data-column]")];
  const filter = document.getElementById("filter");
  const quality = document.getElementById("quality");
  const shown = document.getElementById("shown");

  function sort(header) {
    const rising = header.getAttribute("aria-sort") !== "ascending";
    headers.forEach((other) => other.removeAttribute("aria-sort"));
    header.setAttribute("aria-sort", rising ? "ascending" : "descending");
    const key = (row) => row.dataset[header.dataset.column];
    const sign = rising ? 1 : -1;
    rows.sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
      return sign * (Number(x) - Number(y)) || Number(a.dataset.order) - Number(b.dataset.order);
    });
    body.append(...rows);
  }

  function choose() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const fits = (!quality.value || row.dataset.quality === quality.value) && words.every((w) => text.includes(w));
      row.hidden = !fits;
      count += fits;
    }
    shown.textContent = `${count} of ${rows.length} shown`;
  }

  for (const header of headers) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    button.addEventListener("click", () => sort(header));
    header.append(button);
  }
  filter.addEventListener("input", choose);
  quality.addEventListener("change", choose);
})();

// Effort over time: only the joint that is looked at is drawn; printing draws all joints of the chosen run.
(() => {
  const runs = JSON.parse(document.getElementById("figures").textContent);
  if (!runs.length || typeof Plotly === "undefined") return;
  const tabs = document.getElementById("joints");
  const select = document.getElementById("run");
  const panel = document.getElementById("panel");
  const plot = document.getElementById("plot");
  const caption = document.getElementById("caption");
  const printed = document.getElementById("printed");
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
  };

  function painted(figure) {
    const axis = { gridcolor: colour("grid"), linecolor: colour("line"), zerolinecolor: colour("line"), ticks: "outside", tickcolor: colour("line") };
    const layout = structuredClone(figure.layout);
    for (const name of ["xaxis", "yaxis", "yaxis2"]) layout[name] = { ...axis, ...layout[name] };
    layout.yaxis.automargin = layout.yaxis2.automargin = true;
    layout.font = { family: getComputedStyle(document.body).fontFamily, size: 12.5, color: colour("ink") };
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.hoverlabel = { bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("ink") } };
    layout.modebar = { bgcolor: "rgba(0,0,0,0)", color: colour("pale"), activecolor: colour("ink") };
    for (const shape of layout.shapes) shape.fillcolor = colour("rest");
    return { data: figure.data.map((trace) => ({ ...trace, line: looks[trace.meta]() })), layout };
  }

  function draw() {
    const chosen = runs[run].joints[joint];
    const { data, layout } = painted(chosen.figure);
    Plotly.react(plot, data, layout, config);
    caption.textContent = chosen.caption;
  }

  function show(index, focus) {
    joint = index;
    [...tabs.children].forEach((tab, k) => {
      tab.setAttribute("aria-selected", String(k === joint));
      tab.tabIndex = k === joint ? 0 : -1;
      if (k === joint) panel.setAttribute("aria-labelledby", tab.id);
      if (k === joint && focus) tab.focus();
    });
    draw();
  }

  function fill() {
    tabs.replaceChildren(
      ...runs[run].joints.map((entry, k) => {
        const tab = document.createElement("button");
        tab.type = "button";
        tab.id = `joint-${k}`;
        tab.setAttribute("role", "tab");
        tab.setAttribute("aria-controls", "panel");
        tab.textContent = tab.title = entry.name;
        tab.addEventListener("click", () => show(k, false));
        return tab;
      }),
    );
    show(Math.min(joint, runs[run].joints.length - 1), false);
  }

  tabs.addEventListener("keydown", (event) => {
    const count = tabs.children.length;
    const next = { ArrowRight: joint + 1, ArrowLeft: joint - 1 + count, Home: 0, End: count - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    show(next % count, true);
  });
  if (select) select.addEventListener("change", () => { run = Number(select.value); fill(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("printing");
    for (const entry of runs[run].joints) {
      const figure = document.createElement("figure");
      const heading = document.createElement("h3");
      const space = document.createElement("div");
      const text = document.createElement("figcaption");
      heading.textContent = `${runs[run].name} · ${entry.name}`;
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
})();
