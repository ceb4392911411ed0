"""Weaken the hand-over of work one line at a time; the models of tests/loom must fail each time.

Run by ``make loom``, after the models have passed on the files as they are.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
MODULES = ["src/dispatch/handover.rs", "src/dispatch/linger.rs"]
CRATE = "tests/loom"

# What is broken, the line, and what stands in its place.
MUTANTS = [
    (
        "leaving does not publish what the worker did",
        "self.state.fetch_sub(2, Ordering::Release) == 3",
        "self.state.fetch_sub(2, Ordering::Relaxed) == 3",
    ),
    (
        "the caller does not see what the workers did",
        "self.state.load(Ordering::Acquire) == 1",
        "self.state.load(Ordering::Relaxed) == 1",
    ),
    ("the gate is not closed", "        gate.close();\n", ""),
    (
        "a closed gate lets workers in",
        "(state & 1 == 0).then_some(state + 2)",
        "Some(state + 2)",
    ),
    (
        "entering is two steps",
        "self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, open).is_ok()",
        "open(self.state.load(Ordering::Relaxed))"
        ".map(|next| self.state.store(next, Ordering::Relaxed)).is_some()",
    ),
    (
        "closing forgets who is inside",
        "self.state.fetch_or(1, Ordering::Relaxed);",
        "self.state.store(1, Ordering::Relaxed);",
    ),
    ("the caller does not wait", "        gate.wait_until_empty();\n", ""),
    (
        "a panic of the caller skips the guard",
        "if self.is_forked.get() {",
        "if self.is_forked.get() || std::thread::panicking() {",
    ),
    (
        "the guard is made after the jobs were handed out, and a panic passes it",
        "    mine();\n    drop(open);\n",
        "    std::mem::forget(open);\n    mine();\n"
        "    drop(OpenOffer { post, job: &job, is_offered: awake > 0, is_forked });\n",
    ),
    ("an offer is not withdrawn", "            self.post.withdraw(self.job);\n", ""),
    ("nobody wakes the caller", "            self.left.notify_all();\n", ""),
    (
        "the caller is woken without the lock",
        "            drop(self.first_panic());\n",
        "",
    ),
    ("the wrong worker wakes the caller", "Ordering::Release) == 3", "Ordering::Release) == 2"),
    (
        "a worker's panic is forgotten",
        "            self.panicked.store(true, Ordering::Relaxed);\n",
        "",
    ),
    (
        "a worker runs its job without the gate",
        "if self.gate.enter() {",
        "if self.gate.enter() || true {",
    ),
    (
        "an offer is made without the lock being given back",
        "        drop(offer);\n        self.offers",
        "        std::mem::forget(offer);\n        self.offers",
    ),
]


def fails(tree: Path) -> bool:
    """Whether the models fail on the files of a tree; a tree that does not compile is an error."""
    target = ROOT / "target" / "loom"
    command = ["cargo", "rustc", "--release", "--quiet", "--locked", "--target-dir", str(target)]
    subprocess.run([*command, "--", "-Awarnings"], cwd=tree / CRATE, check=True)
    models = target / "release" / "raptors-arrow-loom"
    return subprocess.run([models], capture_output=True, timeout=600).returncode != 0


def main() -> None:
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        shutil.copytree(ROOT / CRATE, tree / CRATE)
        (tree / MODULES[0]).parent.mkdir(parents=True)
        for what, line, instead in MUTANTS:
            found = 0
            for module in MODULES:
                text = (ROOT / module).read_text()
                found += text.count(line)
                (tree / module).write_text(text.replace(line, instead))
            if found != 1:
                sys.exit(f"{what}: its line is there {found} times, not once")
            caught = fails(tree)
            print(f"{'caught' if caught else 'SURVIVED'}: {what}", flush=True)
            if not caught:
                survivors.append(what)
    if survivors:
        sys.exit(f"{len(survivors)} of {len(MUTANTS)} mutants survived")


if __name__ == "__main__":
    main()
