// Forms of the class "live" run Python in the reader's browser, by Pyodide, which the first run loads.

const PYODIDE = "https://cdn.jsdelivr.net/pyodide/v314.0.6/full/pyodide.mjs";
const WHEEL = new URL(`funcgrad-${DOCUMENTATION_OPTIONS.VERSION}-py3-none-any.whl`, import.meta.url);

let started;

async function start() {
  const { loadPyodide } = await import(PYODIDE);
  const python = await loadPyodide();
  await python.loadPackage("numpy");
  const wheel = await fetch(WHEEL);
  if (!wheel.ok) throw new Error(`${WHEEL} cannot be read: ${wheel.status}`);
  python.unpackArchive(await wheel.arrayBuffer(), "wheel");
  return python;
}

async function run(code, show) {
  started ??= start();
  const python = await started.catch((error) => {
    started = undefined; // the next run tries again
    throw error;
  });
  python.setStdout({ batched: show });
  const value = await python.runPythonAsync(code);
  if (value !== undefined) show(python.globals.get("repr")(value));
}

for (const form of document.querySelectorAll("form.live")) {
  const { code, run: button, out } = form.elements;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    out.value = started ? "" : "Python is loading: some 15 MB, once.";
    const lines = [];
    try {
      await run(code.value, (text) => lines.push(text));
    } catch (error) {
      lines.push(error.message);
    }
    out.value = lines.join("\n");
    button.disabled = false;
  });
}
