"use strict";
(() => {
  const all = (query, root = document) => [...root.querySelectorAll(query)];
  const tip = document.getElementById("tip");
  const about = (trial) => all(`[data-trial="${CSS.escape(trial)}"]`);

  // What a point says, beside it, for the mouse and for the keyboard.
  const place = (item) => {
    const box = item.getBoundingClientRect();
    const left = Math.min(Math.max(8, box.left + box.width / 2 - tip.offsetWidth / 2),
      document.documentElement.clientWidth - tip.offsetWidth - 8);
    const above = box.top - tip.offsetHeight - 8;
    tip.style.left = `${left}px`;
    tip.style.top = `${above > 0 ? above : box.bottom + 8}px`;
  };
  let kept = "";  // the trial that a click has marked
  const show = (item) => {
    tip.textContent = item.getAttribute("aria-label");
    tip.hidden = false;
    place(item);
    if (item.dataset.trial) about(item.dataset.trial).forEach((other) => other.classList.add("hl"));
  };
  const hide = (item) => {
    tip.hidden = true;
    if (item.dataset.trial && item.dataset.trial !== kept)
      about(item.dataset.trial).forEach((other) => other.classList.remove("hl"));
  };
  const mark = (item) => {
    kept = item.dataset.trial === kept ? "" : item.dataset.trial;
    all(".hl").forEach((other) => other.classList.remove("hl"));
    all("svg.chart [data-trial]").forEach((other) =>
      other.classList.toggle("dim", kept !== "" && other.dataset.trial !== kept));
    if (kept) about(kept).forEach((other) => other.classList.add("hl"));
  };
  const points = all(".point[role=img]");
  points.forEach((item) => {
    item.addEventListener("pointerenter", () => show(item));
    item.addEventListener("pointerleave", () => hide(item));
    item.addEventListener("focus", () => show(item));
    item.addEventListener("blur", () => hide(item));
    item.addEventListener("click", () => mark(item));
    item.addEventListener("keydown", (event) => { if (event.key === "Enter") mark(item); });
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });
  // The focus scrolls its point into view: the words follow it, those of the mouse go.
  document.addEventListener("scroll", () => {
    const focused = document.activeElement;
    if (focused?.matches?.(".point")) place(focused); else tip.hidden = true;
  }, { passive: true });

  // One stop of the tab key for each chart; arrows go from point to point.
  all("svg.chart").forEach((chart) => {
    const points = all(".point[role=img]", chart);
    points.forEach((point, place) => {
      point.setAttribute("tabindex", place ? "-1" : "0");
      point.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        const end = { Home: 0, End: points.length - 1 }[event.key];
        if (step === undefined && end === undefined) return;
        event.preventDefault();
        const next = points[end ?? (place + step + points.length) % points.length];
        point.setAttribute("tabindex", "-1");
        next.setAttribute("tabindex", "0");
        next.focus();
      });
    });
  });

  // Tables that sort by a click on a column's name.
  all("table.sortable").forEach((table) => {
    const body = table.tBodies[0];
    all("thead th", table).forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        all("thead th", table).forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => {
          const cell = row.cells[column];
          const value = parseFloat(cell.dataset.value === "inf" ? "Infinity" : cell.dataset.value);
          return Number.isNaN(value) ? cell.textContent.trim() : value;
        };
        const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b
          : typeof a === "number" ? -1 : typeof b === "number" ? 1 : a.localeCompare(b);
        const rows = [...body.rows].sort((a, b) => compare(key(a), key(b)) * (down ? -1 : 1));
        body.append(...rows);
      });
    });
  });

  all("pre[data-copy]").forEach((block) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "plain copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy ${block.dataset.copy}`);
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(block.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(block); // a file's page may not write to the clipboard
        button.textContent = "Selected: copy with the keyboard";
      }
    });
    block.before(button);
  });
  // A table that goes on beyond the edge says so, above it and by a shadow at that edge.
  all(".scroll").forEach((part) => {
    const words = document.createElement("p");
    words.className = "more";
    words.setAttribute("aria-hidden", "true");
    words.textContent = "↔ wider than the page: move it sideways";
    part.before(words);
    const update = () => {
      const over = part.scrollWidth - part.clientWidth;
      words.hidden = over < 4;
      part.classList.toggle("more-left", over >= 4 && part.scrollLeft > 2);
      part.classList.toggle("more-right", over >= 4 && part.scrollLeft < over - 2);
    };
    part.addEventListener("scroll", update, { passive: true });
    addEventListener("resize", update);
    update();
  });
  addEventListener("beforeprint", () => all("details").forEach((part) => { part.open = true; }));
})();
