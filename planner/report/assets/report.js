"use strict";
(() => {
  const views = {};
  const options = { renderer: "svg", actions: false, ast: false };
  const filters = { scheme: "all", remat: "all", fitting: "all" };

  const draw = async (script) => {
    const name = script.id.replace("spec-", "");
    const place = document.getElementById(`chart-${name}`);
    const result = await vegaEmbed(place, JSON.parse(script.textContent), options);
    views[name] = result.view;
  };

  const showRows = () => {
    const rows = [...document.querySelectorAll("#candidates tbody tr")];
    for (const row of rows) {
      const data = row.dataset;
      row.hidden = !(
        (filters.scheme === "all" || data.scheme === filters.scheme) &&
        (filters.remat === "all" || data.remat === filters.remat) &&
        (filters.fitting === "all" || data.fits === "yes")
      );
    }
    const shown = rows.filter((row) => !row.hidden).length;
    const status = document.getElementById("shown");
    if (status) status.textContent = `${shown} of ${rows.length} shown`;
  };

  const bindFilters = () => {
    for (const select of document.querySelectorAll("[data-filter]")) {
      select.addEventListener("change", () => {
        filters[select.dataset.filter] = select.value;
        if (views.pareto) views.pareto.signal(`${select.dataset.filter}_filter`, select.value).run();
        showRows();
      });
    }
  };

  const copy = async (button) => {
    const source = document.getElementById(button.dataset.copy);
    const status = document.getElementById("copied");
    try {
      await navigator.clipboard.writeText(source.textContent);
      status.textContent = `${button.textContent.replace("Copy ", "Copied ")}`;
    } catch {
      const range = document.createRange();
      range.selectNodeContents(source);
      const selection = getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
      status.textContent = "Selected; press Ctrl+C to copy";
    }
  };

  const openForPrint = () => {
    for (const one of document.querySelectorAll("figure details")) one.open = true;
  };

  bindFilters();
  for (const button of document.querySelectorAll("button.copy")) button.addEventListener("click", () => copy(button));
  addEventListener("beforeprint", openForPrint);
  const specs = [...document.querySelectorAll('script[id^="spec-"]')];
  Promise.all(specs.map(draw)).then(() => {
    document.documentElement.dataset.ready = "yes";
  });
})();
