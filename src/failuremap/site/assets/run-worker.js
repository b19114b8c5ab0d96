// Runs one script after the other in Python, apart from the page: it gets a script and answers with what that gave.
import { loadPyodide } from "../pyodide/pyodide.mjs";

const RUNNER = `
import contextlib, io, platform

def run_script(source):
    """Runs a script as the interpreter does: what it printed, and its exit code."""
    printed, exit_code = io.StringIO(), 0
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(source, "script.py", "exec"), {"__name__": "__main__"})
        except SystemExit as end:
            exit_code = end.code or 0
    return exit_code, printed.getvalue(), platform.python_version()

run_script
`;

const starting = loadPyodide({ indexURL: new URL("../pyodide/", import.meta.url).href })
  .then((python) => python.runPython(RUNNER));

self.addEventListener("message", async ({ data }) => {
  try {
    const runScript = await starting;
    const [exitCode, stdout, version] = runScript(data.source).toJs();
    self.postMessage({ exitCode, stdout, version });
  } catch (error) {
    self.postMessage({ error: String(error.message ?? error).trim().split("\n").at(-1) });
  }
});
